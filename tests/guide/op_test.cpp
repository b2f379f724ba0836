// The worked example of docs/add_an_op.md; both have the same code.

#include <gtest/gtest.h>

#include <cmath>

#include "compile/compile.hpp"
#include "compile/execute.hpp"
#include "interp/interp.hpp"
#include "ops/core/define.hpp"

namespace gex::ops {
namespace {

struct LogCosh {
  double scale = 1;
  static constexpr auto fields() { return std::tuple{field("scale", &LogCosh::scale)}; }
};

void register_log_cosh() {
  unary_body("log_cosh", "scale * log(cosh(x)), without overflow for large x.",
             [](ScalarBuilder& s, const Node& n, Scalar x) {
               const auto number = [&](double value) { return s.constant(x.dtype, value); };
               Scalar a = s.unary(Prim::abs, x);
               Scalar e = s.unary(Prim::exp, s.mul(a, number(-2)));
               Scalar y = s.sub(s.add(a, s.unary(Prim::log1p, e)), number(std::log(2.0)));
               return s.mul(y, number(n.as<LogCosh>().scale));
             })
      .attrs<LogCosh>()
      .define();
}

class AddAnOp : public testing::Test {
 protected:
  static void SetUpTestSuite() { register_log_cosh(); }
};

HostTensor numbers(DType dtype) {
  HostTensor x(dtype, {5});
  const double values[] = {-200, -1, 0, 0.5, 30};
  for (int k = 0; k < 5; ++k) x.set(k, values[k]);
  return x;
}

TEST_F(AddAnOp, the_interpreter_runs_it_in_every_float) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    Graph graph;
    Value* x = graph.add_input(Type::tensor(dtype, {Dim(5)}), "x");
    graph.add_output(graph.add("log_cosh", {x}, {{"scale", 2.0}})->output());
    const HostTensor y = interp::interpret(graph, std::vector{numbers(dtype)})[0];
    EXPECT_NEAR(y.get(0), 2 * (200 - std::log(2.0)), 2);
    EXPECT_NEAR(y.get(1), 2 * std::log(std::cosh(1.0)), 1e-2);
    EXPECT_NEAR(y.get(2), 0, 1e-2);
  }
}

const char* const kText = R"(symbols s0
graph g(%x: f32[s0]) -> (f32[s0]) {
  %a = tanh(%x) : f32[s0]
  %b = log_cosh(%a) {scale = 3.0} : f32[s0]
  %c = neg(%b) : f32[s0]
  return %c
}
)";

TEST_F(AddAnOp, it_prints_and_parses_back) { EXPECT_EQ(print(*parse_graph(kText)), kText); }

TEST_F(AddAnOp, it_fuses_with_its_neighbours_and_compiles) {
  const Compiled compiled = compile(parse_graph(kText), CompileOptions{});
  EXPECT_EQ(compiled.program->codes.size(), 1u);
  runtime::Session session(compiled.executable, {}, compiled.specialiser);
  std::vector<HostTensor> inputs = {numbers(DType::f32)};
  const HostTensor got = execute(session, inputs)[0];
  for (int k = 0; k < 5; ++k)
    EXPECT_NEAR(got.get(k), -3 * std::log(std::cosh(std::tanh(inputs[0].get(k)))), 1e-5);
}

TEST_F(AddAnOp, integers_are_rejected_with_a_message) {
  Graph graph;
  Value* x = graph.add_input(Type::tensor(DType::i64, {Dim(5)}), "x");
  try {
    graph.add("log_cosh", {x});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::type_mismatch);
    EXPECT_NE(std::string(error.what()).find("log_cosh"), std::string::npos);
  }
}

}  // namespace
}  // namespace gex::ops
