#pragma once
// CUDA C text of loop kernels and of problems. A kernel takes one argument, the words of its launch
// in the parameter block (runtime/recorder.hpp): addresses of its buffers, then the values of its
// dims. So one compiled function, and a captured graph that launches it, serve every size and
// address. Blocks use grid-stride loops, so any number of blocks computes the same bits.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/forms.hpp"
#include "base/dim/dim.hpp"
#include "loop/kernel.hpp"
#include "problems/problem.hpp"

namespace gex::backend::cuda {

using backend::AttachedKernels;

struct DeviceLimits {
  int multiprocessors = 132;
  std::int64_t shared_bytes = 227 * 1024;  // of one block, at most
  std::string architecture = "sm_90";
  // Kernels are launched with programmatic stream serialization: each waits until its predecessors'
  // writes are visible, and lets its successor begin early.
  bool dependent_launch = false;
  // Blocks can be launched in clusters, which read each other's shared memory.
  bool clusters = true;
  // The texts are phases of a persistent kernel (persistent_text.hpp).
  bool persistent = false;
  // Static code: the values of the launch's dims, which are constants of the text. Everything else
  // is as in generic code, so that both give the same bits. Empty: they are read from the words.
  std::vector<std::int64_t> values;
  // How to compute the problem, instead of as the cost model says; then all dims are constants.
  std::optional<Form> form;
};

// "sm_90" -> 90; 0 for names of another form.
int compute_capability(std::string_view architecture);
DeviceLimits device_limits(const std::string& architecture, int multiprocessors);

struct KernelText {
  std::string name;       // of the extern "C" function
  std::string source;     // whole translation unit, no includes
  std::string part;       // declarations, then `run(const i64* words, Blocks block)`
  int block = 0;          // threads in a block
  int min_blocks = 0;     // that a multiprocessor must be able to hold; 0: any number
  int cluster = 1;        // blocks of a cluster
  bool specific = false;  // Source::specific
  bool waits = false;     // for the kernel before it: DeviceLimits::dependent_launch
  // `part` also defines `prepare(words, block, Requested&)`, which reads only memory that no kernel
  // writes and so may run before the wait; its `run` takes the requested values.
  bool prepares = false;
  int words = 0;     // buffers and dims
  Dim grid;          // blocks
  Dim shared_bytes;  // dynamic shared memory of a block
  std::int64_t static_bytes =
      0;                // upper bound of static shared memory; merged launches need the sum
  Dim workspace_bytes;  // global scratch; when not 0, its address is the launch's last buffer
  bool phase = false;   // LaunchPlan::phase
  std::vector<bool> exchangeable;  // LaunchPlan::exchangeable
  // As a phase: a product of few rows of 16-bit floats, whose weights the persistent kernel itself
  // reads and multiplies. `part` then defines `finish(words, row, col, sum)` and, if the left
  // operand is computed, `stage_left(words, x)` instead of `run`.
  struct Product {
    std::int64_t rows = 0, cols = 0, depth = 0, stride = 0;  // stride: of the weights' columns
    bool bf16 = false, computed = false;
  };
  std::optional<Product> product;
};

// Both throw UserError(unsupported) that names the unsupported construct. grid, shared_bytes and
// workspace_bytes are expressions over the kernel's symbols, or over those of `dims`.
// `exchanged`: by buffer of the launch (BufferDesc::exchanged).
KernelText emit(const loop::Kernel& kernel, const DeviceLimits& limits = {},
                const std::vector<bool>& exchanged = {});
KernelText emit(const problems::Problem& problem, const AttachedKernels& attached,
                std::span<const Dim> dims, const DeviceLimits& limits = {});

// Sets `source` from `part`.
void finish_source(KernelText& text);

// Merges independent launches into one kernel: its blocks are those of the first part, then those
// of the second, and so on. The words of the parts are stored one after the other.
struct MergedPart {
  const KernelText* text = nullptr;
  int first_word = 0;  // from the words of the first part
  Dim grid;            // read from word `grid_word` where it is not a constant
  int grid_word = 0;
  // Not a part with blocks of its own: every block of the parts that read its result runs it first
  // (Launch::recomputed). The result, at this position of its buffers, is in shared memory.
  int result = -1;
  std::int64_t result_bytes = 0;
  // Buffers of this part that are results of repeated parts: position, and which part.
  std::vector<std::pair<int, std::size_t>> repeated;
};
// Limit on the static shared memory of a part: a kernel may have 48 KiB.
inline constexpr std::int64_t kMostStaticBytes = 48 * 1024 / kMostMergedParts;
// The parts must have the same number of threads and no clusters.
KernelText merge(std::span<const MergedPart> parts);

// Helper functions at the start of every source.
std::string_view prelude();

}  // namespace gex::backend::cuda
