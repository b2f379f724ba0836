#include "ops/fold.hpp"

#include <cmath>
#include <limits>

namespace gex::ops {

namespace {

struct IntRange {
  std::int64_t lo, hi;
};

IntRange range_of(DType dtype) {
  switch (dtype) {
    case DType::i64:
      return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
    case DType::i32:
      return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    case DType::i16:
      return {-32768, 32767};
    case DType::i8:
      return {-128, 127};
    case DType::u8:
      return {0, 255};
    default:
      return {0, 1};
  }
}

}  // namespace

double lowest(DType dtype) {
  return is_float(dtype) ? -std::numeric_limits<double>::infinity()
                         : static_cast<double>(range_of(dtype).lo);
}

double highest(DType dtype) {
  return is_float(dtype) ? std::numeric_limits<double>::infinity()
                         : static_cast<double>(range_of(dtype).hi);
}

loop::Accumulator accumulator(std::string name, DType dtype, double init) {
  loop::Accumulator acc{std::move(name), dtype, init, 0};
  if (!is_float(dtype)) {
    // 2^63-1 is not a double; the limits of integer ranges must be exact.
    const IntRange range = range_of(dtype);
    acc.init_int = init >= static_cast<double>(range.hi)   ? range.hi
                   : init <= static_cast<double>(range.lo) ? range.lo
                                                           : static_cast<std::int64_t>(init);
  }
  return acc;
}

CombineBody combine_by(Prim prim) {
  return
      [prim](ScalarBuilder& s, const Node&, std::span<const Scalar> a, std::span<const Scalar> b) {
        return std::vector<Scalar>{s.binary(prim, a[0], b[0])};
      };
}

std::vector<loop::Accumulator> arg_accumulators(DType dtype, double init) {
  // The largest index loses every tie, so the first real element always wins.
  return {accumulator("value", dtype, init), accumulator("index", DType::i64, highest(DType::i64))};
}

CombineBody combine_arg(Prim better) {
  return [better](ScalarBuilder& s, const Node&, std::span<const Scalar> a,
                  std::span<const Scalar> b) {
    const Scalar first = s.binary(Prim::lt, b[1], a[1]);
    Scalar tie = s.binary(Prim::eq, b[0], a[0]);
    Scalar wins = s.binary(better, b[0], a[0]);
    if (is_float(a[0].dtype)) {
      const Scalar a_nan = s.unary(Prim::is_nan, a[0]), b_nan = s.unary(Prim::is_nan, b[0]);
      wins = s.binary(Prim::bit_or, wins, s.logical_and(b_nan, s.unary(Prim::bit_not, a_nan)));
      tie = s.binary(Prim::bit_or, tie, s.logical_and(a_nan, b_nan));
    }
    const Scalar take_b = s.binary(Prim::bit_or, wins, s.logical_and(tie, first));
    return std::vector<Scalar>{s.select(take_b, b[0], a[0]), s.select(take_b, b[1], a[1])};
  };
}

}  // namespace gex::ops
