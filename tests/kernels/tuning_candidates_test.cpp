#include "backend/cpu/kernels/tuning_candidates.hpp"

#include <algorithm>
#include <set>

#include "support.hpp"

namespace gex::test {

using namespace gex::kernels;
namespace {

using kernels::Form;
using kernels::Problem;
using kernels::TuningCandidate;
using problems::Conv2dProblem;
using problems::MatmulProblem;

// C = A * B, rows adjacent unless stated otherwise.
std::vector<i64> product_dims(i64 m, i64 n, i64 k, bool a_turned = false, bool b_turned = false) {
  return {1,
          1,
          m,
          n,
          k,
          0,
          0,
          a_turned ? 1 : k,
          a_turned ? m : 1,
          0,
          0,
          b_turned ? 1 : n,
          b_turned ? k : 1,
          0,
          0,
          n,
          1};
}

std::vector<i64> conv_dims(i64 n, i64 c, i64 size, i64 o, i64 per_group, i64 kernel, i64 out) {
  return {n,
          c,
          size,
          size,
          o,
          out,
          out,
          kernel,
          kernel,
          c * size * size,
          size * size,
          size,
          1,
          per_group * kernel * kernel,
          kernel * kernel,
          kernel,
          1,
          o * out * out,
          out * out,
          out,
          1};
}

std::vector<double> result_of(const kernels::Trial& trial, const TuningCandidate& candidate,
                              const HostTensor& a, const HostTensor& b, i64 step) {
  const DType stored = a.dtype() == DType::f64 ? DType::f64 : DType::f32;
  HostTensor c(stored, {trial.buffer_bytes[2] / static_cast<i64>(size_of(stored))});
  HostTensor left = a, right = b;
  run_in_steps(kernels::make(trial.problem, {}, candidate), {left.data(), right.data(), c.data()},
               trial.dims, trial.grid, trial.scratch_bytes, step);
  return numbers(c);
}

// Returns the forms that were run.
std::set<Form> expect_all_ways_agree(const Problem& problem, DType left, DType right,
                                     const std::vector<i64>& dims) {
  std::mt19937 rng{5};
  const std::optional<kernels::Trial> trial = kernels::trial_of(problem, dims);
  if (!trial) throw std::logic_error("no trial");
  const HostTensor a =
      random_tensor(rng, left, trial->buffer_bytes[0] / static_cast<i64>(size_of(left)));
  const HostTensor b =
      random_tensor(rng, right, trial->buffer_bytes[1] / static_cast<i64>(size_of(right)));
  const std::vector<TuningCandidate> candidates = kernels::tuning_candidates(problem, dims);
  EXPECT_EQ(candidates.front(), TuningCandidate{}) << "the rule's comes first";
  const std::vector<double> expected = result_of(*trial, candidates.front(), a, b, trial->grid);
  std::set<Form> forms;
  for (const TuningCandidate& candidate : candidates) {
    forms.insert(candidate.form);
    for (i64 step : {trial->grid, i64{1}}) {
      const std::vector<double> got = result_of(*trial, candidate, a, b, step);
      double worst = 0;
      for (std::size_t i = 0; i < got.size(); ++i)
        worst = std::max(worst, std::fabs(got[i] - expected[i]));
      EXPECT_LT(worst, left == DType::f64 ? 1e-12 : 1e-4)
          << problems::print(problem) << " by " << name_of(candidate) << ", step " << step;
    }
  }
  return forms;
}

TEST(TuningCandidates, MatmulsInEveryFormAgree) {
  std::set<Form> seen;
  for (const auto& [m, n, k] : {std::array<i64, 3>{32, 256, 128},
                                {5, 40, 70},
                                {130, 7, 33},
                                {1, 100, 300},
                                {97, 65, 1},
                                {8, 8, 8},
                                {200, 190, 257}})
    for (bool a_turned : {false, true})
      for (bool b_turned : {false, true})
        for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
          MatmulProblem problem;
          problem.a = problem.b = dtype;
          seen.merge(expect_all_ways_agree(problem, dtype, dtype,
                                           product_dims(m, n, k, a_turned, b_turned)));
        }
  EXPECT_EQ(seen, (std::set{Form::by_rule, Form::packed, Form::in_place, Form::turned,
                            Form::few_rows, Form::few_columns}));
}

TEST(TuningCandidates, ConvolutionsInEveryFormAgree) {
  std::set<Form> seen;
  for (i64 groups : {1, 4, 8})
    for (i64 out_channels : {8, 24, 64}) {
      Conv2dProblem problem;
      problem.groups = groups;
      problem.pad = {1, 1};
      seen.merge(expect_all_ways_agree(problem, DType::f32, DType::f32,
                                       conv_dims(2, 16, 13, out_channels, 16 / groups, 3, 13)));
      problem.pad = {0, 0};
      problem.stride = {2, 2};
      seen.merge(expect_all_ways_agree(problem, DType::f32, DType::f32,
                                       conv_dims(1, 16, 11, out_channels, 16 / groups, 3, 5)));
    }
  Conv2dProblem depthwise;
  depthwise.groups = 24;
  depthwise.stride = {2, 2};
  depthwise.pad = {2, 2};
  seen.merge(
      expect_all_ways_agree(depthwise, DType::f32, DType::f32, conv_dims(2, 24, 11, 24, 1, 5, 6)));
  EXPECT_EQ(seen, (std::set{Form::by_rule, Form::pixels, Form::rows, Form::direct, Form::columns,
                            Form::shifts, Form::channels}));
}

// Each form leaves different contents in its scratch: using the wrong form shows.
TEST(TuningCandidates, TheRequestedFormIsUsed) {
  const auto scratch_of = [](const kernels::Trial& trial, const TuningCandidate& candidate) {
    HostTensor a(DType::f32, {trial.buffer_bytes[0] / 4}),
        b(DType::f32, {trial.buffer_bytes[1] / 4});
    HostTensor c(DType::f32, {trial.buffer_bytes[2] / 4});
    for (HostTensor* t : {&a, &b})
      for (i64 i = 0; i < t->numel(); ++i) t->set(i, static_cast<double>(i % 97) + 1);
    Scratch scratch(trial.scratch_bytes);
    void* const buffers[] = {a.data(), b.data(), c.data()};
    kernels::make(trial.problem, {}, candidate)(buffers, trial.dims.data(), 0, trial.grid,
                                                scratch.data());
    return std::string(reinterpret_cast<const char*>(scratch.data()),
                       static_cast<std::size_t>(trial.scratch_bytes));
  };
  Conv2dProblem thin;
  thin.groups = 4;
  const std::pair<Problem, std::vector<i64>> cases[] = {
      {MatmulProblem{}, product_dims(8, 24, 40, false, true)},
      {MatmulProblem{}, product_dims(24, 8, 40, false, true)},
      {thin, conv_dims(1, 16, 9, 8, 4, 3, 7)}};
  for (const auto& [problem, dims] : cases) {
    const kernels::Trial trial = kernels::trial_of(problem, dims).value();
    std::set<std::string> different;
    std::size_t forms = 0;
    for (Form form : {Form::packed, Form::in_place, Form::turned, Form::few_rows, Form::few_columns,
                      Form::pixels, Form::direct, Form::columns}) {
      const bool is_conv = std::holds_alternative<Conv2dProblem>(problem);
      const bool listed = std::ranges::any_of(
          kernels::tuning_candidates(problem, dims),
          [&](const TuningCandidate& candidate) { return candidate.form == form; });
      if (!listed || is_conv != (form >= Form::pixels)) continue;
      different.insert(scratch_of(trial, {form, nullptr}));
      ++forms;
    }
    EXPECT_GE(forms, 3u) << problems::print(problem);
    EXPECT_EQ(different.size(), forms) << problems::print(problem);
  }
}

TEST(TuningCandidates, TheHeuristicSelectsOneOfTheForms) {
  const auto rule = [](i64 m, i64 n, i64 k, bool b_packed = false) {
    return kernels::matmul_sizes(DType::f32, DType::f32, b_packed, false, false,
                                 product_dims(m, n, k).data())
        .by_rule(16);
  };
  EXPECT_EQ(rule(1, 1000, 1000), Form::few_rows);
  EXPECT_EQ(rule(1, 1000, 1000, true), Form::few_rows);
  EXPECT_EQ(rule(1000, 1, 1000), Form::few_columns);
  EXPECT_EQ(rule(32, 256, 128), Form::in_place);
  EXPECT_EQ(rule(32, 256, 128, true), Form::packed);
  EXPECT_EQ(rule(512, 512, 512), Form::packed);
}

TEST(TuningCandidates, NoneIfRowsMustNotDependOnTheirNumber) {
  MatmulProblem problem;
  problem.any_rows = true;
  EXPECT_TRUE(kernels::tuning_candidates(problem, product_dims(4, 64, 64)).empty());
}

TEST(TuningCandidates, OtherProblemsHaveNone) {
  const problems::AttentionProblem attention;
  EXPECT_TRUE(kernels::tuning_candidates(attention, {}).empty());
  EXPECT_FALSE(kernels::trial_of(attention, {}));
}

TEST(TuningCandidates, NegativeStridesAreNotMeasured) {
  std::vector<i64> dims = product_dims(4, 64, 64);
  dims[problems::matmul_dims::a_strides + 2] = -64;
  EXPECT_FALSE(kernels::trial_of(MatmulProblem{}, dims));
}

TEST(TuningCandidates, NamesParseBack) {
  const std::vector<TuningCandidate> candidates =
      kernels::tuning_candidates(MatmulProblem{}, product_dims(32, 256, 128));
  for (const TuningCandidate& candidate : candidates)
    EXPECT_EQ(kernels::find_candidate(candidates, name_of(candidate)), candidate);
  EXPECT_FALSE(kernels::find_candidate(candidates, "by_magic avx512"));
}

}  // namespace
}  // namespace gex::test
