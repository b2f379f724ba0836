// GE's acceptance cases on building graphs, in C and C++.

#include <gtest/gtest.h>
#include <gex/compat/ge.hpp>
#include <gex/compat/ge_ops.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

namespace gex::test {
namespace {

using namespace gex::es;

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void expect_says(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos)
        << "'" << message << "' lacks '" << part << "'";
}

Tensor ramp(std::vector<std::int64_t> shape, float first = 1) {
  std::vector<float> values(detail::CountOf(shape));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = first + static_cast<float>(k);
  return Tensor::Of<float>(std::move(shape), values);
}

Tensor filled(std::vector<std::int64_t> shape, float value) {
  return Tensor::Of<float>(shape, std::vector<float>(detail::CountOf(shape), value));
}

TEST(GeCase, N01_AddOfReluOfRelu) {
  EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0, "x", DType::f32, {2, 3});
  const auto graph = builder.BuildAndReset({Add(x, Relu(Relu(x)))});
  const std::string text = graph->Print();
  EXPECT_EQ(count(text, " = relu("), 2) << text;
  EXPECT_EQ(count(text, " = add("), 1) << text;
  EXPECT_EQ(count(text, " = "), 3) << text;
  EXPECT_EQ(graph->input_count(), 1u);
  EXPECT_EQ(graph->output_count(), 1u);
  EXPECT_EQ(graph->Run({filled({2, 3}, 1)})[0].ToVector<float>(), std::vector<float>(6, 2));
}

TEST(GeCase, N02_Operators) {
  EsGraphBuilder builder("g");
  auto [a, b] = builder.CreateInputs<2>();
  const auto graph = builder.BuildAndReset({(a + b) + (a - b) + (a * b) + (a / b)});
  const std::string text = graph->Print();
  EXPECT_EQ(count(text, " = add("), 4) << text;
  for (const char* op : {" = sub(", " = mul(", " = div("}) EXPECT_EQ(count(text, op), 1) << text;
  EXPECT_EQ(graph->Run({filled({}, 6), filled({}, 2)})[0].ToVector<float>(),
            std::vector<float>{27});
}

// The Python test of this case has the same text.
TEST(GeCase, N03_CAndCppDumpTheTalksGraphEqually) {
  const char* expected =
      "graph talk(%input_0: f32[]) -> (f32[1]) {\n"
      "  %Const_0 = constant() {value = i64[1](0)} : i64[1]\n"
      "  %0 = cast(%Const_0) : f32[1]\n"
      "  %Sub_1 = sub(%input_0, %0) : f32[1]\n"
      "  return %Sub_1\n"
      "}\n";
  EsGraphBuilder builder("talk");
  auto data0 = builder.CreateInput(0);
  builder.SetOutput(data0 - builder.CreateVector({0}), 0);
  EXPECT_EQ(builder.Build()->PrintAbbreviated(), expected);

  gex_graph* graph = nullptr;
  ASSERT_EQ(gex_graph_create("talk", &graph), GEX_OK);
  gex_value x = 0, zero = 0, result = 0;
  const std::int64_t value = 0, shape = 1;
  gex_tensor elements = GEX_TENSOR_INIT;
  elements.dtype = GEX_I64;
  elements.data = const_cast<std::int64_t*>(&value);
  elements.rank = 1;
  elements.shape = &shape;
  ASSERT_EQ(gex_graph_input(graph, "input_0", GEX_F32, nullptr, 0, &x), GEX_OK);
  ASSERT_EQ(gex_graph_constant(graph, &elements, GEX_I64, &zero), GEX_OK);
  const gex_value operands[] = {x, zero};
  ASSERT_EQ(gex_graph_add(graph, "sub", operands, 2, nullptr, 0, &result, 1), GEX_OK);
  ASSERT_EQ(gex_graph_set_outputs(graph, &result, 1), GEX_OK);
  char* text = nullptr;
  ASSERT_EQ(gex_graph_print_abbreviated(graph, &text), GEX_OK);
  EXPECT_STREQ(text, expected);
  gex_text_free(text);
  gex_graph_destroy(graph);
}

TEST(GeCase, N04_MatMulWithTransposedFirstOperand) {
  EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0, "x", DType::f32, {2, 3});
  auto w = builder.CreateConst(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const auto graph = builder.BuildAndReset({ge::es::MatMul(x, w, nullptr, true)});
  const auto result = graph->Run({filled({2, 3}, 1)})[0];
  EXPECT_EQ(result.shape(), (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(result.ToVector<float>(), (std::vector<float>{5, 7, 9, 5, 7, 9, 5, 7, 9}));
}

TEST(GeCase, N05_BatchNormOfEachChannel) {
  EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0, "x", DType::f32, {1, 3, 1, 2});
  const auto graph = builder.BuildAndReset({BatchNorm(
      x, nullptr, nullptr, std::vector<float>{2, 4, 6}, std::vector<float>{0.5, 0.5, 0.5}, 1e-4)});
  const auto y = graph->Run({ramp({1, 3, 1, 2})})[0].ToVector<float>();
  for (std::size_t k = 0; k < y.size(); ++k) EXPECT_NEAR(y[k], k % 2 ? 0 : -1.41407, 1e-5);
}

TEST(GeCase, N06_ConcatV2) {
  EsGraphBuilder builder("g");
  auto a = builder.CreateInput(0, "a", DType::f32, {8, 64, 128});
  auto b = builder.CreateInput(1, "b", DType::f32, {2, 64, 128});
  auto c = builder.CreateInput(2, "c", DType::f32, {6, 64, 128});
  expect_says(message_of([&] { ge::es::ConcatV2({a, b, c}, 0, 2); }), {"N is 2", "3"});
  const auto graph = builder.BuildAndReset({ge::es::ConcatV2({a, b, c}, 0, 3)});
  const auto y =
      graph->Run({filled({8, 64, 128}, 1), filled({2, 64, 128}, 2), filled({6, 64, 128}, 3)})[0];
  EXPECT_EQ(y.shape(), (std::vector<std::int64_t>{16, 64, 128}));
  const auto values = y.ToVector<float>();
  for (std::size_t row : {0, 7, 8, 9, 10, 15})
    EXPECT_EQ(values[row * 64 * 128 + 5], row < 8 ? 1 : row < 10 ? 2 : 3) << row;
}

TEST(GeCase, N07_Split) {
  EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0, "x", DType::f32, {8, 16, 64});
  expect_says(message_of([&] { ge::es::Split(0, x, 3); }), {"8", "3"});
  const auto parts = ge::es::Split(0, x, 4);
  ASSERT_EQ(parts.size(), 4u);
  const auto results = builder.BuildAndReset(parts)->Run({ramp({8, 16, 64})});
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_EQ(results[k].shape(), (std::vector<std::int64_t>{2, 16, 64}));
    EXPECT_EQ(results[k].ToVector<float>()[0], 1 + static_cast<float>(k) * 2 * 16 * 64);
  }
}

Holders doubled(EsGraphBuilder&, const Holders& in) { return {in[0] * 2}; }
Holders zeroed(EsGraphBuilder&, const Holders& in) { return {in[0] * 0}; }

TEST(GeCase, N08_If) {
  EsGraphBuilder builder("g");
  auto condition = builder.CreateInput(0, "condition", DType::i32, {});
  auto x = builder.CreateInput(1, "x", DType::f32, {2});
  const auto graph = builder.BuildAndReset(If(condition, {x}, doubled, zeroed));
  const Program program = graph->Compile();
  const Tensor values = Tensor::Of<float>({2}, {1, 2});
  EXPECT_EQ(program.Run({Tensor::Of<std::int32_t>({}, {1}), values})[0].ToVector<float>(),
            (std::vector<float>{2, 4}));
  EXPECT_EQ(program.Run({Tensor::Of<std::int32_t>({}, {0}), values})[0].ToVector<float>(),
            (std::vector<float>{0, 0}));
}

TEST(GeCase, N08_WhileSumsTo5050) {
  EsGraphBuilder builder("g");
  auto limit = builder.CreateInput(0, "limit", DType::i64, {});
  const auto results = While(
      {builder.CreateScalar(std::int64_t{0}), builder.CreateScalar(std::int64_t{0}), limit},
      [](EsGraphBuilder&, const Holders& in) -> Holders { return {Lt(in[0], in[2])}; },
      [](EsGraphBuilder&, const Holders& in) -> Holders {
        auto next = in[0] + 1;
        return {next, in[1] + next};
      });
  const auto graph = builder.BuildAndReset({results[1]});
  EXPECT_EQ(graph->Run({Tensor::Of<std::int64_t>({}, {100})})[0].ToVector<std::int64_t>(),
            std::vector<std::int64_t>{5050});
}

TEST(GeCase, N08_ForCountsInBothDirections) {
  const std::vector<std::vector<std::int64_t>> bounds = {{0, 5, 1}, {5, 0, -1}, {5, 0, 1}};
  EsGraphBuilder builder("g");
  const auto given = std::vector<EsTensorHolder>{builder.CreateInput(0, "start", DType::i64, {}),
                                                 builder.CreateInput(1, "limit", DType::i64, {}),
                                                 builder.CreateInput(2, "delta", DType::i64, {})};
  const auto results =
      For(given[0], given[1], given[2], {builder.CreateScalar(std::int64_t{0})},
          [](EsGraphBuilder&, const Holders& in) -> Holders { return {in[1] * 10 + in[0]}; });
  const Program program = builder.BuildAndReset(results)->Compile();
  const std::vector<std::int64_t> expected = {1234, 54321, 0};
  for (std::size_t k = 0; k < bounds.size(); ++k) {
    std::vector<Tensor> inputs;
    for (std::int64_t number : bounds[k]) inputs.push_back(Tensor::Of<std::int64_t>({}, {number}));
    EXPECT_EQ(program.Run(inputs)[0].ToVector<std::int64_t>()[0], expected[k]);
  }
}

TEST(GeCase, N09_AControlEdgeFromAssignReadsTheNewValueInEveryRun) {
  EsGraphBuilder builder("g");
  auto v = builder.CreateVariable(0, "v", DType::f32, {2});
  EXPECT_EQ(builder.CreateVariable(0, "v").value(), v.value());
  auto before = v * 1;
  auto sum = v + std::vector<float>{1, 2};
  auto assign = Assign(v, std::vector<float>{3, 4});
  sum.AddControlEdge({assign});
  expect_says(message_of([&] { Assign(v, std::vector<float>{1}); }), {"f32[2]", "f32[1]"});
  auto after = sum * 1;
  expect_says(message_of([&] { sum.AddControlEdge({after}); }), {"cycle"});
  const Program program = builder.BuildAndReset({sum, before})->Compile();
  EXPECT_EQ(program.output_count(), 2u);
  std::vector<float> memory = {10, 20};
  const Tensor variable = Tensor::Borrow(DType::f32, {2}, memory.data());
  for (int run = 0; run < 3; ++run) {
    const auto results = program.Run({variable});
    EXPECT_EQ(results[0].ToVector<float>(), (std::vector<float>{4, 6}));
    // Without an edge the old value is read, whatever the order of the calls.
    EXPECT_EQ(results[1].ToVector<float>(),
              run == 0 ? (std::vector<float>{10, 20}) : (std::vector<float>{3, 4}));
    EXPECT_EQ(memory, (std::vector<float>{3, 4}));
  }
}

TEST(GeCase, N10_NodesWithDifferentLabelsAreNotMerged) {
  for (const bool same : {true, false}) {
    EsGraphBuilder builder("g");
    auto x = builder.CreateInput(0);
    auto a = Sigmoid(x).SetAttr("_stream_label", "label_0");
    auto b = Sigmoid(x).SetAttr("_stream_label", same ? "label_0" : "label_1");
    EXPECT_EQ(a.GetAttr("_stream_label"), "\"label_0\"");
    const Program program = builder.BuildAndReset({a + b})->Compile();
    const std::string text = program.Print(Level::graph);
    EXPECT_EQ(count(text, " = sigmoid("), same ? 1 : 2) << text;
    EXPECT_NEAR(program.Run({filled({}, 1)})[0].ToVector<float>()[0], 1.4621172f, 1e-6);
  }
}

// Streams are for work that is worth overlapping: a sum of two small sigmoids is one kernel.
TEST(GeCase, N10_LargeNodesOfTwoStreamLabelsRunOnTwoStreams) {
  EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0, "x", DType::f32, {64, 64});
  std::vector<EsTensorHolder> sums;
  for (const char* label : {"label_0", "label_1"}) {
    AttrScope scope{{"_stream_label", label}};
    sums.push_back(ReduceSum(Sigmoid(Matmul(x, x)), {1}));
  }
  const auto graph = builder.BuildAndReset({sums[0] * 2 + sums[1]});
  const Program program = graph->Compile();
  EXPECT_NE(program.Print(Level::program).find("streams 2\n"), std::string::npos)
      << program.Print(Level::program);
  CompileOptions one;
  one.streams = 1;
  expect_says(message_of([&] { graph->Compile(one); }), {"_stream_label", "one stream"});
  CompileOptions plain;
  plain.level = 0;
  plain.fuse = false;
  const Tensor input = filled({64, 64}, 0.01f);
  const auto got = program.Run({input})[0].ToVector<float>();
  const auto want = graph->Compile(plain).Run({input})[0].ToVector<float>();
  for (std::size_t k = 0; k < want.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-3);
}

TEST(GeCase, N11_WrongIndicesAndTypesOfInputsAreNamed) {
  ge::es::EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0);
  expect_says(message_of([&] { builder.CreateInput(0); }), {"input 0"});
  expect_says(message_of([&] { builder.CreateInput(-1); }), {"input -1"});
  expect_says(message_of([&] { builder.CreateInput(1, "z", "Foo"); }), {"input 1", "Foo"});
  builder.CreateInput(2);
  builder.SetOutput(x, 0);
  expect_says(message_of([&] { builder.Build(); }), {"input 2 but no input 1"});
  EsGraphBuilder outputs("g");
  outputs.SetOutput(outputs.CreateInput(0), 1);
  expect_says(message_of([&] { outputs.Build(); }), {"output 1 but no output 0"});
}

TEST(GeCase, N12_ABuiltBuilderRefusesEverything) {
  EsGraphBuilder builder("done");
  auto x = builder.CreateInput(0);
  builder.SetAttr("version", 3);
  const auto graph = builder.BuildAndReset({x});
  EXPECT_EQ(graph->GetAttr("version"), "3");
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { builder.BuildAndReset(); }, [&] { builder.CreateInput(1); },
           [&] { builder.SetAttr("a", 1); }, [&] { builder.SetOutput(x, 1); }})
    expect_says(message_of(call), {"'done' is already built"});
}

TEST(GeCase, N13_HoldersOfTwoBuildersInOneOp) {
  EsGraphBuilder one("one"), two("two");
  auto a = one.CreateInput(0);
  auto b = two.CreateInput(0);
  expect_says(message_of([&] { Add(a, b); }), {"one", "two"});
  expect_says(message_of([&] { Where(a, a, b); }), {"one", "two"});
}

TEST(GeCase, N16_AttrScopesNest) {
  EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0);
  EsTensorHolder inner, outer, after;
  {
    AttrScope one{{"a", "1"}};
    {
      AttrScope two{{"a", "2"}, {"b", "3"}};
      inner = Relu(x);
    }
    outer = Relu(x);
  }
  after = Relu(x);
  EXPECT_EQ(inner.GetAttr("a"), "\"2\"");
  EXPECT_EQ(inner.GetAttr("b"), "\"3\"");
  EXPECT_EQ(outer.GetAttr("a"), "\"1\"");
  expect_says(message_of([&] { outer.GetAttr("b"); }), {"no label 'b'"});
  expect_says(message_of([&] { after.GetAttr("a"); }), {"no label 'a'"});
}

TEST(GeCase, N17_ConstantsFromFilesAndTheirSizes) {
  const auto path = std::filesystem::temp_directory_path() / "gex_const_from_file.bin";
  {
    std::ofstream file(path, std::ios::binary);
    const float values[] = {1, 2, 3};
    file.write(reinterpret_cast<const char*>(values), sizeof values);
  }
  EsGraphBuilder builder("g");
  expect_says(message_of([&] { builder.CreateConstFromFile(path, DType::f32, {4}); }),
              {"12 bytes", "16"});
  expect_says(message_of([&] { builder.CreateConstFromFile("absent.bin", DType::f32, {4}); }),
              {"absent.bin"});
  auto longer = builder.CreateConstFromFile(path, DType::f32, {2});
  std::filesystem::remove(path);
  expect_says(message_of([&] { builder.CreateConst({1, 2}, {3}); }), {"2 values", "3"});
  auto flag = builder.CreateConst(std::vector<bool>{true, false}, {2});
  auto half = builder.CreateConst(std::vector<float>{1, 2}, {2}, DType::f16);
  EXPECT_EQ(flag.type(), "bool[2]");
  EXPECT_EQ(half.type(), "f16[2]");
  EXPECT_EQ(builder.BuildAndReset({longer + 0})->Run({})[0].ToVector<float>(),
            (std::vector<float>{1, 2}));
}

std::unique_ptr<Graph> branch(const char* name, int results) {
  EsGraphBuilder builder(name);
  auto x = builder.CreateInput(0);
  return builder.BuildAndReset(std::vector<EsTensorHolder>(static_cast<std::size_t>(results), -x));
}

TEST(GeCase, N18_SubgraphsOfOneNameAreRefused) {
  EsGraphBuilder inner("outer_then");
  auto x = inner.CreateInput(0);
  auto flag = inner.CreateScalar(true);
  const auto nested = inner.BuildAndReset(If(flag, {x}, 1, *branch("same", 1), *branch("b", 1)));
  EsGraphBuilder builder("g");
  auto y = builder.CreateInput(0);
  auto condition = builder.CreateScalar(true);
  expect_says(message_of([&] { If(condition, {y}, 1, *nested, *branch("same", 1)); }), {"'same'"});
  EXPECT_EQ(If(condition, {y}, 1, *nested, *branch("other", 1)).size(), 1u);
}

Holders nested_if(const Holders& inputs, int depth) {
  if (depth == 0) return {inputs[0] + 1};
  return If(
      inputs[1], {inputs[0], inputs[1]},
      [&](auto&, const Holders& in) { return nested_if(in, depth - 1); },
      [](auto&, const Holders& in) -> Holders { return {in[0] * 2}; });
}

// A copy and a check of all inner levels at each level would take minutes.
TEST(Branches, AThousandLevelsAreBuiltInLinearTime) {
  EsGraphBuilder builder("g");
  const auto x = builder.CreateInput(0, "x", DType::f32, {1});
  const auto flag = builder.CreateInput(1, "flag", DType::boolean, {});
  const auto graph = builder.BuildAndReset(nested_if({x, flag}, 1000));
  EXPECT_EQ(
      graph->Run({Tensor::Of<float>({1}, {4}), Tensor::Of<bool>({}, {true})})[0].ToVector<float>(),
      std::vector<float>{5});
}

TEST(Branches, MoreLevelsThanTheTextFormTakesAreRefused) {
  EsGraphBuilder builder("g");
  const auto x = builder.CreateInput(0, "x", DType::f32, {1});
  const auto flag = builder.CreateInput(1, "flag", DType::boolean, {});
  const Holders results = nested_if({x, flag}, 1025);
  expect_says(message_of([&] { builder.BuildAndReset(results); }), {"more than 1024 deep"});
  EsGraphBuilder deepest("g");
  const auto y = deepest.CreateInput(0, "x", DType::f32, {1});
  const auto other = deepest.CreateInput(1, "flag", DType::boolean, {});
  const std::string text = deepest.BuildAndReset(nested_if({y, other}, 1024))->Print();
  EXPECT_EQ(Graph::Parse(text)->Print(), text);
}

TEST(GeCase, N19_ABranchWithMoreResultsThanDeclared) {
  EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0);
  auto condition = builder.CreateScalar(true);
  expect_says(message_of([&] { If(condition, {x}, 1, *branch("a", 2), *branch("b", 2)); }),
              {"if has 2 results", "1"});
}

TEST(GeCase, N22_AReadableDumpAbbreviatesConstants) {
  EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0, "x", DType::f32, {100});
  std::vector<float> values(100);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k) / 2;
  const auto graph = builder.BuildAndReset({x + values});
  const std::string text = graph->PrintAbbreviated();
  EXPECT_NE(text.find("f32[100](0.0, 0.5, 1.0, ..., 48.5, 49.0, 49.5)"), std::string::npos) << text;
  EXPECT_EQ(Graph::Parse(graph->Print())->Print(), graph->Print());
}

// That ONNX's own library reads it is tested in Python, where there is protobuf.
TEST(GeCase, N22_AnOnnxDumpNamesNodesTypesAndAttributes) {
  EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0, "x", DType::f32, {"s0", 4});
  const auto graph = builder.BuildAndReset({Softmax(x + std::vector<float>{1, 2, 3, 4}, 1)});
  const std::string name = graph->DumpToFile(DumpFormat::kOnnx, "s");
  EXPECT_TRUE(name.starts_with("ge_onnx_") && name.ends_with("_s.pbtxt")) << name;
  std::ifstream file(name);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, graph->PrintOnnx());
  std::filesystem::remove(name);
  for (const char* part : {"op_type: \"softmax\"", "dim_param: \"s0\"", "elem_type: 1",
                           "raw_data: \"\\000\\000\\200?", "opset_import"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  const std::string readable = graph->DumpToFile(DumpFormat::kReadable, "r");
  EXPECT_TRUE(std::filesystem::remove(readable)) << readable;
}

}  // namespace
}  // namespace gex::test
