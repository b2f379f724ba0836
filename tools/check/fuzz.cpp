#include "check/fuzz.hpp"

#include "check/child.hpp"
#include "check/generate.hpp"
#include "check/generate_mutations.hpp"
#include "check/generate_training.hpp"
#include "check/reduce.hpp"

namespace gex::check {
namespace {

constexpr int kSecondsForOne = 60;

// Small graphs are fast and many, large ones fuse deeper; some are training steps or write their
// inputs.
std::unique_ptr<Graph> graph_of(std::uint64_t seed) {
  if (seed % 7 == 3) return random_mutations(seed, static_cast<int>(2 + seed % 11));
  if (seed % 7 == 6) return random_training_step(seed, static_cast<int>(2 + seed % 9));
  return random_graph(seed, {static_cast<int>(6 + seed % 5 * 6)});
}

std::vector<Trial> trials_of(std::uint64_t seed) {
  std::vector<Trial> trials;
  for (int level = 0; level <= 3; ++level) trials.push_back({level, true, false, {}});
  trials.push_back({static_cast<int>(seed % 4), true, true, {}});
  if (seed % 4 == 0) trials.push_back({static_cast<int>(seed / 4 % 4), false, true, {}});
  return trials;
}

}  // namespace

std::optional<Failure> fuzz_one(std::uint64_t seed,
                                const std::function<void(const Trial&)>& about_to) {
  const auto graph = graph_of(seed);
  const auto inputs = draw_inputs(*graph, sizes_of(*graph), seed);
  const Reference reference(*graph, inputs);
  for (const Trial& trial : trials_of(seed)) {
    if (about_to) about_to(trial);
    if (auto fault = reference.find_fault(trial)) return Failure{trial, trial.text(), *fault};
  }
  return std::nullopt;
}

std::string reduced_failure(std::uint64_t seed, const Failure& failure) {
  const auto fails = [&](const Graph& graph) {
    const ChildResult child = in_child(
        [&](std::ostream& out) {
          const auto inputs = draw_inputs(graph, sizes_of(graph), seed);
          const Reference reference(graph, inputs);
          for (const Trial& trial : trials_of(seed))
            if (trial.text() == failure.where) out << reference.find_fault(trial).value_or("");
        },
        kSecondsForOne);
    return kind_of(child.finished() ? child.text : child.ending()) == kind_of(failure.fault);
  };
  return print(*reduce(*graph_of(seed), fails));
}

}  // namespace gex::check
