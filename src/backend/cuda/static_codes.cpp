#include "backend/cuda/static_codes.hpp"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "backend/cuda/merged_launches.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "backend/cuda/program_texts.hpp"
#include "cache/object_store.hpp"

namespace gex::backend::cuda {

namespace {

using program::Launch;

class StaticCodes final : public program::Specialiser {
 public:
  StaticCodes(std::shared_ptr<const program::Program> program,
              std::shared_ptr<const ParsedCodes> codes, DeviceLimits limits,
              std::shared_ptr<gex::Store> store)
      : program_(std::move(program)),
        codes_(std::move(codes)),
        limits_(std::move(limits)),
        objects_(store == nullptr ? nullptr : std::make_unique<ObjectStore>(std::move(store))) {}

  program::Callable specialise(int, std::span<const std::int64_t>) override { return {}; }

  program::DeviceCodes device_codes(const program::LaunchDims& dims) override {
    std::deque<KernelText> texts;  // those of merged launches stay where they are
    const auto text_of = [&](const Launch& launch,
                             const std::vector<bool>& shared) -> const KernelText& {
      const auto values = dims.find(&launch);
      DeviceLimits limits = limits_;
      if (has_sizes(launch) && values != dims.end()) limits.values = values->second;
      return texts.emplace_back(text_of_code(*program_, *codes_, launch.code, limits, shared));
    };
    std::vector<std::pair<const Launch*, KernelText>> changed;
    for (const Launch* launch : separate_launches(*program_))
      if (has_sizes(*launch) && dims.contains(launch)) {
        KernelText text = text_of(*launch, {});
        if (!text.source.empty()) changed.emplace_back(launch, std::move(text));
      }
    for (MergedLaunch& merged : merged_launches(*program_, text_of))
      if (dims.contains(merged.first) && some_has_sizes(*merged.first))
        changed.emplace_back(merged.first, std::move(merged.text));
    return compiled(changed);
  }

 private:
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

  program::DeviceCodes compiled(
      const std::vector<std::pair<const Launch*, KernelText>>& changed) const {
    std::vector<Source> sources;
    for (const auto& [launch, text] : changed) sources.push_back({launch->name, text.source});
    const auto cubins = compile_cubins(sources, limits_.architecture, objects_.get());
    program::DeviceCodes result;
    for (std::size_t k = 0; k < changed.size(); ++k) {
      program::DeviceCode code;
      code.image = cubins[k];
      code.entry = changed[k].second.name;
      code.waits = changed[k].second.waits;
      result.emplace(changed[k].first, std::move(code));
    }
    return result;
  }

  const std::shared_ptr<const program::Program> program_;
  const std::shared_ptr<const ParsedCodes> codes_;
  const DeviceLimits limits_;
  const std::unique_ptr<ObjectStore> objects_;
};

}  // namespace

std::shared_ptr<program::Specialiser> static_codes(std::shared_ptr<const program::Program> program,
                                                   std::shared_ptr<const ParsedCodes> codes,
                                                   DeviceLimits limits,
                                                   std::shared_ptr<gex::Store> store) {
  if (program->symbols.empty()) return nullptr;
  return std::make_shared<StaticCodes>(std::move(program), std::move(codes), std::move(limits),
                                       std::move(store));
}

}  // namespace gex::backend::cuda
