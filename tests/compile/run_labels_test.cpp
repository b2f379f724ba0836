// Labels that say where nodes run: kept by passes, respected by fusion, passed to the Program.

#include "harness.hpp"
#include "program/program.hpp"

namespace gex::test {
namespace {

std::mt19937 random_source(3);

HostTensor f32(std::vector<std::int64_t> shape) {
  return random_tensor(DType::f32, std::move(shape), random_source);
}

struct Launched {
  std::string name;
  int threads, stream;
};

std::vector<Launched> launches_of(const Result& result) {
  std::vector<Launched> out;
  for (const program::Segment& segment : result.compiled.program->segments)
    for (const program::Step& step : segment.steps)
      if (const auto* launch = std::get_if<program::Launch>(&step.op))
        out.push_back({launch->name, step.threads, step.stream});
  return out;
}

TEST(RunLabels, LimitsReachTheLaunchesByTheKindOfTheirCores) {
  Result r = check(R"(graph main(%x: f32[64, 64]) -> (f32[64]) {
  %y = matmul(%x, %x) labels(_op_aicore_num = 2, _op_vectorcore_num = 4) : f32[64, 64]
  %z = reduce_sum(%y) {axes = [1]} labels(_op_aicore_num = 2, _op_vectorcore_num = 4) : f32[64]
  return %z
})",
                   {f32({64, 64})});
  const std::vector<Launched> launches = launches_of(r);
  ASSERT_EQ(launches.size(), 2U) << r.compiled.report.kernel_text;
  EXPECT_EQ(launches[0].threads, 2) << launches[0].name;
  EXPECT_EQ(launches[1].threads, 4) << launches[1].name;
}

TEST(RunLabels, NodesUnderDifferentLimitsAreNotFused) {
  const std::string same = R"(graph main(%x: f32[64, 64]) -> (f32[64, 64]) {
  %y = exp(%x) labels(_op_aicore_num = 2, _op_vectorcore_num = 4) : f32[64, 64]
  %z = sin(%y) labels(_op_aicore_num = 2, _op_vectorcore_num = 4) : f32[64, 64]
  return %z
})";
  EXPECT_EQ(check(same, {f32({64, 64})}).launches, 1);
  std::string other = same;
  other.replace(other.rfind("= 4"), 3, "= 1");
  Result r = check(other, {f32({64, 64})});
  const std::vector<Launched> launches = launches_of(r);
  ASSERT_EQ(launches.size(), 2U);
  EXPECT_EQ(launches[0].threads, 4);
  EXPECT_EQ(launches[1].threads, 1);
}

TEST(RunLabels, ReplacementsInheritTheLabels) {
  // A composite, which is expanded, and a reduction of all elements, which is cut in two.
  Result r = check(R"(graph main(%x: f32[512, 512]) -> (f32[512, 512], f32[]) {
  %y = softmax(%x) {axis = 1} labels(_op_aicore_num = 1, _op_vectorcore_num = 3) : f32[512, 512]
  %s = reduce_sum(%x) {axes = [0, 1]} labels(_op_aicore_num = 1, _op_vectorcore_num = 3) : f32[]
  return %y, %s
})",
                   {f32({512, 512})});
  const std::vector<Launched> launches = launches_of(r);
  ASSERT_GE(launches.size(), 2U);
  for (const Launched& launch : launches) EXPECT_EQ(launch.threads, 3) << launch.name;
}

TEST(RunLabels, IndependentMatmulsOfTwoStreamsRunOnStreamsAndTheirReaderWaits) {
  const std::string text = R"(graph main(%x: f32[64, 64]) -> (f32[64]) {
  %a = matmul(%x, %x) : f32[64, 64]
  %p = reduce_sum(%a) {axes = [1]} : f32[64]
  %b = matmul(%x, %x) labels(_stream = 1) : f32[64, 64]
  %q = reduce_max(%b) {axes = [1]} labels(_stream = 1) : f32[64]
  %y = add(%p, %q) : f32[64]
  return %y
})";
  Result r = check(text, {f32({64, 64})});
  const std::string program = program::print(*r.compiled.program);
  EXPECT_EQ(r.compiled.program->num_streams, 2) << program;
  EXPECT_GE(r.compiled.program->num_events, 1) << program;
  EXPECT_EQ(print(program::parse_program(program)), program);
}

TEST(RunLabels, AChainOverTwoStreamsIsOneStream) {
  Result r = check(R"(graph main(%x: f32[256, 256]) -> (f32[256]) {
  %a = matmul(%x, %x) : f32[256, 256]
  %b = reduce_max(%a) {axes = [1]} labels(_stream = 1) : f32[256]
  return %b
})",
                   {f32({256, 256})});
  EXPECT_EQ(r.compiled.program->num_streams, 1);
}

}  // namespace
}  // namespace gex::test
