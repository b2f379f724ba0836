#include <algorithm>
#include <chrono>
#include <set>

#include "passes/engine/dump.hpp"
#include "passes/engine/switches.hpp"
#include "passes/engine/user_passes.hpp"
#include "passes/pipeline.hpp"

namespace gex::passes {

void PassContext::remark(const Node& node, std::string_view reason) {
  const std::string& at = node.location();
  remarks_.push_back(str(node.op().name, at.empty() ? "" : " at ", at, ": ", reason));
}

bool PassContext::is_frozen(const Value* value) const {
  const std::vector<int>& frozen = settings_.frozen_inputs;
  return value->is_input() && &value->graph() == &graph_ &&
         std::ranges::find(frozen, value->index()) != frozen.end();
}

namespace {

std::vector<Pass> with_users(const std::vector<Pass>& users) {
  std::vector<Pass> passes = builtin_passes();
  passes.insert(passes.end(), users.begin(), users.end());
  return passes;
}

class Manager {
 public:
  Manager(Graph& graph, const PipelineOptions& options)
      : graph_(graph),
        options_(options),
        users_(user_passes()),
        all_(with_users(*users_)),
        switches_(options, all_),
        dumper_(graph, options) {
    for (const std::string& name : options.dump_passes) find_pass(all_, name);
  }

  PipelineReport run() {
    if (!options_.only.empty()) {
      for (const std::string& name : options_.only) run_pass(find_pass(all_, name));
    } else {
      run_users(Stage::early);
      for (const Pass& pass : builtin_passes())
        if (pass.stage == Stage::early) run_if_on(pass);
      clean_up();
      if (run_users(Stage::middle)) clean_up();
      run_late();
    }
    dumper_.statistics(graph_, report_);
    return std::move(report_);
  }

 private:
  bool run_users(Stage stage) {
    bool changed = false;
    for (const Pass& pass : *users_)
      if (pass.stage == stage) changed |= run_if_on(pass);
    return changed;
  }

  // Composites are expanded before the users' late passes, and again if those made new ones.
  void run_late() {
    run_late(true);
    if (run_users(Stage::late)) run_late(true);
    run_late(false);
  }
  void run_late(bool required) {
    for (const Pass& pass : builtin_passes())
      if (pass.stage == Stage::late && (pass.level == 0) == required) run_if_on(pass);
  }

  // The middle stage, until nothing changes.
  void clean_up() {
    std::set<std::string> alternating;
    for (int round = 0; round < options_.fixpoint_limit; ++round) {
      alternating.clear();
      for (const Pass& pass : builtin_passes())
        if (pass.stage == Stage::middle && run_if_on(pass)) alternating.insert(pass.name);
      if (alternating.empty()) return;
    }
    std::string names;
    for (const std::string& name : alternating) names += (names.empty() ? "" : ", ") + name;
    fail(ErrorCode::internal, "passes keep changing the graph after ", options_.fixpoint_limit,
         " rounds: ", names, "; switch one of them off to go on");
  }

  bool run_if_on(const Pass& pass) { return switches_.on(pass) && run_pass(pass); }

  bool run_pass(const Pass& pass) {
    dumper_.before(pass, graph_);
    const Hash before = options_.check_changed ? structural_hash(graph_) : 0;
    PassContext context(graph_, options_.settings);
    const auto nodes_before = static_cast<std::int64_t>(graph_.num_nodes());
    const auto start = std::chrono::steady_clock::now();
    bool changed = false;
    try {
      changed = pass.run(graph_, context);
      if (changed && options_.verify) verify(graph_);
    } catch (const UserError& error) {
      // Built-in passes raise no user errors of their own: the message is about the user's graph.
      const bool users_own =
          std::ranges::any_of(*users_, [&](const Pass& own) { return own.name == pass.name; });
      if (!users_own) throw;
      fail(error.code(), "pass ", pass.name, ": ", error.what());
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (options_.check_changed && changed != (structural_hash(graph_) != before)) {
      fail(ErrorCode::internal, "pass ", pass.name, " says it ",
           changed ? "changed" : "did not change", " the graph, but it ",
           changed ? "did not" : "did");
    }
    dumper_.after(pass, graph_, changed);
    report_.passes.push_back({pass.name, changed, context.matches(), context.counted(), seconds,
                              nodes_before, static_cast<std::int64_t>(graph_.num_nodes())});
    for (std::string& remark : context.remarks())
      report_.remarks.push_back(pass.name + ": " + remark);
    return changed;
  }

  Graph& graph_;
  const PipelineOptions& options_;
  PassSnapshot users_;
  std::vector<Pass> all_;
  Switches switches_;
  Dumper dumper_;
  PipelineReport report_;
};

}  // namespace

PipelineReport run_pipeline(Graph& graph, const PipelineOptions& options) {
  return Manager(graph, options).run();
}

}  // namespace gex::passes
