#pragma once
// Model files for tests: small graphs, compiled and written into a folder of the test's own.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "compile/compile.hpp"
#include "compile/execute.hpp"
#include "deploy/build/save_model.hpp"
#include "deploy/code_image.hpp"
#include "deploy/model.hpp"
#include "interp/interp.hpp"
#include "ir/text/text.hpp"
#include "runtime/session/session.hpp"

namespace gex::test {

// A product with an epilogue, a reduction, functions of the C library (f64) and f16.
inline constexpr const char* kGraph = R"(symbols s0 in [1, 64]
graph main(%x: f32[s0, 24], %w: f32[24, 16]) -> (f32[s0, 16], f64[s0], f16[s0, 16]) {
  %m = matmul(%x, %w) : f32[s0, 16]
  %t = tanh(%m) : f32[s0, 16]
  %d = cast(%t) {dtype = f64} : f64[s0, 16]
  %e = sin(%d) : f64[s0, 16]
  %r = reduce_sum(%e) {axes = [1]} : f64[s0]
  %h = cast(%t) {dtype = f16} : f16[s0, 16]
  return %t, %r, %h
}
)";

class Folder {
 public:
  Folder() {
    path_ = std::filesystem::temp_directory_path() / str("gex_deploy_", getpid(), "_", next()++);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  static int& next() {
    static int number = 0;
    return number;
  }
  std::filesystem::path path_;
};

inline HostTensor ramp(std::vector<std::int64_t> shape, double step) {
  HostTensor tensor(DType::f32, std::move(shape));
  for (std::int64_t k = 0; k < tensor.numel(); ++k)
    tensor.set(k, step * static_cast<double>(k % 17 - 8));
  return tensor;
}

// The graph with %w as a weight.
struct Example {
  HostTensor weight = ramp({24, 16}, 0.05);
  Compiled compiled;

  explicit Example(CompileOptions options = {}) {
    auto owned = std::make_shared<HostTensor>(weight);
    std::unique_ptr<Graph> graph = parse_graph(kGraph);
    options.frozen.push_back({1, std::shared_ptr<const void>(owned, owned->data())});
    Signature signature = Signature::of(*graph);
    signature.inputs.pop_back();
    compiled = compile(std::move(graph), signature, options);
  }

  deploy::SaveReport save(const std::string& path, std::vector<std::string> levels) const {
    deploy::NewModel model;
    model.compiled = &compiled;
    model.metadata.name = "example";
    model.metadata.outputs.resize(3);
    model.metadata.outputs[0].name = "t";
    return deploy::save_models({model}, {std::move(levels)}, path);
  }

  std::vector<HostTensor> expected(const HostTensor& x) const {
    const std::unique_ptr<Graph> graph = parse_graph(kGraph);
    return interp::interpret(*graph, std::vector<HostTensor>{x, weight});
  }
};

inline std::vector<HostTensor> run(const deploy::Model& model, HostTensor x) {
  runtime::SessionOptions options;
  options.frozen = model.frozen;
  options.gears = model.gears;
  runtime::Session session(model.executable, options, model.specialiser);
  std::vector<HostTensor> inputs = {std::move(x)};
  return execute(session, inputs);
}

inline void expect_close(const std::vector<HostTensor>& got,
                         const std::vector<HostTensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].shape(), expected[k].shape());
    for (std::int64_t i = 0; i < got[k].numel(); ++i)
      ASSERT_NEAR(got[k].get(i), expected[k].get(i), k == 2 ? 2e-3 : 1e-5) << k << " " << i;
  }
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string reason(const std::function<void()>& body) {
  try {
    body();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace gex::test
