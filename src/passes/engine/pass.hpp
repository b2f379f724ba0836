#pragma once
// A pass: Graph -> changed?, with a name, a level and a stage. Built-in and user passes are the
// same; the manager alone verifies, times, dumps, switches off and checks the returned "changed".

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
  early,   // on the graph as built: recognise patterns
  middle,  // cleanup; runs to a fixpoint
  late,    // composites are expanded: prepare for fusion
};

// What a pass may use besides the graph.
struct PassSettings {
  std::vector<int> frozen_inputs;  // graph inputs whose contents never change
  std::int64_t fold_limit = 4096;  // larger results are not computed by the interpreter
  // Runs a graph without inputs with compiled code: constants of any size can be folded. Null: they
  // stay.
  std::function<std::vector<HostTensor>(std::unique_ptr<Graph>)> compute = {};
};

class PassContext {
 public:
  // The top-level graph, also for passes over its subgraphs.
  PassContext(const Graph& graph, const PassSettings& settings)
      : graph_(graph), settings_(settings) {}

  const PassSettings& settings() const { return settings_; }
  // Whether the value is an input whose contents never change.
  bool is_frozen(const Value* value) const;

  // Records why something was or was not done, with its node.
  void remark(const Node& node, std::string_view reason);
  // Counts how often the pass changed something; shown in reports.
  void count(std::int64_t n = 1) { count_ += n; }
  std::int64_t counted() const { return count_; }
  // Counts matches, for passes that then decide; else the number of changes.
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
// The level of passes that run only if enabled by name.
constexpr int kOnRequest = kHighestLevel + 1;

struct Pass {
  std::string name;
  std::string summary;
  Stage stage = Stage::middle;
  int level = 1;  // runs at this level and above; 0: required for lowering
  std::function<bool(Graph&, PassContext&)> run;
  // Of a user pass: must change when its behaviour changes, so that compiled programs it took part
  // in may be cached. Empty: they are not cached.
  std::string version = {};
};

}  // namespace gex::passes
