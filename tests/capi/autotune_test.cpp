// Option `autotune` through gex.h and gex/es.hpp: measured once sizes are hot, listed in the
// report.

#include <gex/gex.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <cstddef>
#include <gex/es.hpp>

#include <chrono>
#include <filesystem>
#include <thread>

namespace gex::test {
namespace {

using namespace gex::es;

// A matmul, and after it a kernel that always gets specialised code for hot sizes.
std::unique_ptr<Graph> product() {
  EsGraphBuilder builder("product");
  auto x = builder.CreateInput(0, "x", DType::f32, {"rows", 64});
  auto w = builder.CreateInput(1, "w", DType::f32, {64, 96});
  return builder.BuildAndReset({Softmax(Matmul(x, w), 1)});
}

Tensor ones(std::vector<std::int64_t> shape) {
  return Tensor::Of<float>(shape, std::vector<float>(detail::CountOf(shape), 1));
}

// Runs until there is code for these sizes; returns the report.
std::string report_when_hot(const Program& program) {
  const auto start = std::chrono::steady_clock::now();
  while (program.Counters().specialised == 0 &&
         std::chrono::steady_clock::now() - start < std::chrono::seconds(60)) {
    const std::vector<Tensor> results = program.Run({ones({40, 64}), ones({64, 96})});
    EXPECT_FLOAT_EQ(results[0].ToVector<float>()[7], 1.0f / 96);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(program.Counters().specialised, 0);
  return program.Report();
}

TEST(Autotune, the_report_lists_measurements_for_hot_sizes) {
  CompileOptions options;
  options.autotune = true;
  const Program program = product()->Compile(options);
  EXPECT_EQ(program.Report().find("tuned: "), std::string::npos);
  const std::string report = report_when_hot(program);
  EXPECT_NE(report.find("tuned: 1x1x40x96x64 matmul"), std::string::npos) << report;
}

TEST(Autotune, nothing_is_measured_unless_it_is_asked_for) {
  const std::string report = report_when_hot(product()->Compile());
  EXPECT_EQ(report.find("tuned: "), std::string::npos) << report;
}

TEST(Autotune, a_loaded_program_is_tuned_if_its_own_options_say_so) {
  const std::string path = testing::TempDir() + "gex_tuned_" + std::to_string(::getpid());
  product()->Compile().Save(path);
  CompileOptions options;
  options.autotune = true;
  EXPECT_NE(report_when_hot(Program::Load(path, options)).find("tuned: "), std::string::npos);
  EXPECT_EQ(report_when_hot(Program::Load(path)).find("tuned: "), std::string::npos);
  std::filesystem::remove(path);
}

// A caller built with an older, shorter struct: memory after it does not belong to the struct.
TEST(Autotune, callers_older_than_the_option_get_its_default) {
  gex_graph* graph = nullptr;
  const std::string text = product()->Print();
  ASSERT_EQ(gex_graph_parse(text.data(), text.size(), &graph), GEX_OK) << gex_last_error();
  gex_compile_options options = GEX_COMPILE_OPTIONS_INIT;
  options.autotune = 1;
  options.struct_size = offsetof(gex_compile_options, autotune);
  gex_program* program = nullptr;
  ASSERT_EQ(gex_compile(graph, &options, &program), GEX_OK) << gex_last_error();
  EXPECT_EQ(report_when_hot(Program(program)).find("tuned: "), std::string::npos);
  gex_graph_destroy(graph);
}

}  // namespace
}  // namespace gex::test
