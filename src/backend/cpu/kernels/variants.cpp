#include "backend/cpu/kernels/variants.hpp"

#include <array>
#include <cstddef>

#include "base/cpu_level.hpp"

namespace gex::kernels {

namespace baseline {
extern const Variant variant;
}
#if defined(GEX_KERNELS_X86)
namespace avx2 {
extern const Variant variant;
}
namespace avx512 {
extern const Variant variant;
}
#endif

namespace {

struct Usable {
  std::array<const Variant*, 3> list{};
  std::size_t count = 0;

  Usable() {
#if defined(GEX_KERNELS_X86)
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("f16c");
    const bool has_avx512 =
        has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    const int level = cpu_level_limit();
    if (has_avx512 && level >= 4) list[count++] = &avx512::variant;
    if (has_avx2 && level >= 3) list[count++] = &avx2::variant;
#endif
    list[count++] = &baseline::variant;
  }
};

}  // namespace

std::span<const Variant* const> usable_variants() {
  static const Usable usable;
  return {usable.list.data(), usable.count};
}

}  // namespace gex::kernels
