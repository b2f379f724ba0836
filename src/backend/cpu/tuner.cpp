#include "backend/cpu/tuner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <new>

#include "base/activity.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "runtime/background/background.hpp"

namespace gex::backend::cpu {

namespace {

using Clock = std::chrono::steady_clock;

// CPU time of this thread only: other threads may be running the program.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

using kernels::Trial;
using kernels::TuningCandidate;

constexpr const char* kKind = "tuning";
constexpr const char* kSection = "candidate";

// Larger problems are measured on the first part of their grid.
constexpr double kWork = 1e9;
constexpr int kRounds = 8;
constexpr double kShortest = 50e-6;     // seconds; shorter runs are repeated in one timing
constexpr double kSecondsForAll = 0.1;  // then the rounds so far decide
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 29;
// Minimum gain over the heuristic's choice: less may be noise.
constexpr double kGain = 0.03;

class Memory {
 public:
  explicit Memory(std::int64_t bytes)
      : data_(static_cast<std::byte*>(
            ::operator new(static_cast<std::size_t>(bytes) + kAlignment, kAligned))) {}
  ~Memory() { ::operator delete(data_, kAligned); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }

 private:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::align_val_t kAligned{kAlignment};
  std::byte* data_;
};

// Fills with bytes that are small normal numbers in every floating dtype.
void fill(std::byte* data, std::int64_t bytes) {
  std::memset(data, 0x3c, static_cast<std::size_t>(bytes));
}

// "1x32x256x128 matmul f32 f32 f32 0 0": sizes, then the problem.
std::string label_of(const Trial& trial) {
  const bool conv = std::holds_alternative<problems::Conv2dProblem>(trial.problem);
  const int sizes = conv ? static_cast<int>(problems::conv2d_dims::x_strides)
                         : static_cast<int>(problems::matmul_dims::a_strides);
  std::string text;
  for (int d = 0; d < sizes; ++d)
    text += str(d == 0 ? "" : "x", trial.dims[static_cast<std::size_t>(d)]);
  return str(text, " ", problems::print(trial.problem));
}

struct Timed {
  TuningCandidate candidate;
  double microseconds;
};

// Points of the grid that are measured.
std::int64_t points_of(const Trial& trial) {
  const double part = std::min(1.0, kWork / std::max(trial.work, 1.0));
  return std::max<std::int64_t>(1,
                                static_cast<std::int64_t>(static_cast<double>(trial.grid) * part));
}

// Empty if the process is about to exit.
std::vector<Timed> measure(const Trial& trial, const std::vector<TuningCandidate>& candidates) {
  Memory a(trial.buffer_bytes[0]), b(trial.buffer_bytes[1]), c(trial.buffer_bytes[2]);
  Memory scratch(trial.scratch_bytes);
  fill(a.data(), trial.buffer_bytes[0]);
  fill(b.data(), trial.buffer_bytes[1]);
  void* const buffers[] = {a.data(), b.data(), c.data()};
  const std::int64_t end = points_of(trial);
  std::vector<program::Callable> code;
  std::vector<Timed> times;
  for (const TuningCandidate& candidate : candidates) {
    code.push_back(kernels::make(trial.problem, {}, candidate));
    times.push_back({candidate, std::numeric_limits<double>::infinity()});
  }
  const auto start = Clock::now();
  int repeats = 1;
  double first = 0;
  for (int round = 0; round <= kRounds; ++round) {
    for (std::size_t k = 0; k < code.size(); ++k) {
      if (runtime::background_stopping()) return {};
      const double before = processor_seconds();
      for (int i = 0; i < repeats; ++i) code[k](buffers, trial.dims.data(), 0, end, scratch.data());
      const double took = (processor_seconds() - before) / repeats;
      // The first round runs with cold caches.
      if (round > 0) times[k].microseconds = std::min(times[k].microseconds, 1e6 * took);
      if (round == 0) first = std::max(first, took);
    }
    if (round == 0) repeats = static_cast<int>(std::ceil(kShortest / std::max(first, 1e-7)));
    const bool late = std::chrono::duration<double>(Clock::now() - start).count() > kSecondsForAll;
    if (round > 0 && late) break;
  }
  return times;
}

std::int64_t bytes_of(const Trial& trial) {
  std::int64_t bytes = trial.scratch_bytes;
  for (std::int64_t size : trial.buffer_bytes) bytes += size;
  return bytes;
}

}  // namespace

std::vector<TimedCandidate> timed_candidates(const problems::Problem& problem,
                                             std::span<const std::int64_t> dims) {
  const std::vector<TuningCandidate> candidates = kernels::tuning_candidates(problem, dims);
  if (candidates.size() < 2) return {};
  const std::optional<Trial> trial = kernels::trial_of(problem, dims);
  if (!trial || trial->grid == 0 || bytes_of(*trial) > kMaxBytes) return {};
  const double scale = static_cast<double>(trial->grid) / static_cast<double>(points_of(*trial));
  std::vector<TimedCandidate> timed;
  for (const Timed& one : measure(*trial, candidates))
    timed.push_back(
        {kernels::name_of(timed.empty() ? kernels::choice_by_rule(problem, dims) : one.candidate),
         one.microseconds * scale});
  return timed;
}

TuningCandidate Tuner::best(const kernels::Problem& problem, std::span<const std::int64_t> dims) {
  const std::vector<TuningCandidate> candidates = kernels::tuning_candidates(problem, dims);
  if (candidates.size() < 2) return {};
  const std::optional<Trial> trial = kernels::trial_of(problem, dims);
  if (!trial || trial->grid == 0) return {};
  Digester digester;
  digester.add(problems::print(trial->problem)).add(target_);
  for (std::int64_t dim : trial->dims) digester.add(dim);
  const Digest key = digester.digest();
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key.hex());
    if (found != known_.end()) return found->second;
  }
  const auto remember = [&](TuningCandidate candidate, std::string text) {
    std::string finding = str(label_of(*trial), ": ", text);
    log(LogArea::tune, LogLevel::info, finding);
    const std::lock_guard lock(mutex_);
    known_.emplace(key.hex(), candidate);
    findings_.push_back(std::move(finding));
    return candidate;
  };
  if (store_ != nullptr) {
    if (const std::optional<program::Artefact> kept = store_->load(kKind, key)) {
      const bool whole = kept->sections.size() == 1 && kept->sections[0].name == kSection;
      const std::optional<TuningCandidate> candidate =
          whole ? kernels::find_candidate(candidates, kept->sections[0].bytes) : std::nullopt;
      if (candidate)
        return remember(*candidate, str(kernels::name_of(*candidate), ", measured earlier"));
      store_->discard(kKind, key, "its candidate is not available on this machine");
    }
  }
  if (bytes_of(*trial) > kMaxBytes) return remember({}, "by rule: too large to be tried");
  Activity::note(str("measuring ", label_of(*trial), " in ", candidates.size(), " forms"));
  const std::vector<Timed> times = measure(*trial, candidates);
  if (times.empty()) return {};
  const auto fastest = std::ranges::min_element(times, {}, &Timed::microseconds);
  const bool gains = fastest->microseconds < times.front().microseconds * (1 - kGain);
  const TuningCandidate candidate = gains ? fastest->candidate : times.front().candidate;
  std::string text;
  for (const Timed& timed : times)
    text += str(text.empty() ? "" : ", ", kernels::name_of(timed.candidate), " ",
                std::round(timed.microseconds * 100) / 100, " us");
  if (store_ != nullptr) {
    program::Artefact artefact;
    artefact.label = label_of(*trial);
    artefact.sections.push_back({kSection, kernels::name_of(candidate)});
    store_->save(kKind, key, std::move(artefact));
  }
  return remember(candidate, str(kernels::name_of(candidate), " of ", text));
}

std::vector<std::string> Tuner::findings() const {
  const std::lock_guard lock(mutex_);
  return findings_;
}

}  // namespace gex::backend::cpu
