#pragma once
// Small ops that exercise each feature of the IR, registered once for all tests of this folder.

#include <gtest/gtest.h>
#include <cstdint>

#include "ir/graph.hpp"

namespace gex::test {

struct ReduceAttrs {
  std::int64_t axis = -1;
  bool keepdim = false;
  static constexpr auto fields() {
    return std::tuple{field("axis", &ReduceAttrs::axis), field("keepdim", &ReduceAttrs::keepdim)};
  }
};

struct TopkAttrs {
  Dim k = 1;
  static constexpr auto fields() { return std::tuple{field("k", &TopkAttrs::k)}; }
};

struct ConstantAttrs {
  TensorPtr value;
  static constexpr auto fields() { return std::tuple{field("value", &ConstantAttrs::value)}; }
};

// One attribute of every kind.
struct EveryAttrs {
  bool flag = false;
  std::int64_t number = 0;
  double real = 0.0;
  std::string text;
  DType dtype = DType::f32;
  Dim size = 1;
  std::vector<std::int64_t> numbers;
  std::vector<double> reals;
  std::vector<Dim> sizes;
  std::vector<std::string> texts;
  TensorPtr tensor;
  static constexpr auto fields() {
    return std::tuple{field("flag", &EveryAttrs::flag),       field("number", &EveryAttrs::number),
                      field("real", &EveryAttrs::real),       field("text", &EveryAttrs::text),
                      field("dtype", &EveryAttrs::dtype),     field("size", &EveryAttrs::size),
                      field("numbers", &EveryAttrs::numbers), field("reals", &EveryAttrs::reals),
                      field("sizes", &EveryAttrs::sizes),     field("texts", &EveryAttrs::texts),
                      field("tensor", &EveryAttrs::tensor)};
  }
};

void register_test_ops();  // idempotent

// A fixture whose ops are there: test.add(a, b) commutative, test.sub(a, b), test.neg(x),
// test.sum(x) {axis, keepdim}, test.topk(x) {k} with two results, test.cat(xs...),
// test.clamp(x, low?, high?), test.constant() {value}, test.every(x) with every attribute kind,
// test.if(condition, operands...) with two subgraphs, test.start() -> token,
// test.log(token, x) -> token (effect), test.drop(x) without results.
class IrTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { register_test_ops(); }
};

inline Type f32(Shape shape) { return Type::tensor(DType::f32, std::move(shape)); }

// The message of the UserError that `body` throws; fails the test if it throws none.
template <class F>
std::string user_error(const F& body, ErrorCode code) {
  try {
    body();
  } catch (const UserError& error) {
    EXPECT_EQ(to_string(error.code()), std::string(to_string(code))) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no UserError was thrown";
  return {};
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
}

// print -> parse gives an equal graph that prints the same.
inline void expect_round_trip(const Graph& graph) {
  std::string text = print(graph);
  std::unique_ptr<Graph> back = parse_graph(text);
  EXPECT_TRUE(structurally_equal(graph, *back)) << text << "\nread back as\n" << print(*back);
  EXPECT_EQ(structural_hash(graph), structural_hash(*back));
  EXPECT_EQ(text, print(*back));
  verify(*back);
}

}  // namespace gex::test
