// The programs of every op are proven to stay inside their buffers; changed programs are not.

#include "cache/bounds_check.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "../runtime/fake_cuda/inner_run.hpp"
#include "backend/parsed_codes.hpp"
#include "cache/device_bounds.hpp"
#include "compile/compile.hpp"
#include "sample_graphs.hpp"

namespace gex {
namespace {

using namespace test;

std::vector<std::string> unproven(const Compiled& compiled) {
  return unproven_parts(*compiled.program, backend::parse_codes(*compiled.program));
}

Compiled compiled(std::unique_ptr<Graph> graph, const char* target = "cpu") {
  CompileOptions options;
  options.target = target;
  options.generate_code = options.target != "cpu";
  return compile(std::move(graph), options);
}

void expect_proven(std::unique_ptr<Graph> graph, const char* target) {
  const Compiled program = compiled(std::move(graph), target);
  for (const std::string& problem : unproven_program(*program.program)) ADD_FAILURE() << problem;
}

void expect_every_op_proven(const char* target) {
  int checked = 0;
  for (const OpDef* op : computed_ops()) {
    if (sample_of(*op) == nullptr) continue;
    for (const DType dtype : {DType::f32, DType::i64, DType::boolean}) {
      auto graph = graph_of(*op, dtype);
      if (!graph) continue;
      SCOPED_TRACE(str(op->name, " ", dtype));
      ++checked;
      auto fixed = with_size(*graph, 3);
      Tensors inputs = inputs_of(*op, dtype, 3);
      expect_proven(with_transposed_inputs(*graph, inputs), target);
      expect_proven(std::move(graph), target);
      expect_proven(std::move(fixed), target);
    }
  }
  EXPECT_GT(checked, 100);
}

TEST(BoundsCheck, ProgramsOfEveryOpAreProven) { expect_every_op_proven("cpu"); }

const char* const kGraph = R"(symbols s0 in [1, 512]
graph main(%x: f32[s0, 48], %i: i64[s0]) -> (f32[s0, 48], f32[s0]) {
  %a = softmax(%x) {axis = 1} : f32[s0, 48]
  %b = index(%a, %i) {axes = [0]} : f32[s0, 48]
  %c = reduce_sum(%b) {axes = [1]} : f32[s0]
  return %b, %c
})";

TEST(BoundsCheck, BuffersThatAreTooSmallAreDetected) {
  const Compiled good = compiled(parse_graph(kGraph));
  ASSERT_TRUE(unproven(good).empty()) << unproven(good).front();
  int smaller = 0;
  for (std::size_t id = 0; id < good.program->buffers.size(); ++id) {
    program::Program bad = *good.program;
    program::BufferDesc& buffer = bad.buffers[id];
    if (buffer.bytes.is_const() || buffer.alias_of >= 0) continue;
    buffer.bytes = buffer.bytes - 1;
    Compiled changed = good;
    changed.program = std::make_shared<const program::Program>(bad);
    EXPECT_FALSE(unproven(changed).empty()) << "buffer %" << id << " " << buffer.name;
    ++smaller;
  }
  EXPECT_GE(smaller, 4);
}

TEST(BoundsCheck, AccessesOutOfBoundsAreDetected) {
  const Compiled good = compiled(parse_graph(kGraph));
  const backend::ParsedCodes codes = backend::parse_codes(*good.program);
  int changed = 0;
  for (const program::Segment& segment : good.program->segments)
    for (const program::Step& step : segment.steps) {
      const auto* launch = std::get_if<program::Launch>(&step.op);
      if (launch == nullptr) continue;
      const auto& spec = codes.codes[static_cast<std::size_t>(launch->code)];
      const loop::Kernel& kernel = codes.kernels[static_cast<std::size_t>(spec.kernel)];
      const auto expect_noticed = [&](const loop::Kernel& bad) {
        EXPECT_FALSE(unproven_launch(*good.program, {launch, &bad}).empty()) << loop::print(bad);
        ++changed;
      };
      for (std::size_t s = 0; s < kernel.stages.size(); ++s) {
        for (std::size_t e = 0; e < kernel.stages[s].exprs.size(); ++e) {
          if (kernel.stages[s].exprs[e].index.empty()) continue;
          for (const Dim by : {Dim(1'000'000'000), Dim(-1), Dim(1)}) {
            loop::Kernel bad = kernel;
            Dim& first = bad.stages[s].exprs[e].index.front();
            first = first + by;
            expect_noticed(bad);
          }
        }
        for (std::size_t k = 0; k < kernel.stages[s].stores.size(); ++k) {
          if (kernel.stages[s].stores[k].index.empty()) continue;
          loop::Kernel bad = kernel;
          Dim& first = bad.stages[s].stores[k].index.front();
          first = first * 2 + 1;
          expect_noticed(bad);
        }
      }
      program::Program fewer = *good.program;
      program::Launch more = *launch;
      more.grid = more.grid + 1;
      EXPECT_FALSE(unproven_launch(fewer, {&more, &kernel}).empty());
    }
  EXPECT_GT(changed, 10);
}

// Sizes of hand-written kernels, of their scratch and of attached kernels.
TEST(BoundsCheck, ProblemLaunchesOutOfBoundsAreDetected) {
  const char* const graph = R"(symbols s0 in [1, 512]
graph main(%x: f32[s0, 48], %w: f32[48, 40], %b: f32[40]) -> (f32[s0, 40], f32[s0, 40], i64[s0, 40]) {
  %a = matmul(%x, %w) : f32[s0, 40]
  %c = add(%a, %b) : f32[s0, 40]
  %v, %i = sort(%c) {axis = 1} : f32[s0, 40], i64[s0, 40]
  return %c, %v, %i
})";
  const Compiled good = compiled(parse_graph(graph));
  ASSERT_TRUE(unproven(good).empty()) << unproven(good).front();
  const backend::ParsedCodes codes = backend::parse_codes(*good.program);
  int problems = 0, changed = 0;
  for (std::size_t segment = 0; segment < good.program->segments.size(); ++segment)
    for (std::size_t k = 0; k < good.program->segments[segment].steps.size(); ++k) {
      const program::Step& step = good.program->segments[segment].steps[k];
      const auto* launch = std::get_if<program::Launch>(&step.op);
      if (launch == nullptr) continue;
      const auto& spec = codes.codes[static_cast<std::size_t>(launch->code)];
      if (!spec.problem) continue;
      ++problems;
      const auto expect_noticed = [&](const std::function<void(program::Launch&)>& change) {
        program::Program bad = *good.program;
        change(std::get<program::Launch>(bad.segments[segment].steps[k].op));
        Compiled with = good;
        with.program = std::make_shared<const program::Program>(bad);
        EXPECT_FALSE(unproven(with).empty()) << launch->name << " " << changed;
        ++changed;
      };
      expect_noticed([](program::Launch& l) { l.grid = l.grid + 1; });
      expect_noticed([](program::Launch& l) { l.dims.pop_back(); });
      for (std::size_t d = 0; d < launch->dims.size(); ++d) {
        if (launch->dims[d] == Dim(0) || launch->dims[d] == Dim(1)) continue;
        // Strides of a result that only exists for the attached kernel.
        const int at = static_cast<int>(d);
        namespace dims = problems::matmul_dims;
        if (spec.kernel >= 0 && at >= dims::c_strides && at < dims::count) continue;
        expect_noticed([&](program::Launch& l) { l.dims[d] = l.dims[d] * Dim(1000); });
      }
    }
  EXPECT_EQ(problems, 2);
  EXPECT_GT(changed, 10);
}

bool is_inner_run() { return std::getenv("GEX_TEST_CUDA_ON_HOST") != nullptr; }

TEST(BoundsOnGpu, ProgramsOfEveryOpAreProven) {
  if (!is_inner_run()) GTEST_SKIP() << "runs inside BoundsCheck.LaunchesOfGpusAreProven";
  expect_every_op_proven("cuda:0");
}

// A product of few rows with an attached kernel, a sort and a reduction, for all sizes.
const char* const kGraphOnGpu = R"(symbols s0 in [1, 512]
graph main(%x: f16[s0, 128], %w: f16[128, 64], %b: f16[64], %i: i64[s0]) -> (f16[s0, 64], f16[s0, 64], i64[s0, 64], f16[s0]) {
  %a = matmul(%x, %w) : f16[s0, 64]
  %c = add(%a, %b) : f16[s0, 64]
  %g = index(%c, %i) {axes = [0]} : f16[s0, 64]
  %v, %k = sort(%g) {axis = 1} : f16[s0, 64], i64[s0, 64]
  %r = reduce_sum(%v) {axes = [1]} : f16[s0]
  return %c, %v, %k, %r
})";

// As when a file is loaded.
bool is_refused(const program::Program& program) {
  try {
    program::verify(program);
    return !unproven_program(program).empty();
  } catch (const UserError&) {
    return true;
  }
}

TEST(BoundsOnGpu, ChangedLaunchesAreDetected) {
  if (!is_inner_run()) GTEST_SKIP() << "runs inside BoundsCheck.LaunchesOfGpusAreProven";
  const Compiled good = compiled(parse_graph(kGraphOnGpu), "cuda:0");
  ASSERT_EQ(unproven_program(*good.program), std::vector<std::string>());
  using Change = std::function<void(program::Program&, program::Launch&)>;
  const std::pair<const char*, Change> changes[] = {
      {"more blocks", [](auto&, auto& l) { l.grid = l.grid + 1; }},
      {"more threads", [](auto&, auto& l) { l.block += 32; }},
      {"fewer threads", [](auto&, auto& l) { l.block -= 1; }},
      {"another kernel before it", [](auto&, auto& l) { l.with_previous = true; }},
      {"a phase", [](auto&, auto& l) { l.phase = 0; }},
      {"the library",
       [](auto& p, auto& l) { p.codes[static_cast<std::size_t>(l.code)].algorithm = "cublas"; }},
      {"another text",
       [](auto& p, auto& l) {
         p.codes[static_cast<std::size_t>(l.code)].algorithm = "0123456789ab";
       }},
      {"a buffer less", [](auto&, auto& l) { l.buffers.pop_back(), l.writes.pop_back(); }},
      {"smaller memory", [](auto& p, auto& l) {
         program::BufferDesc& last = p.buffers[static_cast<std::size_t>(l.buffers.back())];
         last.bytes = last.bytes - 1;
       }}};
  int launches = 0;
  for (std::size_t segment = 0; segment < good.program->segments.size(); ++segment)
    for (std::size_t k = 0; k < good.program->segments[segment].steps.size(); ++k) {
      if (!std::holds_alternative<program::Launch>(good.program->segments[segment].steps[k].op))
        continue;
      ++launches;
      for (const auto& [name, change] : changes) {
        program::Program bad = *good.program;
        auto& launch = std::get<program::Launch>(bad.segments[segment].steps[k].op);
        change(bad, launch);
        if (program::print(bad) == program::print(*good.program)) continue;
        EXPECT_TRUE(is_refused(bad)) << launch.name << ": " << name;
      }
    }
  EXPECT_GE(launches, 3);
}

// Sizes that the text of a code has as numbers are those of all its launches.
TEST(BoundsOnGpu, LaunchesOfOneCodeHaveItsConstants) {
  if (!is_inner_run()) GTEST_SKIP() << "runs inside BoundsCheck.LaunchesOfGpusAreProven";
  const Compiled good = compiled(parse_graph(R"(
graph main(%x: f16[2, 128], %w: f16[128, 128], %u: f16[128, 128]) -> (f16[2, 128]) {
  %a = matmul(%x, %w) : f16[2, 128]
  %y = matmul(%a, %u) : f16[2, 128]
  return %y
})"),
                                 "cuda:0");
  ASSERT_EQ(unproven_program(*good.program), std::vector<std::string>());
  program::Program bad = *good.program;
  int changed = 0;
  for (program::Segment& segment : bad.segments)
    for (program::Step& step : segment.steps)
      if (auto* launch = std::get_if<program::Launch>(&step.op))
        if (++changed == 2) launch->dims[problems::matmul_dims::n] = 64;
  ASSERT_EQ(changed, 2);
  EXPECT_FALSE(unproven_program(bad).empty());
}

TEST(BoundsCheck, LaunchesOfGpusAreProven) {
  if (is_inner_run()) GTEST_SKIP() << "the tests themselves run here";
  const InnerRun run =
      run_over_fake_cuda("GEX_FAKE_CUDA_IDLE=1 GEX_TEST_CUDA_ON_HOST=1", "BoundsOnGpu.*");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_NE(run.output.find("[  PASSED  ] 3 tests"), std::string::npos) << run.output;
}

// The text of a kernel may claim any range for a computed index.
TEST(BoundsCheck, RangesClaimedByAKernelAreNotTrusted) {
  const loop::Kernel kernel = loop::parse_kernel(R"(symbols n in [1, 64]
kernel gather(i: in i64[n], x: in f32[n], y: out f32[n]) grid(p < n) {
  stage s {
    v0 = load i[p] : i64 in [0, 0]
    v1 = load x[v0] : f32
    store y[p] = v1
  }
})");
  program::Program program = program::parse_program(R"(program "p"
symbol n in [1, 64]
input 0 "i" i64 [n] -> %0
input 1 "x" f32 [n] -> %1
output 0 "y" fresh f32 [n] -> %2
buffer %0 "i" input 0 i64 [n] bytes [n*8]
buffer %1 "x" input 1 f32 [n] bytes [n*4]
buffer %2 "y" output 0 f32 [n] bytes [n*4]
main 0
segment 0 "main"
  copy %2 from %1 bytes [n*4]
)");
  program::Launch launch;
  launch.name = "gather";
  launch.buffers = {0, 1, 2};
  launch.writes = {false, false, true};
  launch.dims = {program.symbols[0]};
  launch.grid = program.symbols[0];
  const std::vector<std::string> problems = unproven_launch(program, {&launch, &kernel});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("load of x"), std::string::npos) << problems[0];
}

}  // namespace
}  // namespace gex
