#include "backend/cpu/kernels/variants.hpp"

#include <array>
#include <cstddef>

#include "base/cpu_level.hpp"
#include "base/error.hpp"

namespace gex::kernels {

// kernels.cmake defines GEX_KERNELS_<VARIANT> for each variant of the build.
namespace baseline {
extern const Variant variant;
}
namespace avx2 {
extern const Variant variant;
}
namespace avx512 {
extern const Variant variant;
}

namespace {

struct Usable {
  std::array<const Variant*, 3> list{};
  std::size_t count = 0;

  Usable() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    [[maybe_unused]] const int level = cpu_level_limit();
    [[maybe_unused]] const bool has_avx2 = __builtin_cpu_supports("avx2") &&
                                           __builtin_cpu_supports("fma") &&
                                           __builtin_cpu_supports("f16c");
    [[maybe_unused]] const bool has_avx512 =
        has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
#if defined(GEX_KERNELS_AVX512)
    if (has_avx512 && level >= 4) list[count++] = &avx512::variant;
#endif
#if defined(GEX_KERNELS_AVX2)
    if (has_avx2 && level >= 3) list[count++] = &avx2::variant;
#endif
#if defined(GEX_KERNELS_BASELINE)
    list[count++] = &baseline::variant;
#endif
    if (count == 0)
      fail(ErrorCode::unsupported,
           "this build only has kernels for another processor, or GEX_CPU excludes them: configure "
           "with -DGEX_NATIVE_KERNELS=OFF (make build does)");
  }
};

}  // namespace

std::span<const Variant* const> usable_variants() {
  static const Usable usable;
  return {usable.list.data(), usable.count};
}

}  // namespace gex::kernels
