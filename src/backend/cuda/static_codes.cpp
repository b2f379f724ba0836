#include "backend/cuda/static_codes.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "backend/cuda/merged_launches.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "backend/cuda/program_texts.hpp"
#include "backend/cuda/tuner.hpp"
#include "cache/object_store.hpp"

namespace gex::backend::cuda {

namespace {

using program::Launch;

class StaticCodes final : public program::Specialiser {
 public:
  StaticCodes(std::shared_ptr<const program::Program> program,
              std::shared_ptr<const ParsedCodes> codes, DeviceLimits limits,
              std::shared_ptr<gex::Store> store, std::unique_ptr<Tuner> tuner)
      : program_(std::move(program)),
        codes_(std::move(codes)),
        limits_(std::move(limits)),
        objects_(store == nullptr ? nullptr : std::make_unique<ObjectStore>(std::move(store))),
        tuner_(std::move(tuner)) {}

  program::Callable specialise(int, std::span<const std::int64_t>) override { return {}; }

  bool tunes() const override { return tuner_ != nullptr; }
  std::vector<std::string> findings() const override {
    return tuner_ == nullptr ? std::vector<std::string>() : tuner_->findings();
  }

  program::DeviceCodes device_codes(const program::LaunchDims& dims,
                                    const program::DeviceCodeRequest& request) override {
    std::vector<Changed> changed;
    for (const Launch* launch : separate_launches(*program_)) {
      const auto values = dims.find(launch);
      if (values == dims.end()) continue;
      DeviceLimits limits = limits_;
      limits.values = values->second;
      limits.form = tuned(*launch, values->second, request.measured);
      if (!limits.form && !(request.all && has_sizes(*launch))) continue;
      KernelText text = text_of_code(*program_, *codes_, launch->code, limits);
      if (!text.source.empty())
        changed.push_back({launch, std::move(text), limits.form.has_value()});
    }
    if (request.all) add_merged(dims, changed);
    return compiled(changed);
  }

 private:
  struct Changed {
    const Launch* launch;
    KernelText text;
    bool has_own_form;
  };

  std::optional<Form> tuned(const Launch& launch, std::span<const std::int64_t> values,
                            const program::TimeTrials& measured) const {
    if (tuner_ == nullptr) return std::nullopt;
    const ParsedCode& code = codes_->codes[static_cast<std::size_t>(launch.code)];
    return tuner_->best(code, launch.code, values, limits_, measured, objects_.get());
  }

  void add_merged(const program::LaunchDims& dims, std::vector<Changed>& changed) const {
    std::deque<KernelText> texts;  // they stay where they are
    const auto text_of = [&](const Launch& launch,
                             const std::vector<bool>& shared) -> const KernelText& {
      const auto values = dims.find(&launch);
      DeviceLimits limits = limits_;
      if (has_sizes(launch) && values != dims.end()) limits.values = values->second;
      return texts.emplace_back(text_of_code(*program_, *codes_, launch.code, limits, shared));
    };
    for (MergedLaunch& merged : merged_launches(*program_, text_of))
      if (dims.contains(merged.first) && some_has_sizes(*merged.first))
        changed.push_back({merged.first, std::move(merged.text), false});
  }

  // Whether generic code reads some of its dims.
  static bool has_sizes(const Launch& launch) {
    return std::any_of(launch.dims.begin(), launch.dims.end(),
                       [](Dim dim) { return !dim.is_const(); });
  }

  // Whether one of the launches merged with this one does.
  bool some_has_sizes(const Launch& first) const {
    for (const program::Segment& segment : program_->segments)
      for (std::size_t i = 0; i < segment.steps.size(); ++i) {
        if (std::get_if<Launch>(&segment.steps[i].op) != &first) continue;
        for (;; ++i) {
          const auto* launch =
              i < segment.steps.size() ? std::get_if<Launch>(&segment.steps[i].op) : nullptr;
          if (launch == nullptr || (launch != &first && !launch->with_previous)) return false;
          if (has_sizes(*launch)) return true;
        }
      }
    return false;
  }

  program::DeviceCodes compiled(const std::vector<Changed>& changed) const {
    std::vector<Source> sources;
    for (const Changed& one : changed) sources.push_back({one.launch->name, one.text.source});
    const auto cubins = compile_cubins(sources, limits_.architecture, objects_.get());
    program::DeviceCodes result;
    for (std::size_t k = 0; k < changed.size(); ++k) {
      program::StaticLaunch code;
      if (changed[k].has_own_form) code = static_launch(changed[k].text, cubins[k]);
      code.image = cubins[k];
      code.entry = changed[k].text.name;
      code.waits = changed[k].text.waits;
      result.emplace(changed[k].launch, std::move(code));
    }
    return result;
  }

  const std::shared_ptr<const program::Program> program_;
  const std::shared_ptr<const ParsedCodes> codes_;
  const DeviceLimits limits_;
  const std::unique_ptr<ObjectStore> objects_;
  const std::unique_ptr<Tuner> tuner_;
};

}  // namespace

std::shared_ptr<program::Specialiser> static_codes(std::shared_ptr<const program::Program> program,
                                                   std::shared_ptr<const ParsedCodes> codes,
                                                   DeviceLimits limits,
                                                   std::shared_ptr<gex::Store> store,
                                                   std::unique_ptr<Tuner> tuner) {
  if (program->symbols.empty() && tuner == nullptr) return nullptr;
  return std::make_shared<StaticCodes>(std::move(program), std::move(codes), std::move(limits),
                                       std::move(store), std::move(tuner));
}

}  // namespace gex::backend::cuda
