// The worked example of docs/add_a_pass.md; both have the same code.

#include <gtest/gtest.h>

#include "ops/core/build.hpp"
#include "passes/engine/pattern_pass.hpp"

namespace gex::passes {
namespace {

Pass recognise_relu() {
  PatternRule relu;
  relu.pattern = parse_graph(R"(graph relu(%x: f32[4]) -> (f32[4]) {
    %zero = full() : f32[]
    %y = maximum(%x, %zero) : f32[4]
    return %y
  })");
  relu.replacement = [](Graph& graph, const Match& match) {
    return std::vector<Value*>{ops::relu(graph, match.inputs[0])};
  };
  PatternPass pass{"recognise-relu", "maximum(x, 0) becomes relu(x)", Stage::early, 2, {}};
  pass.rules.push_back(std::move(relu));
  return pattern_pass(std::move(pass));
}

std::string text_after(const std::string& text, bool* changed, std::int64_t* count) {
  const auto graph = parse_graph(text);
  const PassSettings settings;
  PassContext context(*graph, settings);
  *changed = recognise_relu().run(*graph, context);
  *count = context.counted();
  verify(*graph);
  return print(*graph);
}

std::string graph_with(const char* number) {
  return std::string("graph g(%x: f32[2, 3]) -> (f32[2, 3]) {\n  %z = full() {value = ") + number +
         "} : f32[]\n  %y = maximum(%x, %z) : f32[2, 3]\n  return %y\n}\n";
}

TEST(AddAPass, it_replaces_what_it_recognises_and_counts_it) {
  bool changed = false;
  std::int64_t count = 0;
  const std::string after = text_after(graph_with("0.0"), &changed, &count);
  EXPECT_TRUE(changed);
  EXPECT_EQ(count, 1);
  EXPECT_NE(after.find("relu(%x)"), std::string::npos) << after;
  EXPECT_EQ(after.find("maximum"), std::string::npos) << after;
}

TEST(AddAPass, not_for_another_number) {
  bool changed = true;
  std::int64_t count = 1;
  const std::string after = text_after(graph_with("0.5"), &changed, &count);
  EXPECT_FALSE(changed);
  EXPECT_EQ(count, 0);
  EXPECT_NE(after.find("maximum"), std::string::npos) << after;
}

}  // namespace
}  // namespace gex::passes
