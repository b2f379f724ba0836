#pragma once
// How much memory the engine holds in this process, by what it is for.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gex::runtime {

// temporaries: arenas, with the scratch of workers; weights: folded, packed or copied to a device;
// constants: copies of a Program's own on a device; staging: host tensors on their way to a device.
enum class MemoryUse { temporaries, weights, constants, staging };
inline constexpr std::array<std::string_view, 4> kMemoryUses = {"temporaries", "weights",
                                                                "constants", "staging"};

struct MemoryAmount {
  std::int64_t current = 0, peak = 0;  // bytes; the peak since the process began or it was reset
  std::int64_t allocations = 0;
};

struct MemoryUsage {
  MemoryAmount all;
  std::array<MemoryAmount, kMemoryUses.size()> of;  // by MemoryUse
};

// Thread-safe, and cheap beside what they count.
void count_allocated(MemoryUse use, std::size_t bytes) noexcept;
void count_freed(MemoryUse use, std::size_t bytes) noexcept;
MemoryUsage memory_usage();
void reset_memory_peaks();

}  // namespace gex::runtime
