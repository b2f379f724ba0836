// Functions of gex/session.h and gex/kernel.h with arguments that can't be: a status and a
// sentence.

#include <gex/kernel.h>
#include <gex/session.h>

#include "harness.hpp"

namespace gex::test {
namespace {

void expect_refused(gex_status status, const char* word) {
  EXPECT_EQ(status, GEX_INVALID_ARGUMENT);
  EXPECT_NE(std::string(gex_last_error()).find(word), std::string::npos) << gex_last_error();
}

TEST(Misuse, MissingArgumentsAreReported) {
  gex_model* model = nullptr;
  gex_program* session = nullptr;
  gex_tensor_info info = GEX_TENSOR_INFO_INIT;
  std::size_t count = 0;
  char* text = nullptr;
  expect_refused(gex_model_load(nullptr, nullptr, &model), "path");
  expect_refused(gex_model_load("m.gexe", nullptr, nullptr), "model");
  expect_refused(gex_model_load_memory(nullptr, 8, nullptr, &model), "data");
  expect_refused(gex_model_input_count(nullptr, &count), "model");
  expect_refused(gex_model_output_count(nullptr, &count), "model");
  expect_refused(gex_model_input(nullptr, 0, &info), "model");
  expect_refused(gex_model_output(nullptr, 0, &info), "model");
  expect_refused(gex_model_name(nullptr, &text), "model");
  expect_refused(gex_model_code(nullptr, &text), "model");
  expect_refused(gex_session_create(nullptr, nullptr, &session), "model");
  expect_refused(gex_session_create(nullptr, nullptr, nullptr), "session");
  expect_refused(gex_program_save_model(nullptr, "m.gexe", nullptr), "program");
  expect_refused(gex_register_kernel(nullptr), "kernel");
  expect_refused(gex_load_kernels(nullptr), "list");
  gex_value value = 0;
  expect_refused(gex_graph_call_kernel(nullptr, "k", nullptr, nullptr, 0, nullptr, 0, &value),
                 "graph");
}

TEST(Misuse, NumbersAndStructsAreChecked) {
  const Folder folder;
  Example().save(folder.file("m.gexe"), {"v2"});
  gex_load_options load = GEX_LOAD_OPTIONS_INIT;
  load.trust = 1;
  gex_model* model = nullptr;
  ASSERT_EQ(gex_model_load(folder.file("m.gexe").c_str(), &load, &model), GEX_OK)
      << gex_last_error();
  gex_tensor_info info = GEX_TENSOR_INFO_INIT;
  expect_refused(gex_model_input(model, 1, &info), "no input 1");
  expect_refused(gex_model_output(model, 3, &info), "no output 3");
  info.struct_size = 4;
  expect_refused(gex_model_input(model, 0, &info), "struct_size");
  gex_program* session = nullptr;
  gex_session_options options = GEX_SESSION_OPTIONS_INIT;
  options.threads = -1;
  expect_refused(gex_session_create(model, &options, &session), "threads is -1");
  options = GEX_SESSION_OPTIONS_INIT;
  options.struct_size = 1;
  expect_refused(gex_session_create(model, &options, &session), "struct_size");
  load.struct_size = 2;
  gex_model* other = nullptr;
  expect_refused(gex_model_load(folder.file("m.gexe").c_str(), &load, &other), "struct_size");
  // A handle of another kind, and one that was destroyed.
  ASSERT_EQ(gex_session_create(model, nullptr, &session), GEX_OK) << gex_last_error();
  std::size_t count = 0;
  expect_refused(gex_model_input_count(reinterpret_cast<gex_model*>(session), &count), "program");
  gex_model_destroy(model);
  expect_refused(gex_model_input_count(model, &count), "destroyed");
  // The session goes on without its model.
  const std::vector<float> x(24, 0.5f);
  const std::int64_t shape[2] = {1, 24};
  gex_tensor in = GEX_TENSOR_INIT, out[3] = {GEX_TENSOR_INIT, GEX_TENSOR_INIT, GEX_TENSOR_INIT};
  in.data = const_cast<float*>(x.data());
  in.rank = 2;
  in.shape = shape;
  EXPECT_EQ(gex_program_run(session, &in, 1, out, 3), GEX_OK) << gex_last_error();
  for (gex_tensor& tensor : out) gex_tensor_release(&tensor);
  gex_program_destroy(session);
}

}  // namespace
}  // namespace gex::test
