// Target "cuda:N" through gex.h and gex/es.hpp: memory of the caller stays the host's. Where there
// is no GPU, this binary runs itself once more with a CUDA driver that computes on the host and
// lets nobody else touch its memory.

#include <gex/gex.h>
#include <gtest/gtest.h>
#include <gex/es.hpp>

#include "../runtime/fake_cuda/inner_run.hpp"
#include "compile/compile.hpp"
#include "compile/execute.hpp"
#include "ir/text/text.hpp"
#include "on_device.hpp"

namespace gex::test {
namespace {

using namespace gex::es;

std::unique_ptr<es::Graph> softmax_of_product() {
  EsGraphBuilder builder("net");
  auto x = builder.CreateInput(0, "x", es::DType::f32, {"rows", 8});
  auto w = builder.CreateInput(1, "w", es::DType::f32, {8, 5});
  return builder.BuildAndReset({Softmax(Matmul(x, w), 1) + 1.0});
}

TEST(TargetOption, WithoutAGpuTheErrorSaysSo) {
  if (gpu_is_there()) GTEST_SKIP() << "there is a GPU";
  try {
    softmax_of_product()->Compile(on_gpu());
    FAIL() << "compiled and loaded for a device that is not there";
  } catch (const es::Error& error) {
    EXPECT_TRUE(error.status() == GEX_DEVICE_ERROR || error.status() == GEX_UNSUPPORTED);
    EXPECT_NE(std::string(error.what()).find("cuda:0"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("GEX_CUDA_LIBRARY_PATH"), std::string::npos)
        << error.what();
  }
}

class OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpu_is_there()) GTEST_SKIP() << "runs below TargetOption.WorksOverADriverOnTheHost";
  }
};

TEST_F(OnCuda, ResultsAreThoseOfTheCpu) {
  const es::Program cpu = softmax_of_product()->Compile(),
                    gpu = softmax_of_product()->Compile(on_gpu());
  for (const std::int64_t rows : {3, 1, 4, 3, 20}) {
    const std::vector<es::Tensor> inputs = {numbers({rows, 8}, 0.1F), numbers({8, 5}, 0.3F)};
    expect_near(gpu.Run(inputs)[0].ToVector<float>(), cpu.Run(inputs)[0].ToVector<float>());
  }
}

TEST_F(OnCuda, ResultsGoIntoMemoryOfTheCallersInAnyLayout) {
  const es::Program gpu = softmax_of_product()->Compile(on_gpu());
  const es::Tensor x = numbers({3, 8}, 0.1F), w = numbers({8, 5}, 0.3F);
  const std::vector<float> expected = gpu.Run({x, w})[0].ToVector<float>();
  std::vector<float> memory(3 * 10, -7.0F);  // every other column is somebody else's
  const std::int64_t shape[] = {3, 5}, strides[] = {10, 2};
  gex_tensor out = GEX_TENSOR_INIT;
  out.data = memory.data();
  out.rank = 2;
  out.shape = shape;
  out.strides = strides;
  std::vector<gex_tensor> outputs = {out};
  gpu.RunOn({x.c(), w.c()}, outputs);
  for (std::size_t k = 0; k < memory.size(); ++k)
    EXPECT_NEAR(memory[k], k % 2 == 0 ? expected[k / 2] : -7.0F, 1e-6F) << k;
}

TEST_F(OnCuda, InputsInOtherLayoutsAreRead) {
  const es::Program gpu = softmax_of_product()->Compile(on_gpu());
  const es::Tensor x = numbers({3, 8}, 0.1F), w = numbers({8, 5}, 0.3F);
  const std::vector<float> values = x.ToVector<float>();
  std::vector<float> turned(values.size());
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t c = 0; c < 8; ++c) turned[c * 3 + r] = values[r * 8 + c];
  const std::int64_t shape[] = {3, 8}, strides[] = {1, 3};
  gex_tensor in = GEX_TENSOR_INIT;
  in.data = turned.data();
  in.rank = 2;
  in.shape = shape;
  in.strides = strides;
  expect_near(gpu.RunOn({in, w.c()})[0].ToVector<float>(), gpu.Run({x, w})[0].ToVector<float>());
}

TEST_F(OnCuda, TensorsOnTheDeviceAreUsedInPlace) {
  const es::Program gpu = softmax_of_product()->Compile(on_gpu());
  const es::Tensor x = numbers({3, 8}, 0.1F), w = numbers({8, 5}, 0.3F);
  const std::vector<float> expected = gpu.Run({x, w})[0].ToVector<float>();
  const DeviceMemory rows(x.ToVector<float>()), weights(w.ToVector<float>());
  const DeviceMemory result(std::vector<float>(15, -1));
  const std::vector<std::int64_t> in{3, 8}, square{8, 5}, out{3, 5};
  const std::vector<gex_tensor> inputs = {rows.tensor(in), weights.tensor(square)};
  es::RunOptions options;
  options.inputs_on_device = true;
  expect_near(gpu.RunOn(inputs, options)[0].ToVector<float>(), expected);
  options.outputs_on_device = true;
  std::vector<gex_tensor> results = {result.tensor(out)};
  for (int turn = 0; turn < 3; ++turn) {
    gpu.RunOn(inputs, results, options);
    EXPECT_EQ(result.read(), expected);
  }
  options.inputs_on_device = false;
  gpu.RunOn({x.c(), w.c()}, results, options);
  EXPECT_EQ(result.read(), expected);
}

TEST_F(OnCuda, VariablesOnTheDeviceAreWrittenThere) {
  EsGraphBuilder builder("counter");
  auto x = builder.CreateInput(0, "x", es::DType::f32, {4});
  auto total = builder.CreateVariable(1, "total", es::DType::f32, {4});
  auto sum = Assign(total, total + x);
  const es::Program gpu = builder.BuildAndReset({sum * 2.0, x})->Compile(on_gpu());
  const DeviceMemory given({1, 2, 3, 4}), kept({0, 0, 0, 10}), twice({0, 0, 0, 0}),
      same({0, 0, 0, 0});
  const std::vector<std::int64_t> shape{4};
  std::vector<gex_tensor> results = {twice.tensor(shape), same.tensor(shape)};
  es::RunOptions options;
  options.inputs_on_device = options.outputs_on_device = true;
  for (int turn = 0; turn < 2; ++turn)
    gpu.RunOn({given.tensor(shape), kept.tensor(shape)}, results, options);
  EXPECT_EQ(kept.read(), (std::vector<float>{2, 4, 6, 18}));
  EXPECT_EQ(twice.read(), (std::vector<float>{4, 8, 12, 36}));
  EXPECT_EQ(same.read(), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(OnCuda, MemoryOfTheDeviceThatCanNotBeWrittenIsRefused) {
  const es::Program gpu = softmax_of_product()->Compile(on_gpu());
  const es::Tensor x = numbers({3, 8}, 0.1F), w = numbers({8, 5}, 0.3F);
  const DeviceMemory wide(std::vector<float>(30, 0));
  const std::vector<std::int64_t> shape{3, 5}, strides{10, 2};
  es::RunOptions options;
  options.outputs_on_device = true;
  const auto message = [&](gex_tensor out) -> std::string {
    try {
      std::vector<gex_tensor> results = {out};
      gpu.RunOn({x.c(), w.c()}, results, options);
    } catch (const es::Error& error) {
      return error.what();
    }
    return "no error";
  };
  gex_tensor apart = wide.tensor(shape);
  apart.strides = strides.data();
  EXPECT_NE(message(apart).find("output 0 must be dense memory of the device"), std::string::npos);
  EXPECT_NE(message(GEX_TENSOR_INIT).find("output 0: data is NULL"), std::string::npos);
}

TEST_F(OnCuda, VariablesAreWrittenInTheHostsMemory) {
  EsGraphBuilder builder("counter");
  auto x = builder.CreateInput(0, "x", es::DType::f32, {4});
  auto total = builder.CreateVariable(1, "total", es::DType::f32, {4});
  auto sum = Assign(total, total + x);
  const es::Program gpu = builder.BuildAndReset({sum * 2.0})->Compile(on_gpu());
  std::vector<es::Tensor> inputs = {es::Tensor::Of<float>({4}, {1, 2, 3, 4}),
                                    es::Tensor::Of<float>({4}, {0, 0, 0, 10})};
  EXPECT_EQ(gpu.Run(inputs)[0].ToVector<float>(), (std::vector<float>{2, 4, 6, 28}));
  EXPECT_EQ(inputs[1].ToVector<float>(), (std::vector<float>{1, 2, 3, 14}));
  EXPECT_EQ(gpu.Run(inputs)[0].ToVector<float>(), (std::vector<float>{4, 8, 12, 36}));
}

TEST_F(OnCuda, ViewsOfInputsAndEmptyTensorsComeOut) {
  EsGraphBuilder builder("views");
  auto x = builder.CreateInput(0, "x", es::DType::f32, {"rows", 4});
  const es::Program gpu = builder.BuildAndReset({Transpose(x, {1, 0}), x * 2.0})->Compile(on_gpu());
  const auto results = gpu.Run({es::Tensor::Of<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})});
  EXPECT_EQ(results[0].ToVector<float>(), (std::vector<float>{1, 5, 2, 6, 3, 7, 4, 8}));
  EXPECT_EQ(results[1].ToVector<float>(), (std::vector<float>{2, 4, 6, 8, 10, 12, 14, 16}));
  const auto empty = gpu.Run({es::Tensor::Of<float>({0, 4}, {})});
  EXPECT_EQ(empty[1].shape(), (std::vector<std::int64_t>{0, 4}));
}

// The check is a call of the host's, with operands that the device computed.
TEST_F(OnCuda, IndicesOutOfRangeAreErrors) {
  EsGraphBuilder builder("gather");
  auto x = builder.CreateInput(0, "x", es::DType::f32, {5, 2});
  auto i = builder.CreateInput(1, "i", es::DType::i64, {"n"});
  const es::Program gpu = builder.BuildAndReset({Index(x, {i}, {0})})->Compile(on_gpu());
  const es::Tensor table = numbers({5, 2}, 1);
  const auto good = gpu.Run({table, es::Tensor::Of<std::int64_t>({2}, {4, 0})});
  EXPECT_EQ(good[0].ToVector<float>()[2], table.ToVector<float>()[0]);
  try {
    gpu.Run({table, es::Tensor::Of<std::int64_t>({2}, {4, 5})});
    FAIL() << "index 5 of 5 was taken";
  } catch (const es::Error& error) {
    EXPECT_NE(std::string(error.what()).find("5"), std::string::npos) << error.what();
  }
}

TEST_F(OnCuda, AThreadPoolIsRefused) {
  gex_thread_pool pool = GEX_THREAD_POOL_INIT;
  pool.run = [](void*, std::int64_t count, void (*task)(void*, std::int64_t), void* context) {
    for (std::int64_t k = 0; k < count; ++k) task(context, k);
  };
  es::CompileOptions options = on_gpu();
  options.thread_pool = &pool;
  EXPECT_THROW(softmax_of_product()->Compile(options), es::Error);
}

// A product is captured at the gear's sizes only where nothing but its rows varies: a size that is
// summed over keeps its value, whatever the gears are.
TEST_F(OnCuda, GearsRoundNoSizeThatIsSummedOver) {
  const char* const text = R"(symbols k
graph main(%x: f32[40, k], %w: f32[k, 5]) -> (f32[40, 5]) {
  %a = tanh(%x) : f32[40, k]
  %b = tanh(%w) : f32[k, 5]
  %y = matmul(%a, %b) : f32[40, 5]
  %z = exp(%y) : f32[40, 5]
  return %z
})";
  gex::CompileOptions options;
  options.target = "cuda:0";
  const Compiled gpu = compile(parse_graph(text), options), cpu = compile(parse_graph(text));
  ASSERT_EQ(program::print(*gpu.program).find("cublas"), std::string::npos);
  runtime::SessionOptions session_options;
  session_options.gears.policy = runtime::GearOptions::Policy::automatic;
  runtime::Session on_gpu_session(gpu.executable, session_options);
  runtime::Session on_cpu(cpu.executable, {});
  for (const std::int64_t k : {5, 6, 7, 9, 33}) {
    std::vector<HostTensor> inputs;
    for (const auto& shape : {std::vector<std::int64_t>{40, k}, std::vector<std::int64_t>{k, 5}}) {
      HostTensor tensor(gex::DType::f32, shape);
      for (std::int64_t n = 0; n < tensor.numel(); ++n)
        tensor.set(n, static_cast<double>(n % 5) * 0.125);
      inputs.push_back(std::move(tensor));
    }
    std::vector<HostTensor> same = inputs;
    const HostTensor got = std::move(execute(on_gpu_session, inputs)[0]);
    const HostTensor expected = std::move(execute(on_cpu, same)[0]);
    for (std::int64_t n = 0; n < expected.numel(); ++n)
      ASSERT_NEAR(got.get(n) / expected.get(n), 1.0, 1e-4) << "k = " << k;
  }
}

TEST(TargetOption, WorksOverADriverOnTheHost) {
  if (gpu_is_there()) GTEST_SKIP() << "a CUDA driver is there: OnCuda runs over it directly";
  const InnerRun run = run_over_fake_cuda("GEX_FAKE_CUDA_PROTECT=1", "OnCuda.*");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_NE(run.output.find("[  PASSED  ] 11 tests"), std::string::npos) << run.output;
  EXPECT_EQ(run.output.find("SKIPPED"), std::string::npos) << run.output;
}

}  // namespace
}  // namespace gex::test
