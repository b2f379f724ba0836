// Folds of a large tensor to one number: two launches, the same bits for any number of threads.

#include "base/thread_pool.hpp"
#include "harness.hpp"

namespace gex::test {
namespace {

std::mt19937 random_source(7);

const char* const kLoss = R"(
graph main(%x: f32[48, 1031], %y: f32[48, 1031]) -> (f32[], f32[], f32[1, 1]) {
  %d = sub(%x, %y) : f32[48, 1031]
  %q = mul(%d, %d) : f32[48, 1031]
  %s = reduce_sum(%q) {axes = [0, 1]} : f32[]
  %m = reduce_mean(%q) {axes = [0, 1]} : f32[]
  %l = reduce_max(%d) {axes = [0, 1], keepdim = true} : f32[1, 1]
  return %s, %m, %l
})";

TEST(FullReduction, IsParallelAndGivesTheSameBitsForAnyNumberOfThreads) {
  const std::vector<HostTensor> inputs = {random_tensor(DType::f32, {48, 1031}, random_source),
                                          random_tensor(DType::f32, {48, 1031}, random_source)};
  const Result together = check(kLoss, inputs);
  EXPECT_GE(together.launches, 2) << together.compiled.report.kernel_text;
  const int before = ThreadPool::global().threads();
  for (int threads : {1, 3}) {
    ThreadPool::global().set_threads(threads);
    EXPECT_EQ(check(kLoss, inputs).outputs, together.outputs) << threads << " threads";
  }
  ThreadPool::global().set_threads(before);
}

TEST(FullReduction, OneLongAxisIsSplitIntoRows) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const std::string type = std::string(name_of(dtype));
    const Result r =
        check("graph main(%x: " + type + "[50000]) -> (" + type +
                  "[]) {\n  %m = reduce_mean(%x) {axes = [0]} : " + type + "[]\n  return %m\n}",
              {random_tensor(dtype, {50000}, random_source)});
    EXPECT_EQ(r.launches, 2) << r.compiled.report.kernel_text;
  }
}

}  // namespace
}  // namespace gex::test
