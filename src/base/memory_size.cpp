#include "base/memory_size.hpp"

#include <sys/sysinfo.h>

#include <limits>

namespace gex {

std::size_t total_memory() {
  static const std::size_t total = [] {
    struct sysinfo info = {};
    if (sysinfo(&info) != 0) return std::numeric_limits<std::size_t>::max();
    return (static_cast<std::size_t>(info.totalram) + info.totalswap) * info.mem_unit;
  }();
  return total;
}

}  // namespace gex
