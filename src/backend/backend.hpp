#pragma once
// The interface between the compiler and a device: the layout of a launch, packed layouts of
// constant operands, and code for the kernels and problems of a Program. A backend sees loop
// kernels and problems, never a Node.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dim/dim.hpp"
#include "problems/problem.hpp"
#include "program/executable.hpp"
#include "program/specialiser.hpp"
#include "target/target.hpp"

namespace gex {
class Store;
}
namespace gex::loop {
struct Kernel;
}

namespace gex::backend {

// Launches that are merged into one kernel, at most.
inline constexpr int kMostMergedParts = 6;

// The layout of one launch, over the launch's symbols.
struct LaunchPlan {
  Dim grid;                // CPU: points; CUDA: blocks
  Dim scratch_bytes;       // CPU: per worker; CUDA: shared memory of a block
  Dim workspace_bytes;     // of the whole launch, passed as the last buffer; 0: none
  int block = 0;           // CUDA: threads per block
  std::string algorithm;   // for Code::algorithm
  bool mergeable = false;  // may be merged with concurrent launches into one kernel
  bool library = false;    // a call of a library, which may run beside other such calls
  bool phase = false;      // may be a phase of a persistent kernel (Launch::phase)
  // By buffer of the launch: whether it can be written as an exchanged buffer
  // (BufferDesc::exchanged).
  std::vector<bool> exchangeable;
};

// Loop kernels that a problem's kernel calls for each element.
struct AttachedKernels {
  // Elementwise over the dense grid of the result. Its buffer 0 is the finished accumulator; the
  // others are the launch's buffers after the operands.
  const loop::Kernel* epilogue = nullptr;
  int extra_buffers = 0;
  int epilogue_dims_begin = 0;  // its symbols in the launch's dims

  // Computes an operand, elementwise over the operand's dense grid; stores to its last parameter.
  struct Prologue {
    const loop::Kernel* kernel = nullptr;
    int operand = 0;
    int first_buffer = 0, input_buffers = 0;  // in the launch's buffers
    int dims_begin = 0;
  };
  std::vector<Prologue> prologues;
  // No kernel writes the right operand of the matmul (weights): a dependent launch may read it
  // before it waits for its predecessor.
  bool constant_right = false;
  // By buffer of the launch (BufferDesc::exchanged). Those that are read are in shared memory.
  std::vector<bool> exchanged;
};

// A constant operand in the layout that the target's kernel reads fastest; written once.
struct PackedOperand {
  std::string form;  // operands with equal forms and dims share one copy
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  std::vector<std::int64_t> dims;
  std::int64_t grid = 0;
};

struct PackOptions {
  bool winograd = true;  // weights of convolutions may be transformed for Winograd's algorithm
};

// Passes that run, or do not run, on a target regardless of their level.
struct PassSwitches {
  std::vector<std::string> disabled, enabled;
};

struct CodeOptions {
  bool generate_code = true;  // false: loop kernels run in the interpreter (CPU only)
  bool fast_math = false;
  bool autotune = false;
  std::shared_ptr<Store> cache;  // null: nothing is kept between processes
  bool keep_static_code = true;  // also keep code specialised for one set of sizes
};

struct CompiledCode {
  program::Executable executable;
  std::shared_ptr<program::Specialiser> specialiser;  // may be null
  std::string generator;  // "llvm (znver4, 64-byte vectors)", "interpreter: <why>", "nvrtc (sm_90)"
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Completes a parsed target with the properties of the device. UserError if there is no such
  // device and nothing can be compiled for it.
  virtual Target describe(Target target) const = 0;
  // Everything besides the Program and the options that plans and code depend on: part of cache
  // keys.
  virtual std::string fingerprint(const Target& target, const CodeOptions& options) const = 0;

  // Optional, default none.
  virtual PassSwitches pass_switches() const { return {}; }

  virtual LaunchPlan plan(const loop::Kernel& kernel, const Target& target) const = 0;
  virtual LaunchPlan plan(const problems::Problem& problem, const AttachedKernels& attached,
                          std::span<const Dim> dims, const Target& target) const = 0;

  // Optional, default nothing. Changes `problem` and `dims` to read constant operand `operand` in a
  // packed layout. Returns nothing, and changes nothing, if the kernel reads the operand in place.
  virtual std::optional<PackedOperand> pack_operand(problems::Problem& /*problem*/, int /*operand*/,
                                                    std::vector<Dim>& /*dims*/,
                                                    const PackOptions& /*options*/) const {
    return std::nullopt;
  }
  // Packs host memory. `problem` is that of the launch that reads the packed copy.
  virtual void pack(const problems::Problem& problem, std::span<const std::int64_t> dims,
                    std::int64_t grid, const void* source, void* packed) const;
  virtual bool has_packing(const problems::Problem& /*problem*/) const { return false; }

  // Code for everything that the Program launches.
  virtual CompiledCode compile(std::shared_ptr<const program::Program> program,
                               const CodeOptions& options) const = 0;
};

// The backend for a kind of target; never destroyed.
const Backend& backend_for(Target::Kind kind);

// Completes "cpu" or "cuda:N" with the properties of the device.
Target find_target(std::string_view text);

}  // namespace gex::backend
