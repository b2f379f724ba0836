// The C++ builder: operators, numbers, constants, errors on the line that causes them.

#include <gtest/gtest.h>
#include <gex/es.hpp>

#include <functional>
#include <limits>

namespace gex::test {
namespace {

using namespace gex::es;

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Es, inputs_have_ge_defaults) {
  EsGraphBuilder builder;
  EXPECT_EQ(builder.CreateInput(0).type(), "f32[]");
  EXPECT_EQ(builder.CreateInput(1, "x").type(), "f32[]");
  const auto y = builder.CreateInput(2, "y", DType::bf16, {"s0", 4, "s0*2"});
  EXPECT_EQ(y.type(), "bf16[s0, 4, s0*2]");
  EXPECT_EQ(y.shape(), (std::vector<std::int64_t>{-1, 4, -1}));
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_EQ(y.rank(), 3u);
}

TEST(Es, operators_compute) {
  EsGraphBuilder builder("arithmetic");
  auto [a, b] = builder.CreateInputs<2>();
  const auto graph = builder.BuildAndReset({(a + b) + (a - b) + (a * b) + (a / b)});
  const auto results = graph->Run({Tensor::Of<float>({}, {6}), Tensor::Of<float>({}, {2})});
  EXPECT_EQ(results[0].ToVector<float>(), std::vector<float>{27});
}

TEST(Es, numbers_on_either_side) {
  EsGraphBuilder builder;
  auto x = builder.CreateInput(0, "x", DType::f32, {2});
  auto i = builder.CreateInput(1, "i", DType::i32, {2});
  auto h = builder.CreateInput(2, "h", DType::f16, {2});
  EXPECT_EQ((x + 1).type(), "f32[2]");
  EXPECT_EQ((2.5 * h).type(), "f16[2]");
  EXPECT_EQ((i * 2).type(), "i32[2]");
  EXPECT_EQ((i + 0.5).type(), "f32[2]");
  EXPECT_EQ((7 / i).type(), "i32[2]");
  const auto graph = builder.BuildAndReset({2 - x, x / 4, 7 / i, -i, 1.0f / x});
  const auto r = graph->Run({Tensor::Of<float>({2}, {1, 2}), Tensor::Of<std::int32_t>({2}, {2, -2}),
                             Tensor(DType::f16, {2})});
  EXPECT_EQ(r[0].ToVector<float>(), (std::vector<float>{1, 0}));
  EXPECT_EQ(r[1].ToVector<float>(), (std::vector<float>{0.25, 0.5}));
  EXPECT_EQ(r[2].ToVector<std::int32_t>(), (std::vector<std::int32_t>{3, -3}));
  EXPECT_EQ(r[3].ToVector<std::int32_t>(), (std::vector<std::int32_t>{-2, 2}));
  EXPECT_EQ(r[4].ToVector<float>(), (std::vector<float>{1, 0.5}));
}

TEST(Es, numbers_that_do_not_fit_are_refused) {
  EsGraphBuilder builder;
  auto x = builder.CreateInput(0, "x", DType::u8, {2});
  EXPECT_TRUE(has(message_of([&] { x + 300; }), "300, which u8 can't hold"));
  EXPECT_TRUE(has(message_of([&] { x - -1; }), "-1, which u8 can't hold"));
}

TEST(Es, constants_of_every_kind) {
  EsGraphBuilder builder;
  EXPECT_EQ(builder.CreateVector({0}).type(), "i64[1]");
  EXPECT_EQ(builder.CreateVector({1.5, 2}).type(), "f32[2]");
  EXPECT_EQ(builder.CreateVector({true, false}).type(), "bool[2]");
  EXPECT_EQ(builder.CreateVector(std::vector<std::int32_t>{1, 2}).type(), "i32[2]");
  EXPECT_EQ(builder.CreateVector(std::vector<double>{1, 2}).type(), "f64[2]");
  EXPECT_EQ(builder.CreateScalar(2.0).type(), "f32[]");
  EXPECT_EQ(builder.CreateScalar(std::int64_t{2}).type(), "i64[]");
  EXPECT_EQ(builder.CreateScalar(2.0f).type(), "f32[]");
  EXPECT_EQ(builder.CreateScalar(true).type(), "bool[]");
  EXPECT_EQ(builder.CreateConst({1, 2, 3, 4}, {2, 2}).type(), "i64[2, 2]");
  EXPECT_EQ(builder.CreateConst(std::vector<float>{1, 2}, {2}, DType::f16).type(), "f16[2]");
  EXPECT_EQ(builder.CreateConst(std::vector<bool>{true, false}, {2}).type(), "bool[2]");
  EXPECT_EQ(builder.CreateConst(std::vector<float>{}, {0, 4}).type(), "f32[0, 4]");
}

TEST(Es, constants_are_counted) {
  EsGraphBuilder builder;
  const std::string message = message_of([&] { builder.CreateConst({1, 2}, {3}); });
  EXPECT_TRUE(has(message, "2 values for the shape [3], which has 3")) << message;
  EXPECT_TRUE(has(message_of([&] { builder.CreateConst({1}, {-1}); }), "negative"));
  EXPECT_TRUE(has(message_of([&] {
                    const std::int64_t huge = std::int64_t{1} << 40;
                    builder.CreateConst({1}, {huge, huge});
                  }),
                  "too many elements"));
  // Wide unsigned numbers become i64, which must hold them.
  EXPECT_EQ(builder.CreateVector(std::vector<std::uint32_t>{1}).type(), "i64[1]");
  EXPECT_TRUE(
      has(message_of([&] { builder.CreateScalar(~std::uint64_t{0}); }), "does not fit i64"));
}

TEST(Es, a_wrong_shape_throws_at_the_call_with_both_shapes) {
  EsGraphBuilder builder;
  auto a = builder.CreateInput(0, "a", DType::f32, {2, 3});
  auto b = builder.CreateInput(1, "b", DType::f32, {4});
  const std::string message = message_of([&] { a + b; });
  EXPECT_TRUE(has(message, "[2, 3]") && has(message, "[4]")) << message;
  try {
    a* b;
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), GEX_SHAPE_MISMATCH);
  }
  // The builder stays usable.
  builder.SetOutput(a + a, 0);
  EXPECT_NO_THROW(builder.Build());
}

TEST(Es, indices_are_checked) {
  EsGraphBuilder builder("gaps");
  auto second = builder.CreateInput(2);
  EXPECT_TRUE(has(message_of([&] { builder.CreateInput(2); }), "input 2 already exists"));
  EXPECT_TRUE(has(message_of([&] { builder.CreateInput(-1); }), "input -1"));
  EXPECT_TRUE(has(message_of([&] { builder.SetOutput(second, -3); }), "output -3"));
  builder.SetOutput(second, 1);
  EXPECT_TRUE(has(message_of([&] { builder.SetOutput(second, 1); }), "output 1 already exists"));
  auto first = builder.CreateInput(0, "first");
  EXPECT_EQ(message_of([&] { builder.Build(); }), "graph 'gaps' has output 1 but no output 0");
  builder.SetOutput(first - second, 0);
  EXPECT_EQ(message_of([&] { builder.Build(); }), "graph 'gaps' has input 2 but no input 1");
  builder.CreateInput(1);
  // Inputs are in the order of their indices, not of the calls.
  const auto graph = builder.Build();
  EXPECT_TRUE(has(graph->Print(), "(%first: f32[], %input_1: f32[], %input_2: f32[])"))
      << graph->Print();
  const auto r = graph->Run({Tensor::Of<float>({}, {5}), Tensor(), Tensor::Of<float>({}, {3})});
  EXPECT_EQ(r[0].ToVector<float>(), std::vector<float>{2});
  EXPECT_EQ(r[1].ToVector<float>(), std::vector<float>{3});
}

TEST(Es, a_built_builder_can_not_be_used) {
  EsGraphBuilder builder("done");
  auto x = builder.CreateInput(0);
  builder.SetOutput(x, 0);
  const auto graph = builder.Build();
  const std::string expected = "graph 'done' is already built; use a new builder";
  EXPECT_EQ(message_of([&] { builder.Build(); }), expected);
  EXPECT_EQ(message_of([&] { builder.CreateInput(1); }), expected);
  EXPECT_EQ(message_of([&] { builder.CreateVector({1}); }), expected);
  EXPECT_EQ(message_of([&] { builder.SetOutput(x, 1); }), expected);
  EXPECT_EQ(message_of([&] { x + x; }), expected);
}

TEST(Es, operands_of_two_builders_are_refused) {
  EsGraphBuilder one("one"), two("two");
  auto a = one.CreateInput(0);
  auto b = two.CreateInput(0);
  EXPECT_EQ(message_of([&] { a + b; }), "add: operands of two builders, 'one' and 'two'");
  EXPECT_EQ(message_of([&] { a + EsTensorHolder(); }), "the tensor holder is empty");
}

TEST(Es, holders_outlive_their_builder) {
  EsTensorHolder x;
  {
    EsGraphBuilder builder;
    x = builder.CreateInput(0, "x", DType::f32, {3});
  }
  EXPECT_EQ((x + 1).type(), "f32[3]");
}

TEST(Es, any_op_by_name_with_attributes) {
  EsGraphBuilder builder;
  auto x = builder.CreateInput(0, "x", DType::f32, {"s0", 6});
  EXPECT_EQ(builder.Apply("softmax", {x}, {{"axis", 1}}).type(), "f32[s0, 6]");
  EXPECT_EQ(builder.Apply("reduce_sum", {x}, {{"axes", {1}}, {"keepdim", true}}).type(),
            "f32[s0, 1]");
  EXPECT_EQ(builder.Apply("transpose", {x}, {{"perm", {1, 0}}}).type(), "f32[6, s0]");
  EXPECT_EQ(builder.Apply("reshape", {x}, {{"shape", {"s0*2", 3}}}).type(), "f32[s0*2, 3]");
  EXPECT_EQ(builder.Apply("reshape", {x}, {{"shape", {"s0*6"}}}).type(), "f32[s0*6]");
  EXPECT_EQ(builder.Apply("gelu", {x}, {{"approximate", "tanh"}}).type(), "f32[s0, 6]");
  EXPECT_EQ(builder.Apply("cast", {x}, {{"dtype", DType::f64}}).type(), "f64[s0, 6]");
  EXPECT_EQ(builder.Apply("iota", {}, {{"size", Size("s0 + 1")}}).type(), "i64[s0 + 1]");
  EXPECT_EQ(
      builder.Apply("full", {}, {{"value", 0.5}, {"shape", std::vector<std::int64_t>{2}}}).type(),
      "f32[2]");
  EXPECT_TRUE(has(message_of([&] { builder.Apply("matmull", {x, x}); }), "matmul"));
  auto w = builder.CreateInput(1, "w", DType::f32, {5, 6});
  EXPECT_TRUE(has(message_of([&] { builder.Apply("matmul", {x, w}); }), "f32[5, 6]"));
}

TEST(Es, compiled_once_runs_for_every_size) {
  EsGraphBuilder builder("mlp");
  builder.DeclareSize("s0", 1, 128);
  auto x = builder.CreateInput(0, "x", DType::f32, {"s0", 4});
  auto w = builder.CreateInput(1, "w", DType::f32, {4, 2});
  const auto graph =
      builder.BuildAndReset({builder.Apply("relu", {builder.Apply("matmul", {x, w}) + 1})});
  const Program program = graph->Compile();
  const Tensor weights = Tensor::Of<float>({4, 2}, {1, -1, 1, -1, 1, -1, 1, -1});
  for (std::int64_t rows : {1, 3, 2, 3}) {
    const auto results = program.Run(
        {Tensor::Of<float>({rows, 4}, std::vector<float>(static_cast<std::size_t>(rows) * 4, 1)),
         weights});
    EXPECT_EQ(results[0].shape(), (std::vector<std::int64_t>{rows, 2}));
    const auto values = results[0].ToVector<float>();
    EXPECT_EQ(values[0], 5);
    EXPECT_EQ(values[1], 0);
  }
  EXPECT_EQ(program.Counters().calls, 4);
  EXPECT_EQ(program.Counters().captures, 3);
  EXPECT_EQ(program.input_count(), 2u);
  EXPECT_TRUE(
      has(message_of([&] { program.Run({Tensor(DType::f32, {129, 4}), weights}); }), "128"));
  EXPECT_TRUE(has(message_of([&] { program.Run({weights}); }), "takes 2 inputs, got 1"));
}

TEST(Es, results_are_written_to_given_tensors) {
  EsGraphBuilder builder;
  auto x = builder.CreateInput(0, "x", DType::f32, {2});
  const Program program = builder.BuildAndReset({x * 3})->Compile();
  std::vector<float> memory(2);
  std::vector<Tensor> outputs = {Tensor::Borrow(DType::f32, {2}, memory.data())};
  program.Run({Tensor::Of<float>({2}, {1, 2})}, outputs);
  EXPECT_EQ(memory, (std::vector<float>{3, 6}));
  EXPECT_THROW(outputs[0].ToVector<std::int32_t>(), Error);
}

TEST(Es, graphs_print_and_parse) {
  EsGraphBuilder builder("text");
  auto x = builder.CreateInput(0, "x", DType::f32, {"n"});
  const auto graph = builder.BuildAndReset({x * x});
  EXPECT_EQ(Graph::Parse(graph->Print())->Print(), graph->Print());
  EXPECT_THROW(Graph::Parse("graph g("), Error);
  EXPECT_EQ(graph->input_count(), 1u);
  EXPECT_EQ(graph->output_count(), 1u);
}

TEST(Es, a_graph_without_outputs_is_allowed) {
  EsGraphBuilder builder;
  builder.CreateInput(0);
  EXPECT_EQ(builder.Build()->Run({Tensor()}).size(), 0u);
}

}  // namespace
}  // namespace gex::test
