#pragma once
// Element types and their sizes in bytes. Conversions are in base/half.hpp.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>

namespace gex {

enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };
inline constexpr int kDTypeCount = 10;

std::size_t size_of(DType dtype);
std::string_view name_of(DType dtype);  // "f32", "bool", ...
std::optional<DType> dtype_from_name(std::string_view name);

constexpr bool is_float(DType d) { return d <= DType::bf16; }
constexpr bool is_low_float(DType d) { return d == DType::f16 || d == DType::bf16; }
constexpr bool is_int(DType d) { return d >= DType::i64 && d <= DType::u8; }

// The type in which arithmetic on a dtype is computed before the result is rounded back.
constexpr DType compute_type(DType d) { return is_low_float(d) ? DType::f32 : d; }

// PyTorch's promotion of two tensor dtypes of equal category rank (no scalars, no 0-d rule).
DType promote(DType a, DType b);

inline std::ostream& operator<<(std::ostream& out, DType d) { return out << name_of(d); }

}  // namespace gex
