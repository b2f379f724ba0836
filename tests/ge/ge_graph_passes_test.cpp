// Passes over whole graphs under GE's names: matching by hand, replacing, changing edges.

#include <ge/fusion/graph_rewriter.h>
#include <ge/fusion/pattern_matcher.h>

#include <functional>

#include "pass_harness.hpp"

namespace {

using namespace ge;
using namespace ge::fusion;
using gex::test::count;
using gex::test::error_of;
using gex::test::graph_of;
using gex::test::has;

// Runs what the test says.
class TestedPass : public FusionBasePass {
 public:
  static inline std::function<Status(GraphPtr&, CustomPassContext&)> run;
  Status Run(GraphPtr& graph, CustomPassContext& context) override { return run(graph, context); }
};

class RegisteredPass {
 public:
  explicit RegisteredPass(decltype(TestedPass::run) run) {
    TestedPass::run = std::move(run);
    FusionPassOf<TestedPass>("TestedPass").Stage(CustomPassStage::kBeforeInferShape).Register();
  }
  ~RegisteredPass() { gex::es::UnregisterPass("TestedPass"); }
};

PatternUniqPtr relu_of_relu() {
  es::EsGraphBuilder builder("pattern");
  const auto inner = es::Relu(builder.CreateInput(0));
  const auto outer = es::Relu(inner);
  auto pattern = std::make_unique<Pattern>(std::move(*builder.BuildAndReset({outer})));
  pattern->CaptureTensor({*inner.GetProducer(), 0});
  return pattern;
}

GraphUniqPtr one_relu() {
  es::EsGraphBuilder builder("replacement");
  const auto x = builder.CreateInput(0);
  return builder.BuildAndReset({es::Relu(x)});
}

// sigmoid stays between them so that the built-in passes leave the chain alone.
const char* const kChain =
    "symbols s0\ngraph main(%x: f32[2, s0]) -> (f32[2, s0]) {\n"
    "  %a = relu(%x) : f32[2, s0]\n  %b = relu(%a) : f32[2, s0]\n"
    "  %c = exp(%b) : f32[2, s0]\n"
    "  %d = relu(%c) : f32[2, s0]\n  %e = relu(%d) : f32[2, s0]\n"
    "  return %e\n}";

TEST(GeGraphPasses, AMatcherFindsEachMatchAndTheRewriterReplacesIt) {
  int matches = 0;
  const RegisteredPass pass([&](GraphPtr& graph, CustomPassContext& context) -> Status {
    PatternMatcher matcher(relu_of_relu(), graph);
    while (const auto match = matcher.MatchNext()) {
      ++matches;
      NodeIo inner;
      EXPECT_EQ(match->GetCapturedTensor(0, inner), SUCCESS);
      AscendString type;
      inner.node.GetType(type);
      EXPECT_STREQ(type.GetString(), "Relu");
      EXPECT_EQ(match->GetMatchedNodes().size(), 2U);
      EXPECT_EQ(SubgraphRewriter::Replace(*match->ToSubgraphBoundary(), *one_relu(), context),
                SUCCESS);
    }
    return SUCCESS;
  });
  const auto program = gex::test::compiled(kChain);
  EXPECT_EQ(matches, 2);
  EXPECT_EQ(count(graph_of(program), "relu("), 2) << graph_of(program);
  const auto results = program.Run({gex::es::Tensor::Of<float>({2, 1}, {-1, 0})});
  EXPECT_EQ(results[0].ToVector<float>(), (std::vector<float>{1, 1}));
}

TEST(GeGraphPasses, ABoundaryIsBuiltByHand) {
  const RegisteredPass pass([](GraphPtr& graph, CustomPassContext&) -> Status {
    GNodePtr first = graph->FindNodeByName("a"), last = graph->FindNodeByName("b");
    EXPECT_TRUE(first != nullptr && last != nullptr);
    SubgraphInput input;
    input.AddInput({*first, 0});
    SubgraphBoundary boundary;
    EXPECT_EQ(boundary.AddInput(0, input), SUCCESS);
    EXPECT_EQ(boundary.AddOutput(0, SubgraphOutput({*last, 0})), SUCCESS);
    es::EsGraphBuilder builder("replacement");
    const auto x = builder.CreateInput(0);
    return SubgraphRewriter::Replace(boundary, *builder.BuildAndReset({es::Neg(x)}));
  });
  const auto program = gex::test::compiled(kChain);
  EXPECT_EQ(count(graph_of(program), "neg("), 1) << graph_of(program);
}

// The message of a compile in which `outputs` of `chain` by name are replaced by `replacement`.
std::string replacing(const std::string& graph_text, const std::string& first,
                      const std::string& last, const GraphUniqPtr& replacement) {
  const RegisteredPass pass([&](GraphPtr& graph, CustomPassContext&) -> Status {
    SubgraphBoundary boundary({SubgraphInput({{*graph->FindNodeByName(first.c_str()), 0}})},
                              {SubgraphOutput({*graph->FindNodeByName(last.c_str()), 0})});
    return SubgraphRewriter::Replace(boundary, *replacement);
  });
  return error_of([&] { gex::test::compiled(graph_text); });
}

TEST(GeGraphPasses, ABoundaryThatCantBeReplacedIsAnError) {
  const std::string used_outside =
      "graph main(%x: f32[2]) -> (f32[2], f32[2]) {\n  %a = relu(%x) : f32[2]\n"
      "  %b = exp(%a) : f32[2]\n  return %b, %a\n}";
  EXPECT_TRUE(has(replacing(used_outside, "a", "b", one_relu()), "used outside"));
  const std::string other_input =
      "graph main(%x: f32[2], %y: f32[2]) -> (f32[2]) {\n  %a = relu(%x) : f32[2]\n"
      "  %b = add(%a, %y) : f32[2]\n  return %b\n}";
  EXPECT_TRUE(has(replacing(other_input, "a", "b", one_relu()), "none of the region's inputs"));
  es::EsGraphBuilder builder("two");
  const auto [x, y] = builder.CreateInputs<2>();
  const GraphUniqPtr two_inputs = builder.BuildAndReset({es::Add(x, y)});
  EXPECT_TRUE(has(replacing(kChain, "a", "b", two_inputs), "2 inputs and 1 outputs"));
}

TEST(GeGraphPasses, NodesAreWalkedInBothDirections) {
  const RegisteredPass pass([](GraphPtr& graph, CustomPassContext&) -> Status {
    std::string types;
    for (const GNode& node : graph->GetDirectNode()) {
      AscendString type;
      node.GetType(type);
      types += std::string(type.GetString()) + " ";
    }
    EXPECT_EQ(types, "Data Relu Relu Exp Relu Relu NetOutput ");
    const GNode& a = *graph->FindNodeByName("a");
    EXPECT_EQ(a.GetInputsSize(), 1U);
    const auto [source, output] = a.GetInDataNodesAndPortIndexs(0);
    AscendString name;
    source->GetName(name);
    EXPECT_STREQ(name.GetString(), "x");
    EXPECT_EQ(output, 0);
    const auto readers = graph->FindNodeByName("e")->GetOutDataNodesAndPortIndexs(0);
    EXPECT_EQ(readers.size(), 1U);
    EXPECT_TRUE(readers.at(0).first->IsNetOutput());
    return GRAPH_NOT_CHANGED;
  });
  gex::test::compiled(kChain);
}

TEST(GeGraphPasses, EdgesAreMovedAndNodesRemoved) {
  const RegisteredPass pass([](GraphPtr& graph, CustomPassContext&) -> Status {
    GNode a = *graph->FindNodeByName("a"), b = *graph->FindNodeByName("b"),
          c = *graph->FindNodeByName("c");
    EXPECT_EQ(graph->RemoveEdge(b, 0, c, 0), GRAPH_SUCCESS);
    EXPECT_EQ(graph->AddDataEdge(a, 0, c, 0), GRAPH_SUCCESS);
    EXPECT_EQ(graph->RemoveNode(b), GRAPH_SUCCESS);
    GNode d = *graph->FindNodeByName("d"), e = *graph->FindNodeByName("e");
    auto [output, index] = e.GetOutDataNodesAndPortIndexs(0).at(0);
    EXPECT_EQ(graph->RemoveEdge(e, 0, *output, index), GRAPH_SUCCESS);
    EXPECT_EQ(graph->AddDataEdge(d, 0, *output, index), GRAPH_SUCCESS);
    EXPECT_EQ(graph->RemoveNode(e), GRAPH_SUCCESS);
    return SUCCESS;
  });
  EXPECT_EQ(count(graph_of(gex::test::compiled(kChain)), "relu("), 2);
}

TEST(GeGraphPasses, WhatAPassLeavesUnfinishedIsAnError) {
  const auto error = [](decltype(TestedPass::run) run) {
    const RegisteredPass pass(std::move(run));
    return error_of([] { gex::test::compiled(kChain); });
  };
  EXPECT_TRUE(has(error([](GraphPtr& graph, CustomPassContext&) -> Status {
                    GNode a = *graph->FindNodeByName("a"), b = *graph->FindNodeByName("b");
                    return graph->RemoveEdge(a, 0, b, 0);
                  }),
                  "was removed, but neither replaced"));
  EXPECT_TRUE(has(error([](GraphPtr& graph, CustomPassContext&) -> Status {
                    GNode b = *graph->FindNodeByName("b");
                    return graph->RemoveNode(b);
                  }),
                  "is still used"));
  EXPECT_TRUE(has(error([](GraphPtr& graph, CustomPassContext&) -> Status {
                    GNode a = *graph->FindNodeByName("a"), e = *graph->FindNodeByName("e");
                    GNode x = *graph->FindNodeByName("x");
                    graph->RemoveEdge(x, 0, a, 0);
                    return graph->AddDataEdge(e, 0, a, 0);
                  }),
                  "cycle"));
  EXPECT_TRUE(has(error([](GraphPtr& graph, CustomPassContext&) -> Status {
                    graph = std::make_shared<Graph>(*graph);
                    return SUCCESS;
                  }),
                  "replaced the whole graph"));
  const std::string failed = error([](GraphPtr&, CustomPassContext& context) -> Status {
    context.SetErrorMessage("no place for it");
    return FAILED;
  });
  EXPECT_TRUE(has(failed, "TestedPass") && has(failed, "no place for it")) << failed;
}

}  // namespace
