#include "backend/cpu/tuner.hpp"

#include <algorithm>
#include <fstream>
#include <regex>

#include "cache_fixture.hpp"
#include "runtime/background/background.hpp"

namespace gex::test {
namespace {

using backend::cpu::Tuner;
using kernels::TuningCandidate;
using problems::MatmulProblem;

std::vector<std::int64_t> dims_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {1, 1, m, n, k, 0, 0, k, 1, 0, 0, n, 1, 0, 0, n, 1};
}

class Tuning : public Cache {};

// "...: CHOSEN of NAME TIME us, NAME TIME us, ...": the first is the heuristic's choice.
TEST_F(Tuning, SelectsTheFastestMeasuredCandidate) {
  Tuner tuner(nullptr, "here");
  for (std::int64_t m : {1, 4, 32, 100}) tuner.best(MatmulProblem{}, dims_of(m, 96, 64));
  ASSERT_EQ(tuner.findings().size(), 4u);
  for (const std::string& line : tuner.findings()) {
    std::smatch parts;
    ASSERT_TRUE(std::regex_match(line, parts, std::regex("1x1x\\d+x96x64 matmul .*: (.*) of (.*)")))
        << line;
    const std::string rest = parts[2];
    std::vector<std::pair<double, std::string>> times;
    const std::regex one("(\\w+ \\w+) ([0-9.]+) us");
    for (std::sregex_iterator it(rest.begin(), rest.end(), one), end; it != end; ++it)
      times.push_back({std::stod((*it)[2]), (*it)[1]});
    ASSERT_GT(times.size(), 2u) << line;
    const auto rule = times.front();
    const auto fastest = *std::min_element(times.begin(), times.end());
    const auto chosen = std::find_if(times.begin(), times.end(),
                                     [&](const auto& time) { return time.second == parts[1]; });
    ASSERT_NE(chosen, times.end()) << line;
    // Times are printed with two digits: different candidates may look equally fast.
    constexpr double kRounding = 0.0101;
    EXPECT_LE(chosen->first, fastest.first / 0.97 + kRounding) << line;
    if (chosen->second != rule.second) {
      EXPECT_LE(chosen->first, fastest.first + kRounding) << line;
      EXPECT_LE(chosen->first, rule.first * 0.97 + kRounding) << line;
    }
  }
}

TEST_F(Tuning, MeasuresEachProblemOnce) {
  Tuner tuner(nullptr, "here");
  const TuningCandidate first = tuner.best(MatmulProblem{}, dims_of(32, 96, 64));
  EXPECT_EQ(tuner.best(MatmulProblem{}, dims_of(32, 96, 64)), first);
  EXPECT_EQ(tuner.findings().size(), 1u);
}

TEST_F(Tuning, IsCachedForOtherProcessesOfThisMachine) {
  const TuningCandidate first = Tuner(store_, "here").best(MatmulProblem{}, dims_of(32, 96, 64));
  Tuner again(store_, "here");
  EXPECT_EQ(again.best(MatmulProblem{}, dims_of(32, 96, 64)), first);
  EXPECT_NE(again.findings().at(0).find("measured earlier"), std::string::npos);
  Tuner elsewhere(store_, "another processor");
  elsewhere.best(MatmulProblem{}, dims_of(32, 96, 64));
  EXPECT_EQ(elsewhere.findings().at(0).find("measured earlier"), std::string::npos);
}

TEST_F(Tuning, ProblemsTooLargeToMeasureKeepTheHeuristic) {
  Tuner tuner(nullptr, "here");
  EXPECT_EQ(tuner.best(MatmulProblem{}, dims_of(1 << 14, 1 << 14, 1 << 14)), TuningCandidate{});
  EXPECT_NE(tuner.findings().at(0).find("too large"), std::string::npos);
}

TEST_F(Tuning, EmptyMatmulsAreNotMeasured) {
  Tuner tuner(nullptr, "here");
  EXPECT_EQ(tuner.best(MatmulProblem{}, dims_of(0, 96, 64)), TuningCandidate{});
  EXPECT_TRUE(tuner.findings().empty());
}

// The cached choice is replaced by each candidate: all give the same results, with the epilogue
// that was fused into the matmul.
TEST_F(Tuning, ProgramsRunWithAnyCandidate) {
  const auto run = [&](std::vector<std::string>& findings) {
    const Compiled tuned =
        compiled(graph_text(), [](CompileOptions& options) { options.autotune = true; });
    runtime::SessionOptions options;
    options.hot_after = 1;
    runtime::Session session(tuned.executable, options, tuned.specialiser);
    std::vector<HostTensor> given = inputs();
    execute(session, given);
    runtime::wait_for_background();
    findings = session.findings();
    return execute(session, given);
  };
  const std::vector<HostTensor> expected = results_of(compiled());
  std::vector<std::string> findings;
  run(findings);
  ASSERT_EQ(findings.size(), 1u);
  ASSERT_EQ(of_kind("tuning").size(), 1u);
  const std::string hex = of_kind("tuning").front().key;
  Digest key;
  for (std::size_t i = 0; i < key.bytes.size(); ++i)
    key.bytes[i] = static_cast<std::uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  const std::vector<TuningCandidate> candidates =
      kernels::tuning_candidates(MatmulProblem{}, dims_of(9, 40, 48));
  ASSERT_GT(candidates.size(), 2u);
  for (const TuningCandidate& candidate : candidates) {
    program::Artefact kept = *store_->load("tuning", key);
    kept.sections.at(0).bytes = name_of(candidate);
    store_->save("tuning", key, kept);
    const std::vector<HostTensor> got = run(findings);
    EXPECT_NE(findings.at(0).find(str(name_of(candidate), ", measured earlier")),
              std::string::npos);
    for (std::size_t k = 0; k < expected.size(); ++k)
      for (std::int64_t i = 0; i < expected[k].numel(); ++i)
        ASSERT_NEAR(got[k].get(i), expected[k].get(i), 1e-5) << name_of(candidate);
  }
}

TEST_F(Tuning, InvalidCacheEntriesAreMeasuredAgain) {
  Tuner(store_, "here").best(MatmulProblem{}, dims_of(32, 96, 64));
  const std::string path = of_kind("tuning").front().path;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << "nonsense";
  Tuner again(store_, "here");
  again.best(MatmulProblem{}, dims_of(32, 96, 64));
  EXPECT_EQ(again.findings().at(0).find("measured earlier"), std::string::npos);
}

}  // namespace
}  // namespace gex::test
