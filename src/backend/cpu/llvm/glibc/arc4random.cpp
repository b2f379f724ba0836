// Part of libgex_llvm where LLVM is inside: the only function of its libraries that needs
// glibc 2.36. Hidden, so no other library of the process sees it.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value) std::abort();
  return value;
}
