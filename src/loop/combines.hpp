#pragma once
// Combine bodies shared by many reductions, and queries of backends about combine bodies. Each
// takes two states and returns the merged one; each is associative and commutative up to rounding,
// so partial states may be merged in any grouping.

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "loop/builder.hpp"

namespace gex::loop {

using State = std::vector<Scalar>;

// (value, index): the larger (smaller) value with the smallest index; NaN counts as the extreme.
State combine_arg_extreme(ScalarBuilder& s, std::span<const Scalar> a, std::span<const Scalar> b,
                          bool largest);
// (mean, m2, count): Chan's merge of two sets; an element is (x, 0, 1), the start (0, 0, 0).
State combine_welford(ScalarBuilder& s, std::span<const Scalar> a, std::span<const Scalar> b);
// (maximum, sum of e^(x - maximum)): online softmax; an element is (x, 1), the start (-inf, 0).
State combine_softmax(ScalarBuilder& s, std::span<const Scalar> a, std::span<const Scalar> b);

// Named combines for text: "sum", "prod", "max", "min", "any", "all" over one accumulator,
// "argmax", "argmin", "softmax" over two, "welford" over three.
struct NamedCombine {
  std::string_view name;
  int slots;
};
std::span<const NamedCombine> named_combines();
const NamedCombine* find_named_combine(std::string_view name);
// A combine body from names that cover the accumulators in order; nothing if they do not match.
std::optional<Combine> make_combine(std::span<const std::string_view> names,
                                    std::span<const Accumulator> accumulators);

// Whether folding with this body rounds: sums and products of floats do, a maximum does not. Blocks
// of such a reduction are merged in f64 (see "Bits" in kernel.hpp).
bool rounds(const Reduction& reduction);
// The same body over states with all floats as f64.
Combine widened(const Combine& combine);
inline DType widened(DType dtype) { return is_float(dtype) ? DType::f64 : dtype; }

}  // namespace gex::loop
