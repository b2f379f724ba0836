#include "backend/cuda/merged_launches.hpp"

#include <map>

namespace gex::backend::cuda {

using program::BufferId;
using program::Launch;

namespace {

// The parts of one kernel.
class Parts {
 public:
  Parts(const program::Program& program, const TextOfLaunch& text_of)
      : program_(program), text_of_(text_of) {}

  void add(const Launch& launch, std::vector<MergedLaunch>& merged) {
    if (!launch.with_previous) finish(merged);
    if (launch.phase >= 0) return;
    if (parts_.empty()) first_ = &launch;
    // In the order of the parameter block (runtime/recorder.hpp).
    const int grid_word = static_cast<int>(launch.buffers.size() + launch.dims.size());
    MergedPart part{&text_of_(launch, {}), words_, launch.grid, grid_word};
    if (launch.recomputed)
      add_result(launch, part);
    else
      read_results(launch, part);
    parts_.push_back(std::move(part));
    words_ += grid_word + 3;
  }

  void finish(std::vector<MergedLaunch>& merged) {
    const bool kernels = !parts_.empty() && !parts_.front().text->source.empty();
    if (parts_.size() > 1 && kernels) merged.push_back({first_, merge(parts_)});
    parts_.clear();
    results_.clear();
    words_ = 0;
  }

 private:
  void add_result(const Launch& launch, MergedPart& part) {
    for (std::size_t p = 0; p < launch.buffers.size(); ++p) {
      if (!launch.writes[p]) continue;
      const BufferId id = launch.buffers[p];
      part.result = static_cast<int>(p);
      part.result_bytes = program_.buffers[static_cast<std::size_t>(id)].bytes.constant();
      results_[id] = parts_.size();
    }
  }

  void read_results(const Launch& launch, MergedPart& part) {
    std::vector<bool> shared(launch.buffers.size(), false);
    for (std::size_t p = 0; p < launch.buffers.size(); ++p) {
      const auto found = results_.find(launch.buffers[p]);
      if (found == results_.end()) continue;
      part.repeated.emplace_back(static_cast<int>(p), found->second);
      shared[p] = true;
    }
    if (!part.repeated.empty()) part.text = &text_of_(launch, shared);
  }

  const program::Program& program_;
  const TextOfLaunch& text_of_;
  std::map<BufferId, std::size_t> results_;  // of repeated launches of this kernel, by part
  std::vector<MergedPart> parts_;
  const Launch* first_ = nullptr;
  int words_ = 0;
};

}  // namespace

std::vector<MergedLaunch> merged_launches(const program::Program& program,
                                          const TextOfLaunch& text_of) {
  std::vector<MergedLaunch> merged;
  Parts parts(program, text_of);
  for (const program::Segment& segment : program.segments) {
    for (const program::Step& step : segment.steps) {
      if (const auto* launch = std::get_if<Launch>(&step.op))
        parts.add(*launch, merged);
      else
        parts.finish(merged);
    }
    parts.finish(merged);
  }
  return merged;
}

}  // namespace gex::backend::cuda
