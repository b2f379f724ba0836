#pragma once
// Masks of attention for the scores of a block of keys, as numbers that are added to scores which
// are logarithms to base 2.

#include <cstdint>

#include "backend/cpu/kernels/simd/attention_launch.hpp"
#include "backend/cpu/kernels/simd/exp.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class T>
constexpr T kHidden = -__builtin_inf();

// Masks often have the lowest finite number in the place of -inf. Scores make no difference to
// numbers up to kFar: the weight of such a key is exactly 0 if the row has a key with a logarithm
// above kNear. They stay finite, because a row of nothing else has equal weights.
template <class T>
constexpr T kFar = sizeof(T) == 8 ? static_cast<T>(-1e300) : static_cast<T>(-1e38);
template <class T>
constexpr T kNear = kFar<T> / 10;
template <class T>
constexpr T kLowest = sizeof(T) == 8 ? static_cast<T>(-1.2e308) : static_cast<T>(-2.3e38);

// Least and largest number of a mask; infinity stands for NaN.
template <class T>
struct MaskRange {
  T least = -kHidden<T>, largest = kHidden<T>;

  void add(const MaskRange& other) {
    least = smaller(least, other.least);
    largest = larger(largest, other.largest);
  }
  bool is_zero() const { return least == T{} && largest == T{}; }
  bool hides_all() const { return largest == kHidden<T>; }
  bool is_far() const { return largest <= kFar<T>; }
};

template <class T>
GEX_INLINE Vec<T> as_power_of_two(Vec<T> m) {
  const Vec<T> bounded = larger_of(splat(kLowest<T>), m) * static_cast<T>(kLog2E);
  const Vec<T> hidden = splat(kHidden<T>);
  return m == hidden ? hidden : bounded;
}

// row[n] from numbers that are added to scores.
template <class T, class S>
MaskRange<T> read_mask(T* row, const S* from, i64 step, i64 n) {
  constexpr int lanes = kLanes<T>;
  Vec<T> least = splat(-kHidden<T>), largest = splat(kHidden<T>);
  const auto convert = [&](i64 j, Vec<T> m) __attribute__((always_inline)) {
    const Vec<T> power = as_power_of_two<T>(m);
    store(row + j, power);
    const Vec<T> bound = power == power ? power : splat(-kHidden<T>);
    largest = larger_of(bound, largest);
    least = bound < least ? bound : least;
  };
  i64 j = 0;
  if (step == 1)
    for (; j + lanes <= n; j += lanes) convert(j, load<T>(from + j));
  for (; j < n; j += lanes) {
    Vec<T> m = splat(widen(from[j * step]));
    for (i64 i = 1; i < smaller(i64{lanes}, n - j); ++i) m[i] = widen(from[(j + i) * step]);
    convert(j, m);
  }
  MaskRange<T> range;
  for (int i = 0; i < lanes; ++i) range.add({least[i], largest[i]});
  return range;
}

// The same from booleans: false hides a key.
template <class T>
MaskRange<T> read_boolean_mask(T* row, const std::uint8_t* from, i64 step, i64 n) {
  std::uint8_t any = 0, all = 1;
  for (i64 j = 0; j < n; ++j) {
    const std::uint8_t seen = from[j * step] != 0;
    any |= seen, all &= seen;
    row[j] = seen ? T{} : kHidden<T>;
  }
  return {all ? T{} : kHidden<T>, any ? T{} : kHidden<T>};
}

// The mask of one row for keys [key0, key0 + n); `row` has room for whole vectors.
template <class T>
MaskRange<T> mask_row(AttentionLaunch<T>& launch, i64 batch, i64 head, i64 query, i64 key0, i64 n,
                      T* row) {
  const i64* s = launch.dims + attention_dims::mask_strides;
  const i64 offset = batch * s[0] + head * s[1] + query * s[2] + key0 * s[3];
  const bool boolean = launch.context.mask == MaskKind::boolean;
  if (launch.context.prologues[3].fn) {
    launch.made_mask.fill(row, offset, n);
    for (i64 j = 0; boolean && j < n; ++j) row[j] = row[j] != T{} ? T{} : kHidden<T>;
    return read_mask(row, static_cast<const T*>(row), 1, n);
  }
  if (boolean)
    return read_boolean_mask(row, static_cast<const std::uint8_t*>(launch.buffers[3]) + offset,
                             s[3], n);
  MaskRange<T> range;
  with_storage<T>(launch.context.mask_dtype, launch.buffers[3],
                  [&](auto* base) { range = read_mask(row, base + offset, s[3], n); });
  return range;
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
