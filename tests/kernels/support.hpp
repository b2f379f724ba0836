#pragma once
// Random tensors, strided views of them, and running a kernel the way the runtime does.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/kernels/epilogue.hpp"
#include "backend/cpu/kernels/variants.hpp"
#include "base/dim/dim.hpp"
#include "base/dtype.hpp"
#include "base/precision.hpp"
#include "base/tensor.hpp"
#include "program/kernel_abi.hpp"

namespace gex::test {

using namespace gex::kernels;

using i64 = std::int64_t;

inline HostTensor random_tensor(std::mt19937& rng, DType dtype, i64 elements) {
  HostTensor t(dtype, {elements});
  std::uniform_real_distribution<float> value(-1, 1);
  for (i64 i = 0; i < elements; ++i) t.set(i, value(rng));
  return t;
}

// Plain numbers, for references that read each element many times.
inline std::vector<double> numbers(const HostTensor& t) {
  std::vector<double> values(t.numel());
  for (i64 i = 0; i < t.numel(); ++i) values[i] = t.get(i);
  return values;
}

// A prologue that copies the operand's elements from memory: [elements in memory, elements wanted].
inline kernels::Prologue read_from_memory(DType dtype, int operand, int buffer) {
  constexpr auto copy = []<class Wanted, class Stored>(Wanted, Stored) -> program::KernelFn {
    return [](const void*, void* const* buffers, const i64*, i64 begin, i64 end, std::byte*) {
      ASSERT_LT(begin, end);
      for (i64 i = begin; i < end; ++i)
        static_cast<Wanted*>(buffers[1])[i] =
            static_cast<Wanted>(static_cast<const Stored*>(buffers[0])[i]);
    };
  };
  const program::KernelFn fn = dtype == DType::f64       ? copy(double{}, double{})
                               : dtype == DType::boolean ? copy(float{}, std::uint8_t{})
                                                         : copy(float{}, float{});
  return {{fn, nullptr, nullptr}, operand, buffer, 1, 0};
}

inline i64 pick(std::mt19937& rng, std::initializer_list<i64> values) {
  return values.begin()[rng() % values.size()];
}

// Strides of a dense tensor whose axes are in memory in the given order (outermost first).
inline std::vector<i64> strides_in_order(const std::vector<i64>& sizes,
                                         const std::vector<int>& order) {
  std::vector<i64> strides(sizes.size());
  i64 step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= std::max<i64>(sizes[order[i]], 1);
  }
  return strides;
}

inline i64 extent(const std::vector<i64>& sizes, const std::vector<i64>& strides) {
  i64 last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    last += std::max<i64>(sizes[i] - 1, 0) * strides[i];
  return last + 1;
}

// How much one rounding to the dtype may change a value of magnitude 1.
inline double unit_of(DType dtype) { return epsilon_of(dtype) / 2; }

// Scratch with guard bytes on both sides: out-of-bounds writes are detected.
class Scratch {
 public:
  explicit Scratch(i64 bytes) : bytes_(bytes), memory_(bytes + 3 * kMark, std::byte{0x5a}) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data() + kMark);
    start_ = memory_.data() + kMark + (64 - address % 64) % 64;
    // NaN in every float type: reads of uninitialised scratch show.
    std::memset(start_, 0xff, bytes);
  }
  std::byte* data() { return start_; }
  bool intact() const {
    for (const std::byte* p = memory_.data(); p < start_; ++p)
      if (*p != std::byte{0x5a}) return false;
    for (const std::byte* p = start_ + bytes_; p < memory_.data() + memory_.size(); ++p)
      if (*p != std::byte{0x5a}) return false;
    return true;
  }

 private:
  static constexpr i64 kMark = 256;
  i64 bytes_;
  std::vector<std::byte> memory_;
  std::byte* start_;
};

// Runs [0, grid) in ranges of at most `step` units, the last one first.
inline void run_in_steps(const program::Callable& kernel, const std::vector<void*>& buffers,
                         const std::vector<i64>& dims, i64 grid, i64 scratch_bytes, i64 step) {
  if (grid == 0) return;
  Scratch scratch(scratch_bytes);
  for (i64 begin = (grid - 1) / step * step; begin >= 0; begin -= step)
    kernel(buffers.data(), dims.data(), begin, std::min(grid, begin + step), scratch.data());
  ASSERT_TRUE(scratch.intact()) << "kernel wrote outside of its scratch";
}

inline std::string variant_name(const testing::TestParamInfo<const kernels::Variant*>& info) {
  return info.param->name;
}

#define GEX_FOR_EACH_VARIANT(suite)                                                     \
  INSTANTIATE_TEST_SUITE_P(Variants, suite,                                             \
                           testing::ValuesIn(::gex::kernels::usable_variants().begin(), \
                                             ::gex::kernels::usable_variants().end()),  \
                           ::gex::test::variant_name)

}  // namespace gex::test
