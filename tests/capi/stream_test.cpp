// Runs on a stream of the caller: enqueued after its work, without waiting. Where there is no GPU,
// this binary runs itself once more over a CUDA driver that computes nothing before somebody waits.

#include <gex/kernel.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "../runtime/fake_cuda/inner_run.hpp"
#include "nvidia/api.hpp"
#include "on_device.hpp"

namespace gex::test {
namespace {

using namespace gex::es;

const nvidia::DriverApi& driver() {
  std::string why_not;
  return *nvidia::driver_api(why_not);
}

// Whether the driver computes nothing before somebody waits: then a run that returned without
// waiting has written nothing.
bool is_lazy() { return std::getenv("GEX_FAKE_CUDA_LAZY") != nullptr; }

class Stream {
 public:
  Stream() {
    const runtime::Device& device = *runtime::open_device("cuda_graph:0")->device;
    device.is_capturing(0);  // makes the device's context the thread's
    EXPECT_EQ(driver().stream_create(&stream_, nvidia::kStreamNonBlocking), 0);
  }
  ~Stream() { driver().stream_destroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  nvidia::Stream get() const { return stream_; }

  void write(const gex_tensor& to, const std::vector<float>& values) const {
    EXPECT_EQ(driver().copy_to_device_async(reinterpret_cast<nvidia::DevicePtr>(to.data),
                                            values.data(), 4 * values.size(), stream_),
              0);
  }
  void read(std::vector<float>& values, const gex_tensor& from) const {
    EXPECT_EQ(
        driver().copy_to_host_async(values.data(), reinterpret_cast<nvidia::DevicePtr>(from.data),
                                    4 * values.size(), stream_),
        0);
  }
  es::RunOptions options() const {
    es::RunOptions options;
    options.stream = stream_;
    return options;
  }

 private:
  nvidia::Stream stream_ = nullptr;
};

// exp(x) of 4 numbers, through a softmax: more than one launch.
std::unique_ptr<es::Graph> weights_of_four() {
  EsGraphBuilder builder("net");
  auto x = builder.CreateInput(0, "x", es::DType::f32, {"rows", 4});
  auto w = builder.CreateInput(1, "w", es::DType::f32, {4, 4});
  return builder.BuildAndReset({Softmax(Matmul(x, w), 1)});
}
const std::vector<float> kTwice = {2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2};

std::vector<float> expected(const std::vector<float>& x) {
  std::vector<float> result;
  float sum = 0;
  for (const float value : x) sum += std::exp(2 * value);
  for (const float value : x) result.push_back(std::exp(2 * value) / sum);
  return result;
}

const std::vector<std::int64_t> kRow{1, 4}, kSquare{4, 4}, kFour{4};

// Inputs that are written on the stream, a second program that reads the results of the first,
// and results that are copied away on the stream, three times in the same memory.
TEST(CudaStream, WorkIsDoneInTheOrderOfTheStream) {
  if (!gpu_is_there()) GTEST_SKIP() << "runs below StreamOption.RunsOnAStream";
  const es::Program program = weights_of_four()->Compile(on_gpu());
  const Stream stream;
  const DeviceMemory x({0, 0, 0, 0}), w(kTwice), y({-1, -1, -1, -1}), z({-1, -1, -1, -1});
  std::vector<gex_tensor> first = {y.tensor(kRow)}, second = {z.tensor(kRow)};
  std::array<std::vector<float>, 3> given = {{{1, 2, 3, 4}, {0, 0, 1, 0}, {4, 1, 0, 2}}}, got;
  for (std::size_t k = 0; k < 3; ++k) {
    got[k].assign(4, -1);
    stream.write(x.tensor(kRow), given[k]);
    program.RunOn({x.tensor(kRow), w.tensor(kSquare)}, first, stream.options());
    program.RunOn({y.tensor(kRow), w.tensor(kSquare)}, second, stream.options());
    stream.read(got[k], z.tensor(kRow));
  }
  // The device has not begun: no run waited.
  if (is_lazy()) {
    for (const auto& values : got) EXPECT_EQ(values, (std::vector<float>{-1, -1, -1, -1}));
  }
  program.Synchronize(stream.get());
  for (std::size_t k = 0; k < 3; ++k) expect_near(got[k], expected(expected(given[k])));
}

TEST(CudaStream, StreamsRunBesideEachOther) {
  if (!gpu_is_there()) GTEST_SKIP() << "runs below StreamOption.RunsOnAStream";
  const es::Program program = weights_of_four()->Compile(on_gpu());
  const Stream one, other;
  const DeviceMemory w(kTwice), a({1, 2, 3, 4}), b({4, 3, 2, 9}), of_a({-1, -1, -1, -1}),
      of_b({-1, -1, -1, -1});
  for (int turn = 0; turn < 6; ++turn) {
    std::vector<gex_tensor> into_a = {of_a.tensor(kRow)}, into_b = {of_b.tensor(kRow)};
    program.RunOn({a.tensor(kRow), w.tensor(kSquare)}, into_a, one.options());
    program.RunOn({b.tensor(kRow), w.tensor(kSquare)}, into_b, other.options());
  }
  program.Synchronize(one.get());
  program.Synchronize(other.get());
  expect_near(of_a.read(), expected({1, 2, 3, 4}));
  expect_near(of_b.read(), expected({4, 3, 2, 9}));
}

// Sizes that were not run before, also with more temporaries than the arena has.
TEST(CudaStream, NewSizesDoNotDisturbWorkThatIsNotDone) {
  if (!gpu_is_there()) GTEST_SKIP() << "runs below StreamOption.RunsOnAStream";
  const es::Program program = weights_of_four()->Compile(on_gpu());
  const Stream stream;
  const DeviceMemory w(kTwice);
  std::vector<std::unique_ptr<DeviceMemory>> inputs, outputs;
  const std::vector<std::int64_t> rows = {1, 3, 40, 2, 300};
  for (const std::int64_t count : rows) {
    const std::vector<std::int64_t> shape{count, 4};
    inputs.push_back(std::make_unique<DeviceMemory>(numbers(shape, 0.1F).ToVector<float>()));
    outputs.push_back(
        std::make_unique<DeviceMemory>(std::vector<float>(static_cast<std::size_t>(count) * 4)));
    std::vector<gex_tensor> results = {outputs.back()->tensor(shape)};
    program.RunOn({inputs.back()->tensor(shape), w.tensor(kSquare)}, results, stream.options());
  }
  program.Synchronize(stream.get());
  const es::Program cpu = weights_of_four()->Compile();
  const es::Tensor square = es::Tensor::Of<float>({4, 4}, kTwice);
  for (std::size_t k = 0; k < rows.size(); ++k)
    expect_near(outputs[k]->read(),
                cpu.Run({numbers({rows[k], 4}, 0.1F), square})[0].ToVector<float>());
}

TEST(CudaStream, ACaptureOfTheCallerGetsTheRun) {
  if (!gpu_is_there()) GTEST_SKIP() << "runs below StreamOption.RunsOnAStream";
  const es::Program program = weights_of_four()->Compile(on_gpu());
  const Stream stream;
  const DeviceMemory x({1, 2, 3, 4}), w(kTwice), y({-1, -1, -1, -1});
  std::vector<gex_tensor> results = {y.tensor(kRow)};
  ASSERT_EQ(driver().capture_begin(stream.get(), 0), 0);
  program.RunOn({x.tensor(kRow), w.tensor(kSquare)}, results, stream.options());
  nvidia::Graph graph = nullptr;
  ASSERT_EQ(driver().capture_end(stream.get(), &graph), 0);
  nvidia::GraphExec exec = nullptr;
  ASSERT_EQ(driver().graph_instantiate(&exec, graph, 0), 0);
  for (const std::vector<float>& values : {std::vector<float>{1, 2, 3, 4}, {0, 5, 1, 1}}) {
    stream.write(x.tensor(kRow), values);
    ASSERT_EQ(driver().graph_launch(exec, stream.get()), 0);
    program.Synchronize(stream.get());
    expect_near(y.read(), expected(values));
  }
  driver().graph_exec_destroy(exec);
  driver().graph_destroy(graph);
}

// y = x + 1, on the host.
gex_status add_one(void*, const gex_tensor* inputs, std::size_t, const gex_tensor* outputs,
                   std::size_t, const char*) {
  for (int k = 0; k < 4; ++k)
    static_cast<float*>(outputs[0].data)[k] = static_cast<const float*>(inputs[0].data)[k] + 1;
  return GEX_OK;
}

// Its operands were computed on the stream, and its results must outlive the call.
TEST(CudaStream, HostFunctionsReadAndWriteInTheOrderOfTheStream) {
  if (!gpu_is_there()) GTEST_SKIP() << "runs below StreamOption.RunsOnAStream";
  gex_kernel kernel = GEX_KERNEL_INIT;
  kernel.name = "stream.add_one";
  kernel.run = add_one;
  ASSERT_EQ(gex_register_kernel(&kernel), GEX_OK) << gex_last_error();
  gex_graph* graph = nullptr;
  gex_value x = 0, doubled = 0, more = 0, y = 0;
  const gex_size shape[1] = {{4, nullptr}};
  ASSERT_EQ(gex_graph_create("g", &graph), GEX_OK);
  ASSERT_EQ(gex_graph_input(graph, "x", GEX_F32, shape, 1, &x), GEX_OK);
  const gex_value two_x[2] = {x, x};
  ASSERT_EQ(gex_graph_add(graph, "add", two_x, 2, nullptr, 0, &doubled, 1), GEX_OK);
  const gex_result result = {GEX_F32, shape, 1};
  ASSERT_EQ(gex_graph_call_kernel(graph, "stream.add_one", "", &doubled, 1, &result, 1, &more),
            GEX_OK)
      << gex_last_error();
  const gex_value twice_more[2] = {more, more};
  ASSERT_EQ(gex_graph_add(graph, "add", twice_more, 2, nullptr, 0, &y, 1), GEX_OK);
  ASSERT_EQ(gex_graph_set_outputs(graph, &y, 1), GEX_OK);
  gex_compile_options options = GEX_COMPILE_OPTIONS_INIT;
  const gex_option target = {"target", "cuda:0"};
  options.options = &target;
  options.option_count = 1;
  gex_program* made = nullptr;
  ASSERT_EQ(gex_compile(graph, &options, &made), GEX_OK) << gex_last_error();
  const es::Program program(made);
  gex_graph_destroy(graph);
  const Stream stream, later;
  const DeviceMemory a({0, 0, 0, 0}), b({5, 6, 7, 8}), of_a({-1, -1, -1, -1}),
      of_b({-1, -1, -1, -1});
  std::vector<gex_tensor> into_a = {of_a.tensor(kFour)}, into_b = {of_b.tensor(kFour)};
  const std::vector<float> values = {1, 2, 3, 4};
  stream.write(a.tensor(kFour), values);
  program.RunOn({a.tensor(kFour)}, into_a, stream.options());
  program.RunOn({b.tensor(kFour)}, into_b, later.options());
  program.Synchronize(stream.get());
  program.Synchronize(later.get());
  expect_near(of_a.read(), {6, 10, 14, 18});
  expect_near(of_b.read(), {22, 26, 30, 34});
}

TEST(CudaStream, TheThreadKeepsItsContext) {
  if (!gpu_is_there()) GTEST_SKIP() << "runs below StreamOption.RunsOnAStream";
  if (!is_lazy()) GTEST_SKIP() << "needs a second context";
  const es::Program program = weights_of_four()->Compile(on_gpu());
  const DeviceMemory x({1, 2, 3, 4}), w(kTwice), y({-1, -1, -1, -1});
  const Stream stream;
  int callers = 0;
  const auto context = reinterpret_cast<nvidia::Context>(&callers);
  driver().context_set(context);
  std::vector<gex_tensor> results = {y.tensor(kRow)};
  program.RunOn({x.tensor(kRow), w.tensor(kSquare)}, results, stream.options());
  program.Synchronize(stream.get());
  const es::Program another = weights_of_four()->Compile(on_gpu());
  nvidia::Context now = nullptr;
  driver().context_get(&now);
  EXPECT_EQ(now, context);
}

TEST(CudaStream, IndicesOutOfRangeAreErrors) {
  if (!gpu_is_there()) GTEST_SKIP() << "runs below StreamOption.RunsOnAStream";
  EsGraphBuilder builder("gather");
  auto x = builder.CreateInput(0, "x", es::DType::f32, {4});
  auto i = builder.CreateInput(1, "i", es::DType::f32, {"n"});
  const es::Program program =
      builder.BuildAndReset({Index(x, {Cast(i, es::DType::i64)}, {0})})->Compile(on_gpu());
  const Stream stream;
  const DeviceMemory table({10, 11, 12, 13}), at({0, 0, 0, 0}), y({-1, -1, -1, -1});
  std::vector<gex_tensor> results = {y.tensor(kFour)};
  const std::vector<float> good = {3, 0, 1, 3}, bad = {3, 0, 4, 1};
  stream.write(at.tensor(kFour), good);
  program.RunOn({table.tensor(kFour), at.tensor(kFour)}, results, stream.options());
  program.Synchronize(stream.get());
  expect_near(y.read(), {13, 10, 11, 13});
  stream.write(at.tensor(kFour), bad);
  try {
    program.RunOn({table.tensor(kFour), at.tensor(kFour)}, results, stream.options());
    program.Synchronize(stream.get());
    FAIL() << "index 4 of 4 was taken";
  } catch (const es::Error& error) {
    EXPECT_NE(std::string(error.what()).find("indices range from 0 to 4"), std::string::npos)
        << error.what();
  }
}

// With GEX_FAKE_FAULT a launch reads an illegal address.
TEST(FaultOnStream, IsReportedByTheNextWait) {
  if (std::getenv("GEX_FAKE_FAULT") == nullptr)
    GTEST_SKIP() << "runs below StreamOption.RunsOnAStream";
  const es::Program program = weights_of_four()->Compile(on_gpu());
  const Stream stream;
  const DeviceMemory x({1, 2, 3, 4}), w(kTwice), y({-1, -1, -1, -1});
  std::vector<gex_tensor> results = {y.tensor(kRow)};
  const auto run = [&] {
    program.RunOn({x.tensor(kRow), w.tensor(kSquare)}, results, stream.options());
  };
  const auto error_of = [](const auto& what) -> std::string {
    try {
      what();
    } catch (const es::Error& error) {
      return error.what();
    }
    return "no error";
  };
  run();  // enqueued without an error
  EXPECT_NE(error_of([&] { program.Synchronize(stream.get()); }).find("GEX_CUDA_CHECK=1"),
            std::string::npos);
  EXPECT_NE(error_of(run).find("GEX_CUDA_CHECK=1"), std::string::npos);
}

TEST(StreamOption, NeedsEverythingOnADevice) {
  const es::Program cpu = weights_of_four()->Compile();
  const es::Tensor x = numbers({1, 4}, 1), w = es::Tensor::Of<float>({4, 4}, kTwice);
  const gex_tensor inputs[2] = {x.c(), w.c()};
  gex_tensor output = GEX_TENSOR_INIT;
  gex_run_options options = GEX_RUN_OPTIONS_INIT;
  const auto run = [&](unsigned flags) -> std::string {
    options.on_device = flags;
    return gex_program_run_with(cpu.handle(), inputs, 2, &output, 1, &options) == GEX_OK
               ? "no error"
               : gex_last_error();
  };
  EXPECT_NE(run(GEX_ON_STREAM).find("add GEX_INPUTS_ON_DEVICE"), std::string::npos);
  EXPECT_NE(run(8).find("options.on_device is 8"), std::string::npos);
  output.data = x.c().data;
  const unsigned all = GEX_INPUTS_ON_DEVICE | GEX_OUTPUTS_ON_DEVICE | GEX_ON_STREAM;
  EXPECT_NE(run(all).find("a program for the CPU"), std::string::npos);
  const auto ignore = [](void*, gex_status, const char*) {};
  EXPECT_EQ(
      gex_program_run_async_with(cpu.handle(), inputs, 2, &output, 1, &options, ignore, nullptr),
      GEX_INVALID_ARGUMENT);
  EXPECT_NE(std::string(gex_last_error()).find("asynchronous by itself"), std::string::npos);
  EXPECT_EQ(gex_program_synchronize(cpu.handle(), nullptr), GEX_UNSUPPORTED);
}

// Older programs have a struct without the stream.
TEST(StreamOption, IsAbsentInTheOlderStruct) {
  const es::Program cpu = weights_of_four()->Compile();
  const es::Tensor x = numbers({1, 4}, 1), w = es::Tensor::Of<float>({4, 4}, kTwice);
  const gex_tensor inputs[2] = {x.c(), w.c()};
  gex_tensor output = GEX_TENSOR_INIT;
  gex_run_options options = GEX_RUN_OPTIONS_INIT;
  options.struct_size = offsetof(gex_run_options, stream);
  options.stream = &options;  // not part of it
  EXPECT_EQ(gex_program_run_with(cpu.handle(), inputs, 2, &output, 1, &options), GEX_OK)
      << gex_last_error();
  gex_tensor_release(&output);
}

TEST(StreamOption, RunsOnAStream) {
  if (gpu_is_there()) GTEST_SKIP() << "a CUDA driver is there: CudaStream runs over it directly";
  const InnerRun run = run_over_fake_cuda("GEX_FAKE_CUDA_LAZY=1", "CudaStream.*");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_NE(run.output.find("[  PASSED  ] 7 tests"), std::string::npos) << run.output;
  EXPECT_EQ(run.output.find("SKIPPED"), std::string::npos) << run.output;
  const InnerRun fault =
      run_over_fake_cuda("GEX_FAKE_CUDA_LAZY=1 GEX_FAKE_FAULT=1", "FaultOnStream.*");
  EXPECT_EQ(fault.status, 0) << fault.output;
  EXPECT_EQ(fault.output.find("SKIPPED"), std::string::npos) << fault.output;
}

}  // namespace
}  // namespace gex::test
