#pragma once
// A pass: Graph -> changed?, with a name, a level and a stage. Built-in and user passes are the
// same thing; the manager alone verifies, times, dumps, switches off and checks that "changed" is
// the truth.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.hpp"
#include "ir/graph.hpp"

namespace gex::passes {

enum class Stage : std::uint8_t {
  early,   // on the graph as it was built: recognise what the user meant
  middle,  // clean up; runs to a fixpoint
  late,    // composites are gone: prepare for fusion
};

// What a pass may know beside the graph.
struct PassSettings {
  std::vector<int> frozen_inputs;  // graph inputs whose contents never change
  std::int64_t fold_limit = 4096;  // results with more elements are not left to the interpreter
  // Runs a graph without inputs, quickly: constants of any size can be folded. Null: they stay.
  std::function<std::vector<HostTensor>(std::unique_ptr<Graph>)> compute = {};
};

class PassContext {
 public:
  // The graph as a whole: passes see its subgraphs as well.
  PassContext(const Graph& graph, const PassSettings& settings)
      : graph_(graph), settings_(settings) {}

  const PassSettings& settings() const { return settings_; }
  // Whether the value is an input whose contents never change.
  bool is_frozen(const Value* value) const;

  // Why something was or was not done, with the node it is about.
  void remark(const Node& node, std::string_view reason);
  // How many times the pass did its thing; shown in reports.
  void count(std::int64_t n = 1) { count_ += n; }
  std::int64_t counted() const { return count_; }
  // How many times it found its thing, for passes that then decide; else what it did.
  void matched(std::int64_t n) { matched_ = matched_.value_or(0) + n; }
  std::int64_t matches() const { return matched_.value_or(count_); }
  std::vector<std::string>& remarks() { return remarks_; }

 private:
  const Graph& graph_;
  const PassSettings& settings_;
  std::int64_t count_ = 0;
  std::optional<std::int64_t> matched_;
  std::vector<std::string> remarks_;
};

constexpr int kHighestLevel = 3;
// The level of passes that run only where they are switched on by name.
constexpr int kOnRequest = kHighestLevel + 1;

struct Pass {
  std::string name;
  std::string summary;
  Stage stage = Stage::middle;
  int level = 1;  // runs at this level and above; 0: nothing could be lowered without it
  std::function<bool(Graph&, PassContext&)> run;
  // Of a user pass: the same for as long as it does the same, so that compiled programs it took
  // part in may be kept. Empty: they are not.
  std::string version = {};
};

}  // namespace gex::passes
