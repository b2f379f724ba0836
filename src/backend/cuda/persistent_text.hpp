#pragma once
// One kernel that runs the launches of a SuperKernel (program::Launch::phase) phase by phase on
// blocks that stay on their multiprocessors. Blocks pass values through exchanged memory, in which
// every element has a flag, so a block waits for the elements that it reads and for nothing else.
// It copies them to shared memory, where the texts of the launches read them as they would read
// global memory. Other memory that one phase writes and another reads is ordered by counters: a
// phase may wait until all blocks have ended an earlier one (Launch::after_phase).

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backend/cuda/kernel_text.hpp"

namespace gex::backend::cuda {

// A launch of a persistent kernel.
struct PhasePart {
  // A buffer that is copied from exchanged memory to shared memory before the launch runs.
  struct Staged {
    std::vector<int> buffers;  // positions among the launch's buffers
    int element_bytes = 0;
    std::int64_t elements = 0;
  };
  const KernelText* text = nullptr;
  int first_word = 0;  // from the words of the kernel's first launch
  std::int64_t grid = 0;
  std::vector<Staged> staged;
  // Small read-only buffers, which are requested before the block waits: position and bytes.
  std::vector<std::pair<int, std::int64_t>> touched;
};

struct Phase {
  std::vector<PhasePart> parts;  // run concurrently
  int after = -1;                // index of the phase that must have ended in all blocks
  // Indices of the phases that must have ended in all blocks that have work in them.
  std::vector<int> waits_for;
  // Launch::recomputed: runs in every block before its part; its result is in shared memory.
  struct Local {
    PhasePart part;
    int result = 0;  // position of its result among its buffers
    std::int64_t result_bytes = 0;
    std::vector<std::vector<int>> read_by;  // by part: positions of the buffers that read it
  };
  std::vector<Local> locals;  // at most one
};

// At most this many words of one phase, with those of its local launch.
inline constexpr int kMostPhaseWords = 256;

// The words of the kernel are preceded by those of the fill step that clears the exchanged memory:
// [address] [bytes]. The memory begins with one 4-byte counter for each phase.
KernelText persistent_kernel(std::span<const Phase> phases, const DeviceLimits& limits);

}  // namespace gex::backend::cuda
