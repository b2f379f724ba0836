// Kernels of users, by name: in graphs, in model files and in processes that lack them.

#include <gex/kernel.h>
#include <gex/session.hpp>

#include <cmath>

#include "harness.hpp"

namespace gex::test {
namespace {

// y = x * factor, factor being the parameter.
gex_status scale(void* user, const gex_tensor* inputs, std::size_t count, const gex_tensor* outputs,
                 std::size_t, const char* parameters) {
  ++*static_cast<int*>(user);
  if (count != 1 || inputs[0].dtype != GEX_F32) return gex_fail(GEX_TYPE_MISMATCH, "f32 is wanted");
  const float factor = std::stof(parameters);
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < inputs[0].rank; ++d) elements *= inputs[0].shape[d];
  for (std::int64_t k = 0; k < elements; ++k) {
    const float x = static_cast<const float*>(inputs[0].data)[k];
    if (x < 0) return gex_fail(GEX_INVALID_ARGUMENT, "negative numbers are not scaled");
    static_cast<float*>(outputs[0].data)[k] = x * factor;
  }
  return GEX_OK;
}

int calls = 0;

void register_once() {
  static const bool done = [] {
    gex_kernel kernel = GEX_KERNEL_INIT;
    kernel.name = "test.scale";
    kernel.user = &calls;
    kernel.run = scale;
    EXPECT_EQ(gex_register_kernel(&kernel), GEX_OK) << gex_last_error();
    return true;
  }();
  ASSERT_TRUE(done);
}

// exp(kernel(x)) with the kernel of this name.
void save(const char* kernel, const std::string& path) {
  gex_graph* graph = nullptr;
  gex_value x = 0, scaled = 0, y = 0;
  const gex_size shape[2] = {{0, "n"}, {3, nullptr}};
  ASSERT_EQ(gex_graph_create("g", &graph), GEX_OK);
  ASSERT_EQ(gex_graph_input(graph, "x", GEX_F32, shape, 2, &x), GEX_OK) << gex_last_error();
  const gex_result result = {GEX_F32, shape, 2};
  ASSERT_EQ(gex_graph_call_kernel(graph, kernel, "0.5", &x, 1, &result, 1, &scaled), GEX_OK)
      << gex_last_error();
  ASSERT_EQ(gex_graph_add(graph, "exp", &scaled, 1, nullptr, 0, &y, 1), GEX_OK);
  ASSERT_EQ(gex_graph_set_outputs(graph, &y, 1), GEX_OK);
  gex_program* program = nullptr;
  ASSERT_EQ(gex_compile(graph, nullptr, &program), GEX_OK) << gex_last_error();
  gex_save_options options = GEX_SAVE_OPTIONS_INIT;
  options.levels = "v2,v3";
  ASSERT_EQ(gex_program_save_model(program, path.c_str(), &options), GEX_OK) << gex_last_error();
  gex_program_destroy(program);
  gex_graph_destroy(graph);
}

TEST(UserKernel, RunsInAModelFile) {
  register_once();
  const Folder folder;
  save("test.scale", folder.file("m.gexe"));
  gex::Session session = gex::Session::load(folder.file("m.gexe"), {.trust = true});
  const int before = calls;
  const auto results = session.run({gex::Tensor::of<float>({2, 3}, {0, 1, 2, 3, 4, 5})});
  EXPECT_EQ(calls, before + 1);
  for (int k = 0; k < 6; ++k)
    EXPECT_NEAR(results[0].data<float>()[k], std::exp(0.5f * static_cast<float>(k)), 1e-4);
  try {
    session.run({gex::Tensor::of<float>({1, 3}, {0, 1, -2})});
    FAIL();
  } catch (const gex::RunError& error) {
    EXPECT_NE(std::string(error.what()).find("negative numbers"), std::string::npos);
  }
}

TEST(UserKernel, FilesNameTheKernelsThatAreMissing) {
  const Folder folder;
  save("test.absent", folder.file("m.gexe"));
  const std::string message = reason([&] { deploy::load_model(folder.file("m.gexe")); });
  EXPECT_NE(message.find("test.absent"), std::string::npos) << message;
}

TEST(UserKernel, NamesAreTakenOnce) {
  register_once();
  gex_kernel kernel = GEX_KERNEL_INIT;
  kernel.name = "test.scale";
  kernel.run = scale;
  EXPECT_EQ(gex_register_kernel(&kernel), GEX_INVALID_ARGUMENT);
  kernel.name = "two words";
  EXPECT_EQ(gex_register_kernel(&kernel), GEX_INVALID_ARGUMENT);
  kernel.name = "test.other";
  kernel.run = nullptr;
  EXPECT_EQ(gex_register_kernel(&kernel), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_load_kernels("/nowhere/kernels.so"), GEX_IO_ERROR);
}

}  // namespace
}  // namespace gex::test
