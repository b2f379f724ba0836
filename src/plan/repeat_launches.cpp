#include "plan/repeat_launches.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "plan/conflicts.hpp"

namespace gex::plan {

using program::BufferDesc;
using program::BufferId;
using program::Launch;
using program::Step;

namespace {

// Blocks, work and result of a launch that is worth repeating.
constexpr std::int64_t kMostBlocks = 8, kMostWork = 64 * 1024, kMostBytes = 8 * 1024;

class Repeater {
 public:
  Repeater(const program::Program& program, std::span<Step> run,
           const std::vector<std::vector<int>>& earlier, std::vector<LaunchGroup>& groups,
           const RepeatOptions& options)
      : program_(program), run_(run), earlier_(earlier), groups_(groups), options_(options) {
    group_of_.resize(run.size());
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (int step : groups[g]) group_of_[index(step)] = static_cast<int>(g);
    for (const program::Segment& segment : program.segments)
      for (const Step& step : segment.steps) {
        const std::vector<BufferId> reads = program::reads_of(step),
                                    writes = program::writes_of(step);
        std::set<BufferId> roots;
        for (const std::vector<BufferId>* ids : {&reads, &writes})
          for (BufferId id : *ids) roots.insert(program::root_of(program, id));
        for (BufferId root : roots) ++uses_[root];
      }
  }

  void run() {
    for (int i = 0; i < static_cast<int>(run_.size()); ++i) {
      const auto result = result_of(i);
      if (!result) continue;
      const auto readers = readers_of(i, *result);
      if (!readers) continue;
      LaunchGroup& group = groups_[index(*readers)];
      std::erase(groups_[index(group_of_[index(i)])], i);
      group.insert(group.begin(), i);
      group_of_[index(i)] = *readers;
      Launch& launch = std::get<Launch>(run_[index(i)].op);
      launch.recomputed = true;
      launch.grid = 0;  // it has no blocks of its own
      results_.insert(*result);
      move_ahead(*readers);
    }
  }

 private:
  const Launch* launch(int step) const { return std::get_if<Launch>(&run_[index(step)].op); }

  // The only value that the launch computes, if it is small enough to be repeated.
  std::optional<BufferId> result_of(int i) const {
    const Launch* mine = launch(i);
    if (mine == nullptr || mine->matrix || !mine->dims.empty() || !mine->grid.is_const() ||
        mine->grid.constant() > kMostBlocks || mine->work.range().hi > kMostWork ||
        !options_.can_be_merged(*mine))
      return std::nullopt;
    std::optional<BufferId> result;
    for (std::size_t p = 0; p < mine->buffers.size(); ++p) {
      const BufferId id = mine->buffers[p];
      if (results_.contains(id)) return std::nullopt;
      if (!mine->writes[p]) continue;
      const BufferDesc& desc = program_.buffers[index(id)];
      const auto bytes = desc.bytes.as_const();
      if (result || desc.kind != BufferDesc::Kind::temp || program::root_of(program_, id) != id ||
          !bytes || *bytes > kMostBytes)
        return std::nullopt;
      result = id;
    }
    return result;
  }

  // The group of all launches that read the result, if they can read it from shared memory and if
  // nothing up to there overwrites what the launch reads.
  std::optional<int> readers_of(int i, BufferId result) const {
    std::optional<int> group;
    std::int64_t uses = 1;
    for (int j = i + 1; j < static_cast<int>(run_.size()); ++j) {
      if (!reads_result(j, result)) continue;
      if (!can_read(j, result) || (group && *group != group_of_[index(j)])) return std::nullopt;
      group = group_of_[index(j)];
      ++uses;
    }
    if (!group || uses != uses_.at(result) ||
        groups_[index(*group)].size() + 2 > options_.most_parts || has_repeated(*group) ||
        launch(groups_[index(*group)].front())->block != launch(i)->block)
      return std::nullopt;
    for (int j = i + 1; j < static_cast<int>(run_.size()); ++j) {
      const std::vector<int>& before = earlier_[index(j)];
      if (group_of_[index(j)] <= *group && !reads_result(j, result) &&
          std::find(before.begin(), before.end(), i) != before.end())
        return std::nullopt;
    }
    return group;
  }

  bool reads_result(int step, BufferId result) const {
    const std::vector<BufferId> reads = program::reads_of(run_[index(step)]);
    return std::any_of(reads.begin(), reads.end(),
                       [&](BufferId id) { return program::root_of(program_, id) == result; });
  }

  bool can_read(int step, BufferId result) const {
    const Launch* reader = launch(step);
    if (reader == nullptr || reader->recomputed || !options_.can_be_merged(*reader)) return false;
    for (std::size_t p = 0; p < reader->buffers.size(); ++p) {
      if (program::root_of(program_, reader->buffers[p]) != result) continue;
      if (reader->buffers[p] != result || reader->writes[p] || !options_.can_read(*reader, p))
        return false;
    }
    return true;
  }

  bool has_repeated(int group) const {
    return std::any_of(groups_[index(group)].begin(), groups_[index(group)].end(),
                       [&](int step) { return launch(step)->recomputed; });
  }

  // A group that does not wait for its repeated launch any more may join an earlier one.
  void move_ahead(int group) {
    int after = -1;
    for (int step : groups_[index(group)])
      for (int other : earlier_[index(step)])
        if (group_of_[index(other)] != group) after = std::max(after, group_of_[index(other)]);
    for (int g = std::max(after + 1, group - options_.reach); g < group; ++g) {
      LaunchGroup& target = groups_[index(g)];
      LaunchGroup& mine = groups_[index(group)];
      if (target.empty() || launch(target.front()) == nullptr || has_repeated(g) ||
          target.size() + mine.size() + 1 > options_.most_parts ||
          !std::all_of(mine.begin(), mine.end(),
                       [&](int step) { return options_.fits(target, step); }))
        continue;
      for (int step : mine) group_of_[index(step)] = g;
      target.insert(target.begin(), mine.begin(), mine.end());
      mine.clear();
      return;
    }
  }

  const program::Program& program_;
  const std::span<Step> run_;
  const std::vector<std::vector<int>>& earlier_;
  std::vector<LaunchGroup>& groups_;
  const RepeatOptions& options_;
  std::vector<int> group_of_;              // by step
  std::map<BufferId, std::int64_t> uses_;  // steps, by root
  std::set<BufferId> results_;             // of repeated launches
};

}  // namespace

void repeat_launches(const program::Program& program, std::span<Step> run,
                     const std::vector<std::vector<int>>& earlier, std::vector<LaunchGroup>& groups,
                     const RepeatOptions& options) {
  Repeater(program, run, earlier, groups, options).run();
}

}  // namespace gex::plan
