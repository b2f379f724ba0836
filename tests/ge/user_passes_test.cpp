// Acceptance cases on user passes, written in C++.

#include "pass_harness.hpp"

namespace gex::test {
namespace {

// The same with a pattern that matches any constant, and a check of its value.
class AddConstantZero : public PatternPass {
 public:
  std::vector<Pattern> Patterns() const override {
    EsGraphBuilder builder("add_constant");
    auto x = builder.CreateInput(0);
    auto c = builder.CreateScalar(7.0f);
    return Only(builder.BuildAndReset({x + c}), {c});
  }
  bool AnyConstants() const override { return true; }
  bool MeetRequirements(const Match& match) const override {
    for (float value : ConstantOf(match.Captured(0)).ToVector<float>())
      if (value != 0) return false;
    return true;
  }
  Holders Replacement(const Match& match) const override { return {match.Input(0)}; }
};

TEST(GeCase, N35_APatternPassReplacesAndIsCounted) {
  const Registered<AddConstantZero> pass("my-add-zero", "BEFORE_INFER_SHAPE");
  const Program zero = compiled(adds("f32[](0.0)"));
  EXPECT_EQ(count(graph_of(zero), "add("), 0) << graph_of(zero);
  EXPECT_EQ(statistics(zero, "my-add-zero"), R"({"match_times": "1", "effect_times": "1"})");
  const Program one = compiled(adds("f32[](1.0)"));
  EXPECT_EQ(count(graph_of(one), "add("), 1) << graph_of(one);
  EXPECT_EQ(statistics(one, "my-add-zero"), R"({"match_times": "1", "effect_times": "0"})");
}

TEST(GeCase, N35_APassIsGoneWhenItIsUnregistered) {
  {
    const Registered<AddZero> pass("my-add-zero");
  }
  const Program program = compiled(adds("f32[](0.0)"));
  EXPECT_EQ(count(graph_of(program), "add("), 1);
  EXPECT_EQ(statistics(program, "my-add-zero"), "");
  EXPECT_TRUE(has(error_of([] { UnregisterPass("my-add-zero"); }), "my-add-zero"));
}

TEST(GeCase, N26_EqualNodesWithOtherControlEdgesStayApart) {
  EsGraphBuilder builder("ordered");
  auto a = builder.CreateInput(0, "a", DType::f32, {4});
  auto b = builder.CreateInput(1, "b", DType::f32, {4});
  auto before = Exp(a);
  auto first = a + b;
  auto second = a + b;
  second.AddControlEdge({before});
  auto third = b + a;
  const auto graph = builder.BuildAndReset({first * second * third * before});
  EXPECT_EQ(count(graph_of(graph->Compile()), "add("), 2) << graph_of(graph->Compile());
}

TEST(GeCase, N36_ConstantsMatchByDtypeAndValue) {
  const Registered<AddZero> pass("my-add-zero");
  const auto matches = [&](const std::string& text) {
    return statistics(compiled(text), "my-add-zero");
  };
  EXPECT_EQ(matches(adds("f32[](0.0)")), R"({"match_times": "1", "effect_times": "1"})");
  EXPECT_EQ(matches(adds("f32[](1.0)")), R"({"match_times": "0", "effect_times": "0"})");
  EXPECT_EQ(matches("graph main(%x: i32[4]) -> (i32[4]) {\n  %c = constant() {value = i32[](0)} : "
                    "i32[]\n  %y = add(%x, %c) : i32[4]\n  return %y\n}"),
            R"({"match_times": "0", "effect_times": "0"})");
  // Filled by another op, the same constant.
  EXPECT_EQ(
      matches("graph main(%x: f32[4]) -> (f32[4]) {\n  %c = full() {dtype = f32, value = 0.0, "
              "shape = []} : f32[]\n  %y = add(%x, %c) : f32[4]\n  return %y\n}"),
      R"({"match_times": "1", "effect_times": "1"})");
}

class NegTranspose : public PatternPass {
 public:
  std::vector<Pattern> Patterns() const override {
    EsGraphBuilder builder("neg_transpose");
    auto x = builder.CreateInput(0, "x", DType::f32, {2, 2, 2});
    return Only(builder.BuildAndReset({-Transpose(x, {0, 2, 1})}));
  }
  Holders Replacement(const Match& match) const override { return {match.Output()}; }
};

TEST(GeCase, N36_AttributesMustBeEqual) {
  const Registered<NegTranspose> pass("my-neg-transpose");
  const auto text = [](const char* perm) {
    return std::string(
               "graph main(%x: f32[3, 3, 3]) -> (f32[3, 3, 3]) {\n  %t = transpose(%x) {perm = ") +
           perm + "} : f32[3, 3, 3]\n  %y = neg(%t) : f32[3, 3, 3]\n  return %y\n}";
  };
  EXPECT_TRUE(
      has(statistics(compiled(text("[0, 2, 1]")), "my-neg-transpose"), "\"match_times\": \"1\""));
  EXPECT_TRUE(
      has(statistics(compiled(text("[1, 0, 2]")), "my-neg-transpose"), "\"match_times\": \"0\""));
}

// matmul + add -> matmul and add the other way round, where the product has 16 columns.
class ProductAndSum : public PatternPass {
 public:
  std::vector<Pattern> Patterns() const override {
    EsGraphBuilder builder("product_and_sum");
    auto a = builder.CreateInput(0, "a", DType::f32, {2, 2});
    auto b = builder.CreateInput(1, "b", DType::f32, {2, 2});
    auto c = builder.CreateInput(2, "c", DType::f32, {2, 2});
    auto product = Matmul(a, b);
    return Only(builder.BuildAndReset({product + c}), {product});
  }
  bool MeetRequirements(const Match& match) const override {
    return match.Captured(0).shape() == std::vector<std::int64_t>{4, 16};
  }
  Holders Replacement(const Match& match) const override {
    EsGraphBuilder builder("replacement");
    auto a = builder.CreateInput(0, "a", DType::f32, {4, 8});
    auto b = builder.CreateInput(1, "b", DType::f32, {8, 16});
    auto c = builder.CreateInput(2, "c", DType::f32, {16});
    auto negated = -Matmul(-a, b);
    return match.Inline(*builder.BuildAndReset({negated + c}));
  }
};

std::string product_and_sum(int columns, bool shared) {
  const std::string n = std::to_string(columns), type = "f32[4, " + n + "]";
  return "graph main(%a: f32[4, 8], %b: f32[8, " + n + "], %c: f32[" + n + "]) -> (" + type +
         (shared ? ", " + type : "") + ") {\n  %p = matmul(%a, %b) : " + type +
         "\n  %s = add(%p, %c) : " + type + "\n  return %s" + (shared ? ", %p" : "") + "\n}";
}

TEST(GeCase, N37_CapturedShapesDecide) {
  const Registered<ProductAndSum> pass("my-gemm");
  const Program program = compiled(product_and_sum(16, false));
  EXPECT_EQ(count(graph_of(program), "neg("), 2) << graph_of(program);
  std::vector<float> a(32, 0.5f), b(128, 2.0f), c(16, 1.0f);
  const auto results = program.Run(
      {Tensor::Of<float>({4, 8}, a), Tensor::Of<float>({8, 16}, b), Tensor::Of<float>({16}, c)});
  EXPECT_EQ(results[0].ToVector<float>(), std::vector<float>(64, 9.0f));
  const Program narrow = compiled(product_and_sum(15, false));
  EXPECT_EQ(count(graph_of(narrow), "neg("), 0);
  EXPECT_EQ(statistics(narrow, "my-gemm"), R"({"match_times": "1", "effect_times": "0"})");
}

TEST(GeCase, N37_NotWhereAnInnerValueIsReadElsewhere) {
  const Registered<ProductAndSum> pass("my-gemm");
  const Program program = compiled(product_and_sum(16, true));
  EXPECT_EQ(statistics(program, "my-gemm"), R"({"match_times": "0", "effect_times": "0"})");
}

class IfPattern : public PatternPass {
 public:
  std::vector<Pattern> Patterns() const override {
    std::vector<Pattern> patterns;
    patterns.push_back({Graph::Parse(R"(graph p(%c: bool[], %x: f32[]) -> (f32[]) {
      %y = if(%c, %x) regions(
        graph then(%a: f32[]) -> (f32[]) {
          return %a
        },
        graph else(%a: f32[]) -> (f32[]) {
          return %a
        }) : f32[]
      return %y
    })"),
                        {}});
    return patterns;
  }
  Holders Replacement(const Match& match) const override { return {match.Input(1)}; }
};

class OrderedPattern : public AddZero {
 public:
  std::vector<Pattern> Patterns() const override {
    EsGraphBuilder builder("ordered");
    auto x = builder.CreateInput(0);
    auto first = Exp(x);
    auto second = Sin(x);
    second.AddControlEdge({first});
    return Only(builder.BuildAndReset({first + second}));
  }
};

TEST(GeCase, N38_PatternsThatNeverMatchAreRefusedAtOnce) {
  const std::string edge = error_of([] { RegisterPass<OrderedPattern>("my-order"); });
  EXPECT_TRUE(has(edge, "my-order") && has(edge, "sin has a control edge")) << edge;
  const std::string message = error_of([] { RegisterPass<IfPattern>("my-if"); });
  EXPECT_TRUE(has(message, "my-if") && has(message, "if has subgraphs")) << message;
}

class WrongInputs : public AddZero {
 public:
  Holders Replacement(const Match& match) const override {
    EsGraphBuilder builder("wrong");
    auto x = builder.CreateInput(0, "x", DType::f32, {4});
    auto y = builder.CreateInput(1, "y", DType::f32, {4});
    return match.Inline(*builder.BuildAndReset({x + y}));
  }
};

TEST(GeCase, N39_AReplacementWithOtherInputsFailsTheCompileByName) {
  const Registered<WrongInputs> pass("my-wrong");
  const auto graph = Graph::Parse(adds("f32[](0.0)"));
  const std::string before = graph->Print();
  const std::string message = error_of([&] { graph->Compile(); });
  EXPECT_TRUE(has(message, "pass my-wrong: ") && has(message, "takes 2 inputs, got 1")) << message;
  EXPECT_EQ(graph->Print(), before);
}

class WrongType : public AddZero {
 public:
  Holders Replacement(const Match& match) const override {
    return {ReduceSum(match.Input(0), {0})};
  }
};

class Thrower : public AddZero {
 public:
  Holders Replacement(const Match&) const override { throw std::runtime_error("no, thanks"); }
};

TEST(GeCase, N39_WrongTypesAndExceptionsAreReportedWithThePassName) {
  {
    const Registered<WrongType> pass("my-type");
    const std::string message = error_of([] { compiled(adds("f32[](0.0)")); });
    EXPECT_TRUE(has(message, "pass my-type: ") && has(message, "f32[]")) << message;
  }
  const Registered<Thrower> pass("my-thrower");
  const std::string message = error_of([] { compiled(adds("f32[](0.0)")); });
  EXPECT_TRUE(has(message, "pass my-thrower: no, thanks")) << message;
}

// exp(x) and sin(y) at once.
class Pair : public PatternPass {
 public:
  std::vector<Pattern> Patterns() const override {
    EsGraphBuilder builder("pair");
    auto x = builder.CreateInput(0);
    auto shared = Exp(x);
    auto y = builder.CreateInput(1);
    return Only(builder.BuildAndReset({shared, Maximum(shared, y)}));
  }
  Holders Replacement(const Match& match) const override {
    auto e = Exp(match.Input(0));
    return {e, Maximum(e, match.Input(1))};
  }
};

TEST(GeCase, N39_AMatchThatWouldBeACycleIsLeftAlone) {
  const Registered<Pair> pass("my-pair");
  // What the second output needs is computed from the first.
  const Program program = compiled(R"(graph main(%x: f32[4]) -> (f32[4]) {
  %e = exp(%x) : f32[4]
  %s = sin(%e) : f32[4]
  %m = maximum(%e, %s) : f32[4]
  return %m
})");
  EXPECT_EQ(statistics(program, "my-pair"), R"({"match_times": "1", "effect_times": "0"})");
}

class Cycle : public GraphPass {
 public:
  bool Run(GraphEditor& graph) const override {
    const auto nodes = graph.Nodes();
    graph.Replace(nodes.front(), nodes.back());
    return true;
  }
};

TEST(GeCase, N39_ReplacingAcrossACycleIsAnError) {
  const Registered<Cycle> pass("my-cycle");
  const std::string message = error_of([] {
    compiled(
        "graph main(%x: f32[4]) -> (f32[4]) {\n  %a = exp(%x) : f32[4]\n  %b = neg(%a) : "
        "f32[4]\n  return %b\n}");
  });
  EXPECT_TRUE(has(message, "pass my-cycle: ") && has(message, "a cycle")) << message;
}

// neg(neg(x)) -> abs(x): wrong, but easy to count.
class NegNeg : public PatternPass {
 public:
  std::vector<Pattern> Patterns() const override {
    EsGraphBuilder builder("neg_neg");
    return Only(builder.BuildAndReset({-(-builder.CreateInput(0))}));
  }
  Holders Replacement(const Match& match) const override { return {Abs(match.Input(0))}; }
};

TEST(GeCase, N39_OverlappingMatchesReplaceEachNodeOnce) {
  const Registered<NegNeg> pass("my-neg-neg");
  const Program program = compiled(R"(graph main(%x: f32[4]) -> (f32[4]) {
  %a = neg(%x) : f32[4]
  %b = neg(%a) : f32[4]
  %c = neg(%b) : f32[4]
  return %c
})");
  EXPECT_EQ(statistics(program, "my-neg-neg"), R"({"match_times": "1", "effect_times": "1"})");
  EXPECT_EQ(count(graph_of(program), "abs("), 1) << graph_of(program);
  EXPECT_EQ(count(graph_of(program), "neg("), 1) << graph_of(program);
}

class UngroupConv : public DecomposePass {
 public:
  std::vector<std::string> Ops() const override { return {"conv2d"}; }
  bool MeetRequirements(const Match& match) const override {
    return IntegersOf(match.Output(), "groups")[0] > 1;
  }
  Holders Replacement(const Match& match) const override {
    const std::int64_t groups = IntegersOf(match.Output(), "groups")[0];
    std::vector<EsTensorLike> parts;
    for (std::int64_t k = 0; k < groups; ++k)
      parts.push_back(Conv2d(Part(match.Input(0), 1, k, groups), Part(match.Input(1), 0, k, groups),
                             IntegersOf(match.Output(), "stride"),
                             IntegersOf(match.Output(), "padding"),
                             IntegersOf(match.Output(), "dilation")));
    return {Cat(parts, 1)};
  }

 private:
  static EsTensorHolder Part(const EsTensorHolder& x, std::size_t axis, std::int64_t k,
                             std::int64_t parts) {
    std::vector<std::int64_t> sizes = x.shape(), starts(4, 0), steps(4, 1);
    sizes[axis] /= parts;
    starts[axis] = k * sizes[axis];
    return Slice(x, Shape(starts.begin(), starts.end()), steps, Shape(sizes.begin(), sizes.end()));
  }
};

std::string conv(int groups) {
  return "graph main(%x: f32[1, 8, 5, 5], %w: f32[8, " + std::to_string(8 / groups) +
         ", 3, 3]) -> (f32[1, 8, 3, 3]) {\n  %y = conv2d(%x, %w) {groups = " +
         std::to_string(groups) + "} : f32[1, 8, 3, 3]\n  return %y\n}";
}

TEST(GeCase, N40_AGroupedConvolutionIsTakenApart) {
  std::vector<float> x(200), w(144);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k % 7) - 3;
  for (std::size_t k = 0; k < w.size(); ++k) w[k] = static_cast<float>(k % 5) - 2;
  const std::vector<Tensor> inputs = {Tensor::Of<float>({1, 8, 5, 5}, x),
                                      Tensor::Of<float>({8, 2, 3, 3}, w)};
  const std::vector<float> want = compiled(conv(4)).Run(inputs)[0].ToVector<float>();
  const Registered<UngroupConv> pass("my-ungroup");
  const Program program = compiled(conv(4));
  EXPECT_EQ(count(graph_of(program), "conv2d("), 4) << graph_of(program);
  EXPECT_EQ(count(graph_of(program), "slice("), 8) << graph_of(program);
  EXPECT_EQ(count(graph_of(program), "cat("), 1) << graph_of(program);
  EXPECT_EQ(program.Run(inputs)[0].ToVector<float>(), want);
  EXPECT_EQ(statistics(compiled(conv(1)), "my-ungroup"),
            R"({"match_times": "1", "effect_times": "0"})");
}

}  // namespace
}  // namespace gex::test
