// A program of generated kernels (elementwise, reduction) and a library matmul on a GPU: replayed
// with changed sizes and addresses, and without a new capture.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <iostream>
#include <limits>

#include "backend/backend.hpp"
#include "backend/cuda/kernel_text.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "harness.hpp"
#include "nvidia/api.hpp"
#include "runtime/device.hpp"
#include "runtime/trace.hpp"

namespace gex::runtime::testing {
namespace {

constexpr std::int64_t kIn = 64, kOut = 32;

bool gpu_is_there() {
  const auto drivers = available_drivers();
  return std::count(drivers.begin(), drivers.end(), "cuda_graph") == 1;
}

const char* const kScale = R"(
kernel scale(x: in f32[rows, cols], y: out f32[rows, cols]) grid(i < rows, j < cols) {
  stage {
    v = load x[i, j]
    w = add(mul(v, 0.5), 1)
    store y[i, j] = w
  }
})";
const char* const kSoftmax = R"(
kernel softmax(x: in f32[rows, cols], y: out f32[rows, cols]) grid(i < rows) {
  local m: f32[]
  local t: f32[]
  stage statistics reduce(j < cols) {
    v = load x[i, j]
    one = const 1 : f32
    acc top: f32 = -inf <- v
    acc total: f32 = 0 <- one
    combine softmax
    a = acc top
    b = acc total
    store m[] = a
    store t[] = b
  }
  stage result domain(j < cols) {
    v = load x[i, j]
    a = load m[]
    b = load t[]
    e = exp(sub(v, a))
    q = div e, b
    store y[i, j] = q
  }
})";

// y = softmax(x * 0.5 + 1) @ w + elementwise, w a constant or an input.
class ThreeKernels {
 public:
  ThreeKernels(const std::vector<float>& weights, bool weights_are_input) {
    program_->name = "three_kernels";
    program_->symbols = {rows_};
    const int x = buffer("x", Kind::input, {rows_, kIn}, 0);
    const int w = buffer("w", weights_are_input ? Kind::input : Kind::constant, {kIn, kOut},
                         weights_are_input ? 1 : -1);
    const int scaled = buffer("scaled", Kind::temp, {rows_, kIn});
    const int soft = buffer("soft", Kind::temp, {rows_, kIn});
    const int multiplied = buffer("multiplied", Kind::temp, {rows_, kOut});
    const int y = buffer("y", Kind::output, {rows_, kOut}, 0);
    input("x", {rows_, kIn}, x);
    if (weights_are_input)
      input("w", {kIn, kOut}, w);
    else
      program_->buffers[static_cast<std::size_t>(w)].data =
          std::make_shared<HostTensor>(HostTensor::of({kIn, kOut}, weights));
    output("y", {rows_, kOut}, y);
    add_kernel(kScale, x, scaled, kIn);
    add_kernel(kSoftmax, scaled, soft, kIn);
    add_matmul(soft, w, multiplied);
    add_kernel(kScale, multiplied, y, kOut);
    segment_.name = "main";
    program_->segments.push_back(std::move(segment_));
    program_->main = {0};
  }

  std::shared_ptr<program::Executable> compiled() {
    auto executable = std::make_shared<program::Executable>();
    const auto cubins =
        backend::cuda::compile_cubins(sources_, backend::find_target("cuda").architecture, nullptr);
    for (std::size_t k = 0; k < sources_.size(); ++k)
      executable->device_codes.push_back(
          program_->codes[k].problem.empty()
              ? program::DeviceCode{cubins[k], program_->codes[k].name}
              : program::DeviceCode{});
    executable->program = std::move(program_);
    return executable;
  }

 private:
  using Kind = program::BufferDesc::Kind;

  int buffer(const char* name, Kind kind, std::vector<Dim> shape, int slot = -1) {
    program::BufferDesc desc;
    desc.name = name;
    desc.kind = kind;
    desc.bytes = product(shape) * Dim(4);
    desc.shape = std::move(shape);
    desc.slot = slot;
    program_->buffers.push_back(desc);
    return static_cast<int>(program_->buffers.size()) - 1;
  }
  void input(const char* name, std::vector<Dim> shape, int id) {
    program::InputDesc desc;
    desc.name = name;
    desc.shape = std::move(shape);
    desc.buffer = id;
    program_->inputs.push_back(desc);
  }
  void output(const char* name, std::vector<Dim> shape, int id) {
    program::OutputDesc desc;
    desc.name = name;
    desc.shape = std::move(shape);
    desc.buffer = id;
    program_->outputs.push_back(desc);
  }
  void add(program::Launch launch) {
    launch.code = static_cast<int>(program_->codes.size()) - 1;
    program::Step step;
    step.op = std::move(launch);
    segment_.steps.push_back(step);
  }
  void add_kernel(const char* text, int from, int to, Dim cols) {
    const loop::Kernel kernel = loop::parse_kernel(text);
    const backend::cuda::KernelText made = backend::cuda::emit(kernel);
    program_->codes.push_back({.name = made.name});
    sources_.push_back({made.name, made.source});
    const auto with_sizes = [&](Dim dim) {
      return dim.substitute(
          [&](Dim symbol) -> std::optional<Dim> { return symbol.name() == "rows" ? rows_ : cols; });
    };
    program::Launch launch;
    launch.name = kernel.name;
    launch.buffers = {from, to};
    launch.writes = {false, true};
    for (Dim symbol : kernel.symbols()) launch.dims.push_back(with_sizes(symbol));
    launch.grid = with_sizes(made.grid);
    launch.scratch_bytes = with_sizes(made.shared_bytes);
    launch.block = made.block;
    add(std::move(launch));
  }
  void add_matmul(int left, int right, int to) {
    program_->codes.push_back({.name = "matmul",
                               .problem = problems::print(problems::MatmulProblem{}),
                               .algorithm = "cublas"});
    sources_.push_back({"matmul", "extern \"C\" __global__ void unused() {}"});
    program::Launch launch;
    launch.name = "matmul";
    launch.buffers = {left, right, to};
    launch.writes = {false, false, true};
    launch.dims = {1, 1, rows_, kOut, kIn};
    for (const std::int64_t stride : {0L, 0L, kIn, 1L, 0L, 0L, kOut, 1L, 0L, 0L, kOut, 1L})
      launch.dims.emplace_back(stride);
    launch.grid = 1;
    add(std::move(launch));
  }

  const Dim rows_ = Dim::symbol("s0", {1, 4096});
  std::shared_ptr<program::Program> program_ = std::make_shared<program::Program>();
  program::Segment segment_;
  std::vector<backend::cuda::Source> sources_;  // by code; the library's has none
};

std::shared_ptr<program::Executable> make_program(const std::vector<float>& weights,
                                                  bool weights_are_input) {
  return ThreeKernels(weights, weights_are_input).compiled();
}

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::vector<float> out(count);
  for (float& v : out) {
    seed = seed * 1664525U + 1013904223U;
    v = static_cast<float>(seed >> 8) / static_cast<float>(1U << 24) * 4 - 2;
  }
  return out;
}

std::vector<float> expected(const std::vector<float>& x, const std::vector<float>& w,
                            std::int64_t rows) {
  std::vector<float> y(static_cast<std::size_t>(rows * kOut));
  for (std::int64_t i = 0; i < rows; ++i) {
    double row[kIn], sum = 0;
    for (std::int64_t j = 0; j < kIn; ++j) {
      row[j] = std::exp(static_cast<double>(x[static_cast<std::size_t>(i * kIn + j)]) * 0.5 + 1);
      sum += row[j];
    }
    for (std::int64_t n = 0; n < kOut; ++n) {
      double dot = 0;
      for (std::int64_t j = 0; j < kIn; ++j)
        dot += row[j] / sum * static_cast<double>(w[static_cast<std::size_t>(j * kOut + n)]);
      y[static_cast<std::size_t>(i * kOut + n)] = static_cast<float>(dot * 0.5 + 1);
    }
  }
  return y;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float worst = a.size() == b.size() ? 0 : std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::isnan(a[i]) ? std::numeric_limits<float>::infinity()
                             : std::max(worst, std::fabs(a[i] - b[i]));
  return worst;
}

// One call with new input and output memory; the difference from the expected result.
float run_once(Session& session, const std::string& driver, const std::vector<float>& w,
               bool weights_are_input, std::int64_t rows, unsigned seed) {
  const std::vector<float> x = random_values(static_cast<std::size_t>(rows * kIn), seed);
  const Tensor input = Tensor::f32(driver, {rows, kIn}, x);
  const Tensor weights = Tensor::f32(driver, {kIn, kOut}, w);
  std::vector<InputArg> args = {input.arg()};
  if (weights_are_input) args.push_back(weights.arg());
  TestHost host(driver);
  session.run(args, host);
  return largest_difference(host.f32(0), expected(x, w, rows));
}

TEST(CudaProgram, replays_other_sizes_and_addresses_without_a_new_capture) {
  if (!gpu_is_there()) GTEST_SKIP() << "NO GPU: the three-kernel program was not run\n";
  const std::vector<float> w = random_values(kIn * kOut, 5);
  for (const std::string driver : {"cuda_stream", "cuda_graph"}) {
    Session session(make_program(w, false), {.driver = driver});
    unsigned seed = 1;
    for (const std::int64_t rows : {100, 97, 112, 99, 100, 105})
      EXPECT_LE(run_once(session, driver, w, false, rows, seed++), 1e-5F)
          << driver << " rows " << rows;
    const Counters counters = session.counters();
    EXPECT_EQ(counters.launches, 6 * 4);
    if (driver == "cuda_graph") {
      EXPECT_EQ(counters.captures, 1) << "one gear serves 65 to 128 rows";
      EXPECT_EQ(counters.recordings, 1) << "one graph, made once";
      EXPECT_EQ(counters.graph_launches, 5) << "the first call runs uncaptured";
      EXPECT_EQ(counters.single_launches, 4);
      EXPECT_LE(run_once(session, driver, w, false, 129, seed++), 1e-5F);
      EXPECT_EQ(session.counters().recordings, 2) << "the next gear";
    } else {
      EXPECT_EQ(counters.graph_launches, 0);
      EXPECT_EQ(counters.single_launches, 6 * 4);
    }
  }
}

struct LastTrace final : TraceSink {
  void take(const std::shared_ptr<const program::Program>&, CallTrace trace) override {
    last = std::move(trace);
  }
  CallTrace last{1};
};

TEST(CudaProgram, replays_the_graph_of_a_traced_call_with_times_of_its_steps) {
  if (!gpu_is_there()) GTEST_SKIP() << "NO GPU: no call was traced\n";
  const std::vector<float> w = random_values(kIn * kOut, 5);
  Session session(make_program(w, false), {.driver = "cuda_graph"});
  EXPECT_LE(run_once(session, "cuda_graph", w, false, 100, 1), 1e-5F);
  const auto kept = std::make_shared<LastTrace>();
  set_trace_sink(kept);
  const Counters before = session.counters();
  for (const std::int64_t rows : {100, 97, 112})
    EXPECT_LE(run_once(session, "cuda_graph", w, false, rows, 2), 1e-5F) << rows;
  set_trace_sink(nullptr);
  const Counters after = session.counters();
  EXPECT_EQ(after.recordings - before.recordings, 1) << "a graph with events, made once";
  EXPECT_EQ(after.graph_launches - before.graph_launches, 2) << "the first call runs uncaptured";
  std::vector<TraceEvent> steps = kept->last.events();
  std::erase_if(steps, [](const TraceEvent& e) { return e.worker == TraceEvent::kHost; });
  ASSERT_EQ(steps.size(), 4U);
  for (std::size_t k = 0; k < steps.size(); ++k) {
    EXPECT_LT(steps[k].begin, steps[k].end);
    EXPECT_GE(steps[k].begin, k == 0 ? kept->last.begin : steps[k - 1].end);
    EXPECT_LE(steps[k].end, kept->last.end);
  }
  EXPECT_LE(run_once(session, "cuda_graph", w, false, 100, 3), 1e-5F);
  EXPECT_EQ(session.counters().recordings, after.recordings) << "graphs without events stay";
}

TEST(CudaProgram, a_sequence_that_grows_from_24_to_151_needs_4_captures) {
  if (!gpu_is_there()) GTEST_SKIP() << "NO GPU: captures were not counted\n";
  const std::string driver = "cuda_graph";
  const std::vector<float> w = random_values(kIn * kOut, 9);
  using Policy = GearOptions::Policy;
  for (const Policy policy : {Policy::exact, Policy::automatic}) {
    Session session(make_program(w, false), {.gears = {.policy = policy}, .driver = driver});
    const std::vector<std::int64_t> lengths = {24, 25, 32, 33, 50, 64, 65, 100, 128, 129, 151};
    for (const std::int64_t rows : lengths)
      EXPECT_LE(run_once(session, driver, w, false, rows, static_cast<unsigned>(rows)), 1e-5F)
          << "rows " << rows;
    const Counters counters = session.counters();
    EXPECT_EQ(counters.captures, 4) << "32, 64, 128, 256";
    EXPECT_EQ(counters.recordings, 4);
    EXPECT_EQ(counters.graph_launches, static_cast<std::int64_t>(lengths.size()) - 4)
        << "each call but a gear's first";
  }
}

TEST(CudaProgram, padding_full_of_nan_reaches_no_valid_row) {
  if (!gpu_is_there()) GTEST_SKIP() << "NO GPU: padding was not tested\n";
  const std::string driver = "cuda_graph";
  const std::vector<float> w = random_values(kIn * kOut, 6);
  Session session(make_program(w, false), {.driver = driver});
  const auto context = open_device(driver);
  EXPECT_LE(run_once(session, driver, w, false, 112, 1), 1e-5F);
  const auto bytes = static_cast<std::size_t>(session.counters().arena_bytes);
  const std::vector<float> poison(bytes / 4, std::numeric_limits<float>::quiet_NaN());
  for (const std::int64_t rows : {97, 111}) {
    auto queue = context->queues->acquire(bytes);
    context->device->write(queue->arena.reserve(0, bytes), poison.data(), bytes);
    context->queues->give_back(std::move(queue));
    EXPECT_LE(run_once(session, driver, w, false, rows, 2), 1e-5F) << "rows " << rows;
  }
  EXPECT_EQ(session.counters().recordings, 1);
}

TEST(CudaProgram, weights_of_the_caller_are_captured_and_captured_again_when_they_move) {
  if (!gpu_is_there()) GTEST_SKIP() << "NO GPU: library calls were not tested\n";
  for (const std::string driver : {"cuda_stream", "cuda_graph"}) {
    const std::vector<float> first = random_values(kIn * kOut, 7);
    const std::vector<float> second = random_values(kIn * kOut, 8);
    // Both live at once, so their addresses differ.
    const Tensor weights[] = {Tensor::f32(driver, {kIn, kOut}, first),
                              Tensor::f32(driver, {kIn, kOut}, second)};
    Session session(make_program(first, true), {.driver = driver});
    for (const int which : {0, 0, 1, 1}) {
      const std::vector<float> x = random_values(100 * kIn, 3);
      const Tensor input = Tensor::f32(driver, {100, kIn}, x);
      TestHost host(driver);
      session.run(std::vector<InputArg>{input.arg(), weights[which].arg()}, host);
      EXPECT_LE(largest_difference(host.f32(0), expected(x, which == 0 ? first : second, 100)),
                1e-5F)
          << driver << " weights " << which;
    }
    EXPECT_EQ(session.counters().recordings, driver == "cuda_graph" ? 2 : 0);
  }
}

TEST(CudaProgram, operands_that_move_at_each_call_are_soon_left_out_of_captured_graphs) {
  if (!gpu_is_there()) GTEST_SKIP() << "NO GPU: library calls were not tested\n";
  const std::vector<float> first = random_values(kIn * kOut, 7);
  const std::vector<float> second = random_values(kIn * kOut, 8);
  const Tensor weights[] = {Tensor::f32("cuda_graph", {kIn, kOut}, first),
                            Tensor::f32("cuda_graph", {kIn, kOut}, second)};
  Session session(make_program(first, true), {.driver = "cuda_graph"});
  std::int64_t recordings = 0;
  for (int call = 0; call < 12; ++call) {
    const int which = call % 2;
    const std::vector<float> x = random_values(100 * kIn, 3);
    const Tensor input = Tensor::f32("cuda_graph", {100, kIn}, x);
    TestHost host("cuda_graph");
    session.run(std::vector<InputArg>{input.arg(), weights[which].arg()}, host);
    EXPECT_LE(largest_difference(host.f32(0), expected(x, which == 0 ? first : second, 100)), 1e-5F)
        << "call " << call;
    if (call == 3) recordings = session.counters().recordings;
  }
  EXPECT_EQ(session.counters().recordings, recordings) << "a new capture at each call";
  EXPECT_GT(session.counters().graph_launches, 0) << "the other steps are captured";
}

// y[kOut, rows] = w^T[kOut, kIn] * x^T[kIn, rows], then scaled: the columns of the product vary.
std::shared_ptr<program::Executable> make_program_of_columns(const std::vector<float>& weights) {
  auto executable = make_program(weights, false);
  auto p = std::make_shared<program::Program>(*executable->program);
  const Dim rows = p->symbols[0];
  const auto shape = [&](int id, std::vector<Dim> sizes) {
    auto& buffer = p->buffers[static_cast<std::size_t>(id)];
    buffer.bytes = product(sizes) * Dim(4);
    buffer.shape = std::move(sizes);
  };
  constexpr int kSoft = 3, kWeights = 1, kMultiplied = 4, kResult = 5;
  shape(kMultiplied, {kOut, rows});
  shape(kResult, {kOut, rows});
  p->outputs[0].shape = {kOut, rows};
  auto& matmul = std::get<program::Launch>(p->segments[0].steps[2].op);
  matmul.buffers = {kWeights, kSoft, kMultiplied};
  matmul.dims = {1, 1, kOut, rows, kIn, 0, 0, 1, kOut, 0, 0, 1, kIn, 0, 0, rows, 1};
  auto& scale = std::get<program::Launch>(p->segments[0].steps[3].op);
  const auto& kernel = std::get<program::Launch>(p->segments[0].steps[0].op);
  for (std::size_t i = 0; i < scale.dims.size(); ++i)
    scale.dims[i] = kernel.dims[i] == rows ? Dim(kOut) : rows;
  const auto with_columns = [&](Dim dim) {
    return dim.substitute([&](Dim) -> std::optional<Dim> { return rows * Dim(kOut); });
  };
  scale.grid = with_columns(kernel.grid);
  executable->program = std::move(p);
  return executable;
}

TEST(CudaProgram, products_whose_columns_vary_have_the_sizes_of_the_call) {
  if (!gpu_is_there()) GTEST_SKIP() << "NO GPU: columns were not tested\n";
  const std::vector<float> w = random_values(kIn * kOut, 12);
  using Policy = GearOptions::Policy;
  for (const std::string driver : {"cuda_stream", "cuda_graph"}) {
    for (const Policy policy : {Policy::exact, Policy::automatic}) {
      Session session(make_program_of_columns(w), {.gears = {.policy = policy}, .driver = driver});
      for (const std::int64_t rows : {40, 41, 50, 33, 64, 70}) {
        const auto count = static_cast<std::size_t>(rows * kIn);
        const std::vector<float> x = random_values(count, static_cast<unsigned>(rows));
        const Tensor input = Tensor::f32(driver, {rows, kIn}, x);
        TestHost host(driver);
        session.run(std::vector<InputArg>{input.arg()}, host);
        const std::vector<float> straight = expected(x, w, rows);
        std::vector<float> turned(straight.size());
        for (std::size_t i = 0; i < turned.size(); ++i) {
          const auto row = i / static_cast<std::size_t>(kOut), column = i % kOut;
          turned[column * static_cast<std::size_t>(rows) + row] = straight[i];
        }
        EXPECT_LE(largest_difference(host.f32(0), turned), 1e-5F) << driver << " rows " << rows;
      }
    }
  }
}

TEST(CudaProgram, launches_of_one_function_with_less_shared_memory_than_those_before) {
  if (!gpu_is_there()) GTEST_SKIP() << "NO GPU: shared memory was not tested\n";
  const std::vector<float> w = random_values(kIn * kOut, 12);
  for (const std::string driver : {"cuda_stream", "cuda_graph"}) {
    auto executable = make_program(w, false);
    auto program = std::make_shared<program::Program>(*executable->program);
    std::vector<program::Step>& steps = program->segments[0].steps;
    auto &first = std::get<program::Launch>(steps.front().op),
         &last = std::get<program::Launch>(steps.back().op);
    first.scratch_bytes = 100 * 1024;
    last.scratch_bytes = 60 * 1024;
    last.code = first.code;
    executable->program = std::move(program);
    Session session(std::move(executable), {.driver = driver});
    for (const std::int64_t rows : {40, 41, 90})
      EXPECT_LE(run_once(session, driver, w, false, rows, 4), 1e-5F) << driver << rows;
  }
}

// A Host whose calls go to a stream of the test's.
class StreamHost : public TestHost {
 public:
  StreamHost(const std::string& driver, nvidia::Stream stream)
      : TestHost(driver), stream_(stream) {}
  std::optional<std::uint64_t> stream() override {
    return reinterpret_cast<std::uint64_t>(stream_);
  }

 private:
  nvidia::Stream stream_;
};

TEST(CudaProgram, a_call_on_a_stream_that_is_captured_becomes_part_of_the_callers_graph) {
  if (!gpu_is_there()) GTEST_SKIP() << "NO GPU: captures of the caller were not tested\n";
  std::string why_not;
  const nvidia::DriverApi& api = *nvidia::driver_api(why_not);
  const std::vector<float> w = random_values(kIn * kOut, 10);
  constexpr int kGlobal = 0, kOfThread = 1;  // the former is PyTorch's default
  for (const auto& [driver, mode] : {std::pair<std::string, int>{"cuda_stream", kGlobal},
                                     {"cuda_graph", kGlobal},
                                     {"cuda_graph", kOfThread},
                                     {"cuda_graph", nvidia::kCaptureRelaxed}}) {
    Session session(make_program(w, false), {.driver = driver});
    constexpr std::int64_t kRows = 40;
    for (int i = 0; i < 2; ++i) run_once(session, driver, w, false, kRows, 1);
    nvidia::Stream stream = nullptr;
    ASSERT_EQ(api.stream_create(&stream, nvidia::kStreamNonBlocking), 0);
    Tensor x = Tensor::f32(driver, {kRows, kIn}, random_values(kRows * kIn, 2));
    StreamHost host(driver, stream);
    ASSERT_EQ(api.capture_begin(stream, mode), 0);
    session.run(std::vector<InputArg>{x.arg()}, host);
    {
      const Session other(make_program(w, false), {.driver = driver});
    }  // loaded and freed
    nvidia::Graph graph = nullptr;
    ASSERT_EQ(api.capture_end(stream, &graph), 0);
    nvidia::GraphExec exec = nullptr;
    ASSERT_EQ(api.graph_instantiate(&exec, graph, 0), 0);
    // Calls in between must leave the memory alone that the graph uses.
    for (const std::int64_t rows : {40, 70, 300})
      EXPECT_LE(run_once(session, driver, w, false, rows, 3), 1e-5F) << driver;
    for (unsigned seed = 20; seed < 23; ++seed) {
      const std::vector<float> values = random_values(kRows * kIn, seed);
      x.memory.upload(values.data());
      ASSERT_EQ(api.graph_launch(exec, stream), 0);
      ASSERT_EQ(api.stream_synchronize(stream), 0);
      EXPECT_LE(largest_difference(host.f32(0), expected(values, w, kRows)), 1e-5F) << driver;
      EXPECT_LE(run_once(session, driver, w, false, 41, seed), 1e-5F) << driver;
    }
    api.graph_exec_destroy(exec);
    api.graph_destroy(graph);
    api.stream_destroy(stream);
  }
}

TEST(CudaProgram, a_forked_child_gets_an_error_that_suggests_spawn) {
  if (!gpu_is_there()) GTEST_SKIP() << "NO GPU: fork was not tested\n";
  const std::string driver = "cuda_graph";
  const std::vector<float> w = random_values(kIn * kOut, 11);
  Session session(make_program(w, false), {.driver = driver});
  const Tensor x = Tensor::f32(driver, {40, kIn}, random_values(40 * kIn, 2));
  const std::vector<InputArg> args = {x.arg()};
  TestHost host(driver);
  const pid_t child = fork();
  if (child == 0) {
    const std::string message = error_of([&] { session.run(args, host); });
    _exit(message.find("forked child") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  session.run(args, host);
}

TEST(CudaProgram, replay_times) {
  if (!gpu_is_there()) GTEST_SKIP() << "NO GPU: nothing was timed\n";
  const std::vector<float> w = random_values(kIn * kOut, 8);
  for (const std::string driver : {"cuda_stream", "cuda_graph"}) {
    Session session(make_program(w, false), {.driver = driver});
    const Tensor x = Tensor::f32(driver, {100, kIn}, random_values(100 * kIn, 9));
    const std::vector<InputArg> args = {x.arg()};
    TestHost host(driver);
    for (int i = 0; i < 20; ++i) session.run(args, host);
    const auto start = std::chrono::steady_clock::now();
    constexpr int kCalls = 500;
    for (int i = 0; i < kCalls; ++i) session.run(args, host);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    std::cout << "  " << driver << ": " << took.count() / kCalls
              << " us a call (4 steps, output allocation and synchronisation included)\n";
    EXPECT_GT(took.count(), 0);
  }
}

}  // namespace
}  // namespace gex::runtime::testing
