#pragma once
// Shared by the kernels of all problems: the layout of a launch's words, element types, and the
// frame of a source.

#include <string>

#include "backend/cuda/kernel_text.hpp"

namespace gex::backend::cuda {

// A problem being written: its launch's buffers are the operands, then the epilogue's or the
// results, then the inputs of prologues, then the workspace.
struct ProblemText {
  // `dims`: of the launch. Those that are constants are constants in the text.
  ProblemText(std::string name_of_function, const AttachedKernels& attached_kernels, int operands,
              int results, bool has_workspace, std::span<const Dim> dims,
              const DeviceLimits& device);

  const AttachedKernels& attached;
  std::span<const Dim> dims;
  const DeviceLimits& limits;
  std::string name;
  int buffers;                  // of the launch
  int first_result;             // the buffer after the operands
  std::string text;             // declarations so far
  std::int64_t tile_bytes = 0;  // of shared memory for tile_product

  bool has_epilogue() const { return attached.epilogue != nullptr; }
  std::string word(int buffer) const { return "words[" + std::to_string(buffer) + "]"; }

  void constant(const std::string& constant_name, std::int64_t value);
  // typedef of the memory type as NAME, and `Acc widen_NAME(NAME)`.
  void element_type(const std::string& type_name, DType dtype);
  // typedef of the memory type as NAME, and `NAME narrow_NAME(Acc)`.
  void result_type(const std::string& type_name, DType dtype);
  // Acc: float; double for operands of f64, int for integers.
  void accumulator(DType operand);
  // The text of tile_product; after accumulator().
  void tile_product(DType operand);
  // struct NAME { bind(words, buffer); Acc operator()(i64 offset) }: an operand in memory, or one
  // computed by its prologue.
  void operand(const std::string& struct_name, int number, DType dtype);
  // struct Finish { bind(words); operator()(i64 point, i64 offset, Acc value) }: the epilogue at a
  // point of the result's dense grid, or a store at an offset of the result.
  void finish(DType dtype);

  // By buffer of the launch: `operands` for the operands, then what the attached kernels allow.
  std::vector<bool> exchangeable(std::vector<bool> operands) const;

  // The whole source: declarations, then `body`, the statements of the kernel. `prepare`:
  // statements of KernelText::prepares; `body` must then wait for the preceding kernels itself.
  KernelText done(const std::string& body, int threads, Dim grid, Dim shared_bytes,
                  Dim workspace_bytes, int min_blocks = 1, int cluster = 1,
                  const std::string& prepare = {}) const;
};

// One block per work item, at most a few per multiprocessor.
Dim capped_grid(Dim work, const DeviceLimits& limits, int blocks_each);

KernelText matmul_text(const problems::MatmulProblem& problem, const AttachedKernels& attached,
                       std::span<const Dim> dims, const DeviceLimits& limits);
KernelText grouped_text(const problems::GroupedMatmulProblem& problem, std::span<const Dim> dims,
                        const DeviceLimits& limits);
KernelText grouped_grad_text(const problems::GroupedMatmulProblem& problem,
                             std::span<const Dim> dims, const DeviceLimits& limits);
KernelText quantised_text(const problems::QuantisedMatmulProblem& problem,
                          const AttachedKernels& attached, std::span<const Dim> dims,
                          const DeviceLimits& limits);
KernelText conv2d_text(const problems::Conv2dProblem& problem, const AttachedKernels& attached,
                       std::span<const Dim> dims, const DeviceLimits& limits);
KernelText conv2d_weight_grad_text(const problems::Conv2dProblem& problem,
                                   std::span<const Dim> dims, const DeviceLimits& limits);
KernelText conv2d_input_grad_text(const problems::Conv2dProblem& problem, std::span<const Dim> dims,
                                  const DeviceLimits& limits);
KernelText attention_text(const problems::AttentionProblem& problem,
                          const AttachedKernels& attached, std::span<const Dim> dims,
                          const DeviceLimits& limits);
KernelText sort_text(const problems::SortProblem& problem, std::span<const Dim> dims,
                     const DeviceLimits& limits);

}  // namespace gex::backend::cuda
