#pragma once
// `call` and `call_effect`: work done by the host program. Their result types can't be inferred, so
// they are attributes, as flat lists that print, parse and hash like any other.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "ops/core/attributes.hpp"

namespace gex::ops {

struct Call {
  std::int64_t callee = -1;  // a number that the creator of the graph resolves
  std::string name;          // shown in reports
  Dims integers;             // evaluated and passed along
  // Operands (without the token) that the call writes. The last results are their new contents, in
  // this order.
  Ints written;
  std::vector<std::string> dtypes;  // one for each result
  Ints ranks;
  Dims shapes;           // sizes of all results, concatenated
  Ints strided;          // 1 for results with given strides, 0 for dense ones
  Dims strides;          // of the strided results, concatenated
  Ints operand_strided;  // operands that need given strides, as above
  Dims operand_strides;

  static constexpr auto fields() {
    return std::tuple{field("callee", &Call::callee),
                      field("name", &Call::name),
                      field("integers", &Call::integers),
                      field("written", &Call::written),
                      field("dtypes", &Call::dtypes),
                      field("ranks", &Call::ranks),
                      field("shapes", &Call::shapes),
                      field("strided", &Call::strided),
                      field("strides", &Call::strides),
                      field("operand_strided", &Call::operand_strided),
                      field("operand_strides", &Call::operand_strides)};
  }
};

bool is_call(const Node& node);  // call or call_effect

// `operands`: their types with the required strides; empty if all are dense.
Call make_call(std::int64_t callee, std::string name, std::span<const Type> results,
               std::span<const Type> operands = {});
std::vector<Type> result_types(const Call& call);
// For each operand of a call node (without the token) the strides it must have.
std::vector<std::optional<Dims>> operand_strides(const Node& call);
// Operands of a call node without the token.
std::span<Value* const> call_operands(const Node& call);

}  // namespace gex::ops
