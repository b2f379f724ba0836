// Graphs compiled for CUDA, against the interpreter. Where there is no GPU this binary runs itself
// once more with a driver library that runs the generated kernels on the host.

#include <dlfcn.h>

#include <cstring>
#include <tuple>

#include "../runtime/fake_cuda/inner_run.hpp"
#include "cache/device_bounds.hpp"
#include "harness.hpp"
#include "runtime/background/background.hpp"

namespace gex::test {
namespace {

std::mt19937 random_source(7);

HostTensor random_f16(std::vector<std::int64_t> shape) {
  return random_tensor(DType::f16, std::move(shape), random_source, -1, 1);
}

HostTensor random_f32(std::vector<std::int64_t> shape) {
  return random_tensor(DType::f32, std::move(shape), random_source, -1, 1);
}

bool is_inner_run() { return std::getenv("GEX_TEST_CUDA_ON_HOST") != nullptr; }

CompileOptions for_cuda() {
  CompileOptions options;
  options.target = "cuda:0";
  return options;
}

std::vector<const program::Launch*> launches_of(const program::Program& program) {
  std::vector<const program::Launch*> launches;
  for (const program::Segment& segment : program.segments)
    for (const program::Step& step : segment.steps)
      if (const auto* launch = std::get_if<program::Launch>(&step.op)) launches.push_back(launch);
  return launches;
}

// Programs for GPUs can be saved and loaded: all that they access is proven.
Result check_and_prove(const std::string& text, const std::vector<HostTensor>& inputs,
                       double tolerance, const CompileOptions& options) {
  Result result = check(text, inputs, tolerance, options);
  for (const std::string& problem : unproven_program(*result.compiled.program))
    ADD_FAILURE() << problem;
  return result;
}

// The three products run as one kernel.
TEST(CudaOnHost, ProjectionsOfOneNormAreOneKernel) {
  if (!is_inner_run()) GTEST_SKIP() << "runs inside Cuda.GraphsGiveTheInterpretersResults";
  const Result r =
      check_and_prove(R"(
graph main(%x: f16[1, 256], %g: f16[256], %q: f16[64, 256], %k: f16[32, 256], %w: f16[48, 256], %d: f16[256, 64]) -> (f16[1, 32], f16[1, 256], f16[1, 48]) {
  %n, %s = rms_norm(%x, %g) : f16[1, 256], f32[1, 1]
  %qt = transpose(%q) {perm = [1, 0]} : f16[256, 64]
  %kt = transpose(%k) {perm = [1, 0]} : f16[256, 32]
  %wt = transpose(%w) {perm = [1, 0]} : f16[256, 48]
  %dt = transpose(%d) {perm = [1, 0]} : f16[64, 256]
  %a = matmul(%n, %qt) : f16[1, 64]
  %b = matmul(%n, %kt) : f16[1, 32]
  %c = matmul(%n, %wt) : f16[1, 48]
  %e = silu(%a) : f16[1, 64]
  %f = matmul(%e, %dt) : f16[1, 256]
  %y = add(%f, %x) : f16[1, 256]
  return %b, %y, %c
})",
                      {random_f16({1, 256}), random_f16({256}), random_f16({64, 256}),
                       random_f16({32, 256}), random_f16({48, 256}), random_f16({256, 64})},
                      4e-3, for_cuda());
  const auto launches = launches_of(*r.compiled.program);
  ASSERT_EQ(launches.size(), 5u) << program::print(*r.compiled.program);
  EXPECT_FALSE(launches[1]->with_previous);
  for (std::size_t i = 2; i < 4; ++i) EXPECT_TRUE(launches[i]->with_previous) << i;
  EXPECT_FALSE(launches[4]->with_previous);
}

// No product waits for another one whose result only its consumer needs.
TEST(CudaOnHost, AProductOfTwoProductsIsComputedByItsConsumer) {
  if (!is_inner_run()) GTEST_SKIP() << "runs inside Cuda.GraphsGiveTheInterpretersResults";
  const Result r = check_and_prove(R"(
graph main(%x: f16[2, 128], %g: f16[192, 128], %u: f16[192, 128], %d: f16[128, 192]) -> (f16[2, 128]) {
  %gt = transpose(%g) {perm = [1, 0]} : f16[128, 192]
  %ut = transpose(%u) {perm = [1, 0]} : f16[128, 192]
  %dt = transpose(%d) {perm = [1, 0]} : f16[192, 128]
  %a = matmul(%x, %gt) : f16[2, 192]
  %b = matmul(%x, %ut) : f16[2, 192]
  %s = silu(%a) : f16[2, 192]
  %m = mul(%s, %b) : f16[2, 192]
  %y = matmul(%m, %dt) : f16[2, 128]
  return %y
})",
                                   {random_f16({2, 128}), random_f16({192, 128}),
                                    random_f16({192, 128}), random_f16({128, 192})},
                                   4e-3, for_cuda());
  const auto launches = launches_of(*r.compiled.program);
  ASSERT_EQ(launches.size(), 3u) << program::print(*r.compiled.program);
  EXPECT_TRUE(launches[1]->with_previous);
  EXPECT_FALSE(launches[2]->with_previous);
}

// Products of many rows are calls of the library: those of one value become branches of the graph.
// The first call runs uncaptured, the second replays what was captured after it.
TEST(CudaOnHost, CallsOfTheLibraryThatReadOneValueRunBesideEachOther) {
  if (!is_inner_run()) GTEST_SKIP() << "runs inside Cuda.GraphsGiveTheInterpretersResults";
  const Result r = check_and_prove(
      R"(
graph main(%x: f32[40, 64], %q: f32[64, 64], %k: f32[64, 64], %w: f32[64, 64]) -> (f32[40, 64]) {
  %a = matmul(%x, %q) : f32[40, 64]
  %b = matmul(%x, %k) : f32[40, 64]
  %c = matmul(%b, %w) : f32[40, 64]
  %d = neg(%a) : f32[40, 64]
  %e = neg(%c) : f32[40, 64]
  %y = maximum(%d, %e) : f32[40, 64]
  return %y
})",
      {random_f32({40, 64}), random_f32({64, 64}), random_f32({64, 64}), random_f32({64, 64})},
      1e-4, for_cuda());
  const auto launches = launches_of(*r.compiled.program);
  ASSERT_EQ(launches.size(), 4u) << program::print(*r.compiled.program);
  EXPECT_TRUE(launches[1]->with_previous);
  EXPECT_FALSE(launches[2]->with_previous) << "the third product reads the result of the second";
  runtime::Session session(r.compiled.executable, {}, nullptr);
  const std::vector<HostTensor> inputs = {random_f32({40, 64}), random_f32({64, 64}),
                                          random_f32({64, 64}), random_f32({64, 64})};
  std::vector<HostTensor> first = inputs, second = inputs;
  const std::vector<HostTensor> uncaptured = execute(session, first);
  const std::vector<HostTensor> replayed = execute(session, second);
  EXPECT_EQ(largest_error(replayed[0], uncaptured[0]), 0);
  EXPECT_GT(session.counters().graph_launches, 0);
}

// A norm of rows and what reads its rows at other places: one kernel; merged with that of another
// tensor although sizes vary.
TEST(CudaOnHost, RotatedNormsAreOneKernelForEverySize) {
  if (!is_inner_run()) GTEST_SKIP() << "runs inside Cuda.GraphsGiveTheInterpretersResults";
  const std::string text = R"(symbols s0
graph main(%x: f32[1, s0, 4, 16], %z: f32[1, s0, 2, 16]) -> (f32[1, s0, 4, 16], f32[1, s0, 2, 16]) {
  %a, %r = rms_norm(%x) : f32[1, s0, 4, 16], f32[1, s0, 4, 1]
  %b, %t = rms_norm(%z) : f32[1, s0, 2, 16], f32[1, s0, 2, 1]
  %l = slice(%a) {starts = [0, 0, 0, 0], steps = [1, 1, 1, 1], sizes = [1, s0, 4, 8]} : f32[1, s0, 4, 8]
  %h = slice(%a) {starts = [0, 0, 0, 8], steps = [1, 1, 1, 1], sizes = [1, s0, 4, 8]} : f32[1, s0, 4, 8]
  %m = neg(%h) : f32[1, s0, 4, 8]
  %c = cat(%m, %l) {axis = 3} : f32[1, s0, 4, 16]
  %y = add(%a, %c) : f32[1, s0, 4, 16]
  return %y, %b
})";
  for (std::int64_t size : {1, 3, 40}) {
    const Result r = check_and_prove(text,
                                     {random_tensor(DType::f32, {1, size, 4, 16}, random_source),
                                      random_tensor(DType::f32, {1, size, 2, 16}, random_source)},
                                     2e-5, for_cuda());
    const auto launches = launches_of(*r.compiled.program);
    ASSERT_EQ(launches.size(), 2u) << program::print(*r.compiled.program);
    EXPECT_TRUE(launches[1]->with_previous);
  }
}

// A product with an epilogue, a convolution and reductions.
TEST(CudaOnHost, StaticCodeForHotSizesGivesTheSameBits) {
  if (!is_inner_run()) GTEST_SKIP() << "runs inside Cuda.GraphsGiveTheInterpretersResults";
  const std::string text = R"(symbols s0
graph main(%x: f16[s0, 96], %b: f16[96], %i: f32[1, 8, s0, 9], %k: f32[20, 8, 3, 3]) -> (f16[96, 96], f32[1, 20, s0 - 2, 7], f32[s0, 96]) {
  %n, %r = rms_norm(%x) : f16[s0, 96], f32[s0, 1]
  %t = transpose(%n) {perm = [1, 0]} : f16[96, s0]
  %p = matmul(%t, %n) : f16[96, 96]
  %y = add(%p, %b) : f16[96, 96]
  %c = conv2d(%i, %k) : f32[1, 20, s0 - 2, 7]
  %f = cast(%x) {dtype = f32} : f32[s0, 96]
  %s = softmax(%f) {axis = 1} : f32[s0, 96]
  return %y, %c, %s
})";
  const auto inputs_of = [](std::int64_t rows) {
    return std::vector<HostTensor>{random_f16({rows, 96}), random_f16({96}),
                                   random_f32({1, 8, rows, 9}), random_f32({20, 8, 3, 3})};
  };
  const Result r = check(text, inputs_of(12), 2e-2, for_cuda());
  ASSERT_NE(r.compiled.specialiser, nullptr);
  runtime::Session session(r.compiled.executable, {.static_code_at_once = true},
                           r.compiled.specialiser);
  runtime::Session without(r.compiled.executable, {}, nullptr);
  for (const std::int64_t rows : {12, 40}) {
    const std::vector<HostTensor> inputs = inputs_of(rows);
    std::vector<HostTensor> first = inputs, second = inputs, others = inputs_of(rows);
    const std::int64_t before = session.counters().specialised;
    const std::vector<HostTensor> generic = execute(without, first);
    execute(session, others);  // what is left in memory is not the expected result
    runtime::wait_for_background();
    EXPECT_EQ(session.counters().specialised - before, 3) << session.captures().front().note;
    const runtime::Counters made = session.counters();
    const std::vector<HostTensor> fixed = execute(session, second);
    EXPECT_EQ(session.counters().recordings - made.recordings, 1) << "a graph of these sizes";
    EXPECT_EQ(session.counters().graph_launches - made.graph_launches, 1);
    for (std::size_t k = 0; k < generic.size(); ++k)
      EXPECT_EQ(std::memcmp(generic[k].data(), fixed[k].data(), generic[k].bytes()), 0) << k;
  }
}

// The text of a decoder of this many layers: norm, q and k with norms of their own, attention over
// a cache that is written in place, output, norm, gated feed-forward layer.
std::string decoder(int layers) {
  std::string inputs = "%x0: f16[1, 64], %at: i64[1]", results, types, body;
  for (int l = 0; l < layers; ++l) {
    const std::string text = R"(
  %n#, %s# = rms_norm(%x#, %g#) : f16[1, 64], f32[1, 1]
  %qt# = transpose(%wq#) {perm = [1, 0]} : f16[64, 64]
  %kt# = transpose(%wk#) {perm = [1, 0]} : f16[64, 32]
  %q# = matmul(%n#, %qt#) : f16[1, 64]
  %k# = matmul(%n#, %kt#) : f16[1, 32]
  %qh# = reshape(%q#) {shape = [1, 2, 1, 32]} : f16[1, 2, 1, 32]
  %kh# = reshape(%k#) {shape = [1, 1, 1, 32]} : f16[1, 1, 1, 32]
  %qn#, %r# = rms_norm(%qh#) : f16[1, 2, 1, 32], f32[1, 2, 1, 1]
  %kn#, %u# = rms_norm(%kh#) : f16[1, 1, 1, 32], f32[1, 1, 1, 1]
  %c# = index_put(%kc#, %kn#, %at) {axes = [2]} : f16[1, 1, 24, 32]
  %a# = attention(%qn#, %c#, %c#, none) : f16[1, 2, 1, 32]
  %f# = reshape(%a#) {shape = [1, 64]} : f16[1, 64]
  %ot# = transpose(%wo#) {perm = [1, 0]} : f16[64, 64]
  %o# = matmul(%f#, %ot#) : f16[1, 64]
  %y# = add(%o#, %x#) : f16[1, 64]
  %m#, %t# = rms_norm(%y#, %h#) : f16[1, 64], f32[1, 1]
  %gt# = transpose(%wg#) {perm = [1, 0]} : f16[64, 96]
  %ut# = transpose(%wu#) {perm = [1, 0]} : f16[64, 96]
  %dt# = transpose(%wd#) {perm = [1, 0]} : f16[96, 64]
  %ga# = matmul(%m#, %gt#) : f16[1, 96]
  %up# = matmul(%m#, %ut#) : f16[1, 96]
  %si# = silu(%ga#) : f16[1, 96]
  %mu# = mul(%si#, %up#) : f16[1, 96]
  %do# = matmul(%mu#, %dt#) : f16[1, 64]
  %x@ = add(%do#, %y#) : f16[1, 64]
)";
    const std::string parameters =
        ", %g#: f16[64], %h#: f16[64], %kc#: f16[1, 1, 24, 32], %wq#: f16[64, 64], %wk#: f16[32, "
        "64], "
        "%wo#: f16[64, 64], %wg#: f16[96, 64], %wu#: f16[96, 64], %wd#: f16[64, 96]";
    const auto numbered = [&](const std::string& pattern) {
      std::string out;
      for (char c : pattern)
        out += c == '#' ? std::to_string(l) : c == '@' ? std::to_string(l + 1) : std::string(1, c);
      return out;
    };
    body += numbered(text);
    inputs += numbered(parameters);
    results += numbered(", %c#");
    types += ", f16[1, 1, 24, 32]";
  }
  return str("graph main(", inputs, ") -> (f16[1, 64]", types, ") {\n", body, "  return %x", layers,
             results, "\n}\n");
}

std::vector<HostTensor> decoder_inputs(int layers) {
  std::vector<HostTensor> inputs = {random_f16({1, 64}), HostTensor(DType::i64, {1})};
  reinterpret_cast<std::int64_t*>(inputs[1].data())[0] = 5;
  for (int l = 0; l < layers; ++l) {
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{64},
                                                   {64},
                                                   {1, 1, 24, 32},
                                                   {64, 64},
                                                   {32, 64},
                                                   {64, 64},
                                                   {96, 64},
                                                   {96, 64},
                                                   {64, 96}}) {
      // Sums of 64 products stay near 1.
      const double range = shape.size() == 2 ? 0.15 : 1.0;
      inputs.push_back(random_tensor(DType::f16, shape, random_source, -range, range));
    }
  }
  return inputs;
}

// All layers are phases of one kernel, norms are repeated by the products that read them, that of k
// by its write, and phases wait for others only where the cache is
// written. Once with a ring, once without.
TEST(CudaOnHost, ADecoderIsOnePersistentKernel) {
  if (!is_inner_run()) GTEST_SKIP() << "runs inside Cuda.GraphsGiveTheInterpretersResults";
  const bool rings = std::getenv("GEX_SUPER_KERNEL_RING") == nullptr;
  const int kLayers = rings ? 3 : 2;
  CompileOptions on = for_cuda();
  on.super_kernel = true;
  const Result r = check_and_prove(decoder(kLayers), decoder_inputs(kLayers), 1e-2, on);
  const program::Program& program = *r.compiled.program;
  const auto launches = launches_of(program);
  const std::string text = program::print(program, {.constant_data = false});
  int recomputed = 0, waiting = 0, exchanged = 0;
  for (const program::Launch* launch : launches) {
    EXPECT_GE(launch->phase, 0) << launch->name << "\n" << text;
    recomputed += launch->recomputed ? 1 : 0;
    waiting += launch->after_phase >= 0 ? 1 : 0;
  }
  for (const program::BufferDesc& buffer : program.buffers) exchanged += buffer.exchanged ? 1 : 0;
  EXPECT_EQ(recomputed, 3 * kLayers - 1) << text;  // not the first: it begins the kernel
  EXPECT_EQ(waiting, kLayers) << text;             // the attentions
  EXPECT_GT(exchanged, 4 * kLayers);
  EXPECT_EQ(program::print(program::parse_program(program::print(program))),
            program::print(program));
  // A second call of the same session: flags of the first one are cleared.
  runtime::Session session(r.compiled.executable, {}, nullptr);
  std::vector<HostTensor> first = decoder_inputs(kLayers), second = first;
  const std::vector<HostTensor> once = execute(session, first);
  const std::vector<HostTensor> again = execute(session, second);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(largest_error(again[i], once[i]), 0);
  const Result separate =
      check_and_prove(decoder(kLayers), decoder_inputs(kLayers), 1e-2, for_cuda());
  for (const program::Launch* launch : launches_of(*separate.compiled.program))
    EXPECT_EQ(launch->phase, -1);
}

// Without SuperKernels: GEX_REPEAT_LAUNCHES=1 moves norms into the launches of the products that
// read them and the norm of k into the launch of its write, which then joins that of the norm of q.
TEST(CudaOnHost, SmallLaunchesAreRepeatedByTheirReaders) {
  if (!is_inner_run()) GTEST_SKIP() << "runs inside Cuda.GraphsGiveTheInterpretersResults";
  constexpr int kLayers = 2;
  const Result r = check_and_prove(decoder(kLayers), decoder_inputs(kLayers), 1e-2, for_cuda());
  int kernels = 0, repeated = 0;
  for (const program::Launch* launch : launches_of(*r.compiled.program)) {
    kernels += launch->with_previous ? 0 : 1;
    repeated += launch->recomputed ? 1 : 0;
  }
  const std::string text = program::print(*r.compiled.program, {.constant_data = false});
  const bool on = std::getenv("GEX_REPEAT_LAUNCHES") != nullptr;
  // Of a layer: norm, q and k, norms of q and k, write of k, attention, output, norm, gate and up,
  // down.
  EXPECT_EQ(kernels, (on ? 6 : 9) * kLayers) << text;
  EXPECT_EQ(repeated, (on ? 4 : 0) * kLayers) << text;
  EXPECT_EQ(program::print(program::parse_program(program::print(*r.compiled.program))),
            program::print(*r.compiled.program));
  runtime::Session session(r.compiled.executable, {}, nullptr);
  std::vector<HostTensor> first = decoder_inputs(kLayers), second = first;
  const std::vector<HostTensor> uncaptured = execute(session, first);
  const std::vector<HostTensor> replayed = execute(session, second);
  for (std::size_t i = 0; i < replayed.size(); ++i)
    EXPECT_EQ(largest_error(replayed[i], uncaptured[i]), 0);
}

// The kinds of layers of GPT-2: norms with a mean, biases, one product after the activation.
std::string decoder_with_biases(int layers) {
  std::string inputs = "%x0: f16[2, 64], %at: i64[1]", body;
  for (int l = 0; l < layers; ++l) {
    const std::string text = R"(
  %n#, %nm#, %nr# = layer_norm(%x#, %g#, %b#) : f16[2, 64], f32[2, 1], f32[2, 1]
  %q# = matmul(%n#, %wq#) : f16[2, 64]
  %qb# = add(%q#, %bq#) : f16[2, 64]
  %qh# = reshape(%qb#) {shape = [2, 2, 1, 32]} : f16[2, 2, 1, 32]
  %k# = matmul(%n#, %wk#) : f16[2, 64]
  %kb# = add(%k#, %bk#) : f16[2, 64]
  %kh# = reshape(%kb#) {shape = [2, 2, 1, 32]} : f16[2, 2, 1, 32]
  %c# = index_put(%kc#, %kh#, %at) {axes = [2]} : f16[2, 2, 24, 32]
  %a# = attention(%qh#, %c#, %c#, none) : f16[2, 2, 1, 32]
  %f# = reshape(%a#) {shape = [2, 64]} : f16[2, 64]
  %o# = matmul(%f#, %wo#) : f16[2, 64]
  %ob# = add(%o#, %bo#) : f16[2, 64]
  %y# = add(%ob#, %x#) : f16[2, 64]
  %m#, %mm#, %mr# = layer_norm(%y#, %h#, %e#) : f16[2, 64], f32[2, 1], f32[2, 1]
  %u# = matmul(%m#, %wu#) : f16[2, 96]
  %v# = gelu(%u#) : f16[2, 96]
  %d# = matmul(%v#, %wd#) : f16[2, 64]
  %x@ = add(%d#, %y#) : f16[2, 64]
)";
    std::string parameters = ", %kc#: f16[2, 2, 24, 32]";
    for (const char* vector : {"g", "b", "bq", "bk", "bo", "h", "e"})
      parameters += str(", %", vector, "#: f16[64]");
    for (const char* square : {"wq", "wk", "wo"})
      parameters += str(", %", square, "_#: f16[64, 64]");
    parameters += ", %wu_#: f16[96, 64], %wd_#: f16[64, 96]";
    std::string weights;
    for (const auto& [name, rows, depth] :
         {std::tuple{"wq", 64, 64}, {"wk", 64, 64}, {"wo", 64, 64}, {"wu", 96, 64}, {"wd", 64, 96}})
      weights += str("  %", name, "# = transpose(%", name, "_#) {perm = [1, 0]} : f16[", depth,
                     ", ", rows, "]\n");
    for (char c : weights + text)
      body += c == '#' ? std::to_string(l) : c == '@' ? std::to_string(l + 1) : std::string(1, c);
    for (char c : parameters) inputs += c == '#' ? std::to_string(l) : std::string(1, c);
  }
  std::string results, types;
  for (int l = 0; l < layers; ++l) {
    results += str(", %c", l);
    types += ", f16[2, 2, 24, 32]";
  }
  return str("graph main(", inputs, ") -> (f16[2, 64]", types, ") {\n", body, "  return %x", layers,
             results, "\n}\n");
}

TEST(CudaOnHost, ADecoderWithBiasesNeedsFewKernels) {
  if (!is_inner_run()) GTEST_SKIP() << "runs inside Cuda.GraphsGiveTheInterpretersResults";
  constexpr int kLayers = 2;
  std::vector<HostTensor> inputs = {random_f16({2, 64}), HostTensor(DType::i64, {1})};
  reinterpret_cast<std::int64_t*>(inputs[1].data())[0] = 5;
  for (int l = 0; l < kLayers; ++l) {
    inputs.push_back(random_f16({2, 2, 24, 32}));
    for (int k = 0; k < 7; ++k) inputs.push_back(random_f16({64}));
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{64, 64}, {64, 64}, {64, 64}, {96, 64}, {64, 96}})
      inputs.push_back(random_tensor(DType::f16, shape, random_source, -0.15, 0.15));
  }
  CompileOptions options = for_cuda();
  options.super_kernel = std::getenv("GEX_REPEAT_LAUNCHES") == nullptr;
  const Result r = check_and_prove(decoder_with_biases(kLayers), inputs, 2e-2, options);
  const std::string text = program::print(*r.compiled.program, {.constant_data = false});
  int kernels = 0, phases = 0;
  for (const program::Launch* launch : launches_of(*r.compiled.program)) {
    kernels += launch->with_previous || launch->phase > 0 ? 0 : 1;
    phases = std::max(phases, launch->phase + 1);
  }
  // Of a layer: q and k with the norm, write of k, attention, output, product with the norm,
  // product.
  EXPECT_EQ(kernels, options.super_kernel ? 1 : 6 * kLayers) << text;
  EXPECT_EQ(phases, options.super_kernel ? 8 * kLayers : 0)
      << text;  // norms of two rows are phases
}

// Depths of one and several slots, of more slots than a thread has in registers, and ragged ones;
// columns that are no whole tiles; more tiles than the ring has slots; a left operand too large to
// be exchanged; every number of rows.
TEST(CudaOnHost, ProductsOfAllSizesShareARing) {
  if (!is_inner_run()) GTEST_SKIP() << "runs inside Cuda.GraphsGiveTheInterpretersResults";
  for (const auto& [dtype, type, rows] :
       {std::tuple{DType::f16, "f16", 2}, {DType::bf16, "bf16", 8}}) {
    const std::int64_t most = rows == 2 ? 4104 : 3080;
    const std::vector<std::int64_t> widths = {64, 1096, 40, most, 24, 2048, 16, 8, 32, 72, 13};
    std::string inputs = str("%x0: ", type, "[", rows, ", 64]"), body;
    std::vector<HostTensor> values = {random_tensor(dtype, {rows, 64}, random_source, -1, 1)};
    for (std::size_t k = 0; k + 1 < widths.size(); ++k) {
      const std::int64_t from = widths[k], to = widths[k + 1];
      inputs += str(", %w", k, ": ", type, "[", to, ", ", from, "]");
      body += str("  %t", k, " = transpose(%w", k, ") {perm = [1, 0]} : ", type, "[", from, ", ",
                  to, "]\n  %m", k, " = matmul(%x", k, ", %t", k, ") : ", type, "[", rows, ", ", to,
                  "]\n  %x", k + 1, " = neg(%m", k, ") : ", type, "[", rows, ", ", to, "]\n");
      const double range = 1.7 / std::sqrt(static_cast<double>(from));
      values.push_back(random_tensor(dtype, {to, from}, random_source, -range, range));
    }
    CompileOptions on = for_cuda();
    on.super_kernel = true;
    const Result r =
        check_and_prove(str("graph main(", inputs, ") -> (", type, "[", rows, ", 13]) {\n", body,
                            "  return %x", widths.size() - 1, "\n}\n"),
                        values, dtype == DType::f16 ? 1e-2 : 6e-2, on);
    for (const program::Launch* launch : launches_of(*r.compiled.program))
      EXPECT_GE(launch->phase, 0) << program::print(*r.compiled.program, {.constant_data = false});
  }
}

TEST(Cuda, GraphsGiveTheInterpretersResults) {
  if (is_inner_run()) GTEST_SKIP() << "the tests themselves run here";
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr)
    GTEST_SKIP() << "a CUDA driver is there: tests/gpu runs graphs on the device";
  // Calls that run beside each other once more over a driver that runs late and out of order.
  const std::tuple<std::string, std::string, std::string> runs[] = {
      {"", "CudaOnHost.*", "[  PASSED  ] 9 tests"},
      {"GEX_FAKE_CUDA_LAZY=1", "CudaOnHost.CallsOfTheLibrary*", "[  PASSED  ] 1 test"},
      {"GEX_SUPER_KERNEL_RING=0", "CudaOnHost.ADecoderIs*", "[  PASSED  ] 1 test"},
      {"GEX_REPEAT_LAUNCHES=1", "CudaOnHost.SmallLaunches*:CudaOnHost.ADecoderWith*",
       "[  PASSED  ] 2 tests"}};
  for (const auto& [mode, filter, passed] : runs) {
    const InnerRun run = run_over_fake_cuda(mode + " GEX_TEST_CUDA_ON_HOST=1", filter);
    EXPECT_EQ(run.status, 0) << mode << run.output;
    EXPECT_NE(run.output.find(passed), std::string::npos) << mode << run.output;
  }
}

}  // namespace
}  // namespace gex::test
