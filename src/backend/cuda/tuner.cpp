#include "backend/cuda/tuner.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/cuda/nvrtc.hpp"
#include "backend/cuda/program_texts.hpp"
#include "backend/cuda/trial.hpp"
#include "base/activity.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "cache/object_store.hpp"

namespace gex::backend::cuda {

namespace {

constexpr const char* kKind = "tuning";
constexpr const char* kSection = "candidate";
// Minimum gain over the cost model's choice: less may be noise.
constexpr double kGain = 0.03;

// "1x1x64x512x256 matmul f16 f16 f16 0 0": sizes, then the problem.
std::string label_of(const ProblemTrial& trial) {
  constexpr int kMostSizes = 9;
  std::string text;
  int strides = static_cast<int>(problems::matmul_dims::a_strides);
  if (std::holds_alternative<problems::AttentionProblem>(trial.problem))
    strides = problems::attention_dims::q_strides;
  else if (!std::holds_alternative<problems::MatmulProblem>(trial.problem))
    strides = problems::conv2d_dims::x_strides;
  for (int d = 0; d < std::min(strides, kMostSizes); ++d)
    text += str(d == 0 ? "" : "x", trial.dims[static_cast<std::size_t>(d)]);
  return str(text, " ", problems::print(trial.problem));
}

std::string rounded(double microseconds) {
  return str(std::round(microseconds * 100) / 100, " us");
}

}  // namespace

// The first is the Program's own choice: a form, or the library.
struct Tuner::Candidates {
  ProblemTrial trial;
  std::vector<std::optional<Form>> forms;  // nothing: the library
  std::vector<KernelText> texts;           // without a source for the library

  std::string name(std::size_t k) const { return forms[k] ? name_of(*forms[k]) : "cuBLAS"; }

  // Empty if there is no choice.
  Candidates(const ParsedCode& code, std::span<const std::int64_t> values,
             const DeviceLimits& limits) {
    const bool library = code.algorithm == kLibrary;
    if (!code.problem || !code.prologues.empty()) return;
    std::optional<ProblemTrial> found = trial_of(*code.problem, values, code.kernel >= 0);
    if (!found) return;
    trial = std::move(*found);
    const std::vector<Dim> dims(trial.dims.begin(), trial.dims.end());
    if (library) add({}, {});
    for (const Form& form : forms_of(trial.problem, dims, limits)) {
      DeviceLimits with = limits;
      with.form = form;
      with.values = trial.dims;
      KernelText text = emit(trial.problem, {}, dims, with);
      if (text.workspace_bytes == Dim(0)) add(form, std::move(text));
    }
    if (forms.size() < 2) forms.clear();
  }

  // Of the texts, so that another version of them is measured anew.
  Digest key(const std::string& machine) const {
    Digester digester;
    digester.add("cuda").add(machine);
    for (const std::int64_t dim : trial.dims) digester.add(dim);
    for (std::size_t k = 0; k < texts.size(); ++k) digester.add(name(k)).add(texts[k].source);
    return digester.digest();
  }

  std::vector<program::Trial> trials(int code, const DeviceLimits& limits,
                                     ObjectStore* objects) const {
    std::vector<Source> sources;
    for (std::size_t k = 0; k < texts.size(); ++k)
      if (forms[k]) sources.push_back({str("candidate ", name(k)), texts[k].source});
    const auto cubins = compile_cubins(sources, limits.architecture, objects);
    std::vector<program::Trial> result(texts.size());
    std::size_t next = 0;
    for (std::size_t k = 0; k < texts.size(); ++k) {
      result[k].code = code;
      result[k].buffer_bytes = trial.buffer_bytes;
      result[k].dims = trial.dims;
      if (forms[k]) result[k].launch = static_launch(texts[k], cubins[next++]);
    }
    return result;
  }

 private:
  void add(std::optional<Form> form, KernelText text) {
    forms.push_back(std::move(form));
    texts.push_back(std::move(text));
  }
};

std::optional<std::size_t> Tuner::known(const Digest& key, const Candidates& candidates) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key.hex());
    if (found != known_.end()) return found->second;
  }
  if (store_ == nullptr) return std::nullopt;
  const std::optional<program::Artefact> kept = store_->load(kKind, key);
  if (!kept) return std::nullopt;
  if (kept->sections.size() == 1 && kept->sections[0].name == kSection)
    for (std::size_t k = 0; k < candidates.forms.size(); ++k)
      if (candidates.name(k) == kept->sections[0].content())
        return remember(
            key, k,
            str(label_of(candidates.trial), ": ", candidates.name(k), ", measured earlier"));
  store_->discard(kKind, key, "its candidate does not exist");
  return std::nullopt;
}

std::size_t Tuner::remember(const Digest& key, std::size_t choice, std::string finding) {
  log(LogArea::tune, LogLevel::info, finding);
  const std::lock_guard lock(mutex_);
  known_.emplace(key.hex(), choice);
  findings_.push_back(std::move(finding));
  return choice;
}

std::optional<Form> Tuner::best(const ParsedCode& code, int number,
                                std::span<const std::int64_t> dims, const DeviceLimits& limits,
                                const program::TimeTrials& measured, ObjectStore* objects) {
  const Candidates candidates(code, dims, limits);
  if (candidates.forms.empty()) return std::nullopt;
  const Digest key = candidates.key(machine_);
  const auto form = [&](std::size_t k) { return k == 0 ? std::nullopt : candidates.forms[k]; };
  if (const auto choice = known(key, candidates)) return form(*choice);
  if (!measured) return std::nullopt;
  const std::string label = label_of(candidates.trial);
  Activity::note(str("measuring ", label, " in ", candidates.forms.size(), " forms"));
  const std::vector<double> times = measured(candidates.trials(number, limits, objects));
  if (times.empty()) return std::nullopt;
  const auto fastest = std::ranges::min_element(times);
  const std::size_t choice = *fastest < times.front() * (1 - kGain)
                                 ? static_cast<std::size_t>(fastest - times.begin())
                                 : 0;
  std::string text;
  for (std::size_t k = 0; k < times.size(); ++k) {
    text += str(text.empty() ? "" : ", ", candidates.name(k), " ");
    text += std::isfinite(times[k]) ? rounded(times[k]) : "can't be launched";
    if (candidates.forms[k])
      text += str(" (predicted ", rounded(candidates.forms[k]->microseconds), ")");
  }
  if (store_ != nullptr) {
    program::Artefact artefact;
    artefact.label = label;
    artefact.sections.push_back({kSection, candidates.name(choice)});
    store_->save(kKind, key, std::move(artefact));
  }
  return form(remember(key, choice, str(label, ": ", candidates.name(choice), " of ", text)));
}

std::vector<std::string> Tuner::findings() const {
  const std::lock_guard lock(mutex_);
  return findings_;
}

}  // namespace gex::backend::cuda
