#include "base/dtype.hpp"

#include <array>

#include "base/error.hpp"

namespace gex {

namespace {

struct Info {
  std::string_view name;
  std::size_t size;
};

constexpr std::array<Info, kDTypeCount> kInfo = {{
    {"f64", 8},
    {"f32", 4},
    {"f16", 2},
    {"bf16", 2},
    {"i64", 8},
    {"i32", 4},
    {"i16", 2},
    {"i8", 1},
    {"u8", 1},
    {"bool", 1},
}};

const Info& info_of(DType dtype) {
  auto i = static_cast<std::size_t>(dtype);
  GEX_CHECK(i < kInfo.size(), "dtype number ", i);
  return kInfo[i];
}

}  // namespace

std::size_t size_of(DType dtype) { return info_of(dtype).size; }

std::string_view name_of(DType dtype) { return info_of(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kInfo.size(); ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) {
    // Neither of f16 and bf16 contains the other's values, so they promote to f32.
    if (is_low_float(a) && is_low_float(b)) return DType::f32;
    return a < b ? a : b;
  }
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  bool mixed_bytes = (a == DType::u8 && b == DType::i8) || (a == DType::i8 && b == DType::u8);
  if (mixed_bytes) return DType::i16;
  return a < b ? a : b;
}

}  // namespace gex
