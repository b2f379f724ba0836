#include <charconv>

#include "backend/cuda/kernel_text.hpp"

namespace gex::backend::cuda {

int compute_capability(std::string_view architecture) {
  int number = 0;
  constexpr std::string_view kPrefix = "sm_";
  if (architecture.starts_with(kPrefix))
    std::from_chars(architecture.data() + kPrefix.size(), architecture.data() + architecture.size(),
                    number);
  return number;
}

namespace {

// What the CUDA programming guide gives for one block.
std::int64_t shared_kilobytes(int capability) {
  switch (capability) {
    case 80:
    case 87:
      return 163;
    case 86:
    case 89:
    case 120:
    case 121:
      return 99;
    default:
      return 227;
  }
}

}  // namespace

DeviceLimits device_limits(const std::string& architecture, int multiprocessors) {
  const int capability = compute_capability(architecture);
  DeviceLimits limits;
  limits.multiprocessors = multiprocessors;
  limits.architecture = architecture;
  limits.shared_bytes = shared_kilobytes(capability) * 1024;
  limits.dependent_launch = limits.clusters = capability >= 90;
  return limits;
}

}  // namespace gex::backend::cuda
