// User passes: registration, switches, plugin libraries.

#include "pass_harness.hpp"

#include <cstdlib>
#include <fstream>

namespace gex::test {
namespace {

class ReluToMaximum : public GraphPass {
 public:
  bool Run(GraphEditor& graph) const override {
    bool changed = false;
    for (const EsTensorHolder& node : graph.Nodes()) {
      if (OpOf(node) != "relu") continue;
      graph.InsertBefore(node);
      graph.Replace(node, Maximum(OperandsOf(node)[0], 0.0f));
      graph.Erase(node);
      changed = true;
    }
    return changed;
  }
};

TEST(UserPasses, a_graph_pass_edits_nodes) {
  const Registered<ReluToMaximum> pass("my-relu", "late");
  const Program program = compiled(
      "graph main(%x: f32[2]) -> (f32[2]) {\n  %a = relu(%x) : f32[2]\n  %b = neg(%a) : f32[2]\n  "
      "return %b\n}");
  EXPECT_EQ(count(graph_of(program), "relu("), 0) << graph_of(program);
  EXPECT_EQ(count(graph_of(program), "maximum("), 1) << graph_of(program);
  EXPECT_EQ(program.Run({Tensor::Of<float>({2}, {-1.0f, 3.0f})})[0].ToVector<float>(),
            (std::vector<float>{-0.0f, -3.0f}));
}

TEST(UserPasses, names_and_stages_are_checked) {
  EXPECT_TRUE(has(error_of([] { RegisterPass<AddZero>("fold"); }), "a built-in pass is named"));
  EXPECT_TRUE(has(error_of([] { RegisterPass<AddZero>("a b"); }), "can't name a pass"));
  EXPECT_TRUE(has(error_of([] { RegisterPass<AddZero>("x", "erly"); }), "did you mean 'early'?"));
  const Registered<AddZero> pass("my-add-zero");
  EXPECT_TRUE(has(error_of([] { RegisterPass<AddZero>("my-add-zero"); }), "already exists"));
}

TEST(UserPasses, null_and_old_structs_are_refused) {
  EXPECT_EQ(gex_pass_register(nullptr), GEX_INVALID_ARGUMENT);
  gex_pass pass = GEX_PASS_INIT;
  EXPECT_EQ(gex_pass_register(&pass), GEX_INVALID_ARGUMENT);
  pass.name = "my-null";
  EXPECT_EQ(gex_pass_register(&pass), GEX_INVALID_ARGUMENT);
  pass.kind = 7;
  EXPECT_EQ(gex_pass_register(&pass), GEX_INVALID_ARGUMENT);
  pass.struct_size = 4;
  EXPECT_EQ(gex_pass_register(&pass), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_pass_unregister(nullptr), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_match_input(nullptr, 0, nullptr), GEX_INVALID_ARGUMENT);
}

TEST(UserPasses, a_pass_can_be_switched_off_by_name) {
  const Registered<AddZero> pass("my-add-zero");
  CompileOptions options;
  options.disabled_passes = {"my-add-zero"};
  EXPECT_EQ(count(graph_of(Graph::Parse(adds("f32[](0.0)"))->Compile(options)), "add("), 1);
}

std::string plugin(const char* name) {
  return std::string(GEX_BUILD_DIR) + "/tests/plugins/" + name + ".so";
}

class Plugins {
 public:
  explicit Plugins(const std::string& list) { ::setenv("GEX_PLUGINS", list.c_str(), 1); }
  ~Plugins() { ::unsetenv("GEX_PLUGINS"); }
};

TEST(UserPasses, plugins_are_loaded_by_the_first_compile) {
  const Plugins plugins(plugin("add_zero"));
  const Program program = compiled(adds("f32[](0.0)"));
  EXPECT_EQ(statistics(program, "plugin-add-zero"), R"({"match_times": "1", "effect_times": "1"})");
  UnregisterPass("plugin-add-zero");
}

TEST(UserPasses, an_op_of_a_plugin_fuses_with_its_neighbours) {
  const Plugins plugins(plugin("loop_op"));
  compiled(adds("f32[](0.0)"));  // loads it
  const Program program = compiled(
      "graph main(%x: f32[3]) -> (f32[3]) {\n  %a = neg(%x) : f32[3]\n  %b = plugin.cube(%a) : "
      "f32[3]\n  %c = abs(%b) : f32[3]\n  return %c\n}");
  EXPECT_EQ(program.Run({Tensor::Of<float>({3}, {1, -2, 3})})[0].ToVector<float>(),
            (std::vector<float>{1, 8, 27}));
  EXPECT_EQ(count(program.Print(Level::program), "  launch "), 1);
}

TEST(UserPasses, missing_and_broken_plugins_are_named) {
  const auto problem = [](const std::string& list) {
    const Plugins plugins(list);
    return error_of([] { compiled(adds("f32[](0.0)")); });
  };
  EXPECT_TRUE(has(problem("/nowhere/p.so"), "plugin /nowhere/p.so: there is no such file"));
  const std::string text_file = testing::TempDir() + "not_a_library.so";
  std::ofstream(text_file) << "not a library";
  EXPECT_TRUE(has(problem(text_file), "plugin " + text_file + " can't be loaded"))
      << problem(text_file);
  for (int again = 0; again < 2; ++again) {
    const std::string message = problem(plugin("broken"));
    EXPECT_TRUE(has(message, "broken.so") && has(message, "plugin-nothing") &&
                has(message, "must be computed"))
        << message;
  }
  EXPECT_EQ(error_of([] { compiled(adds("f32[](0.0)")); }), "");
}

}  // namespace
}  // namespace gex::test
