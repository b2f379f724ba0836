#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "ir/suggest.hpp"
#include "passes/pipeline.hpp"

namespace gex::passes {

void PassContext::remark(const Node& node, std::string_view reason) {
  const std::string& at = node.location();
  remarks_.push_back(str(node.op().name, at.empty() ? "" : " at ", at, ": ", reason));
}

namespace {

struct UserPasses {
  std::mutex mutex;
  std::vector<Pass> passes;
};

UserPasses& user_passes() {
  static UserPasses registry;
  return registry;
}

std::vector<Pass> all_passes() {
  std::vector<Pass> passes = builtin_passes();
  UserPasses& user = user_passes();
  std::lock_guard lock(user.mutex);
  passes.insert(passes.end(), user.passes.begin(), user.passes.end());
  return passes;
}

const Pass& find(const std::vector<Pass>& passes, const std::string& name) {
  for (const Pass& pass : passes) {
    if (pass.name == name) return pass;
  }
  std::string known;
  std::vector<std::string_view> names;
  for (const Pass& pass : passes) {
    known += (known.empty() ? "" : ", ") + pass.name;
    names.push_back(pass.name);
  }
  fail(ErrorCode::not_found, "no pass is called \"", name, "\"", suggestion(name, names),
       " There are: ", known);
}

class Manager {
 public:
  Manager(Graph& graph, const PipelineOptions& options) : graph_(graph), options_(options) {}

  PipelineReport run() {
    std::vector<Pass> passes = all_passes();
    for (const std::string& name : options_.disabled) find(passes, name);
    if (!options_.only.empty()) {
      for (const std::string& name : options_.only) run_pass(find(passes, name));
      return std::move(report_);
    }
    for (const Pass& pass : passes) {
      if (pass.stage == Stage::early) run_pass(pass);
    }
    fixpoint(passes, Stage::middle);
    for (const Pass& pass : passes) {
      if (pass.stage == Stage::late) run_pass(pass);
    }
    return std::move(report_);
  }

 private:
  bool enabled(const Pass& pass) const {
    return pass.level <= options_.level &&
           std::find(options_.disabled.begin(), options_.disabled.end(), pass.name) ==
               options_.disabled.end();
  }

  void fixpoint(const std::vector<Pass>& passes, Stage stage) {
    std::set<std::string> alternating;
    for (int round = 0; round < options_.fixpoint_limit; ++round) {
      alternating.clear();
      for (const Pass& pass : passes) {
        if (pass.stage == stage && run_pass(pass)) alternating.insert(pass.name);
      }
      if (alternating.empty()) return;
    }
    std::string names;
    for (const std::string& name : alternating) names += (names.empty() ? "" : ", ") + name;
    fail(ErrorCode::internal, "passes keep changing the graph after ", options_.fixpoint_limit,
         " rounds: ", names, "; switch one of them off to go on");
  }

  bool run_pass(const Pass& pass) {
    if (options_.only.empty() && !enabled(pass)) return false;
    Hash before = options_.check_changed ? structural_hash(graph_) : 0;
    PassContext context;
    auto start = std::chrono::steady_clock::now();
    bool changed = pass.run(graph_, context);
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (options_.check_changed && changed != (structural_hash(graph_) != before)) {
      fail(ErrorCode::internal, "pass ", pass.name, " says it ",
           changed ? "changed" : "did not change", " the graph, but it ",
           changed ? "did not" : "did");
    }
    if (changed && options_.verify) verify(graph_);
    if (changed && !options_.dump_dir.empty()) dump(pass);
    report_.passes.push_back({pass.name, changed, context.counted(), seconds});
    for (std::string& remark : context.remarks())
      report_.remarks.push_back(pass.name + ": " + remark);
    return changed;
  }

  void dump(const Pass& pass) {
    std::filesystem::create_directories(options_.dump_dir);
    std::string number = std::to_string(dumped_++);
    number.insert(0, 3 - std::min<std::size_t>(3, number.size()), '0');
    std::filesystem::path path =
        std::filesystem::path(options_.dump_dir) / (number + "_after_" + pass.name + ".gex");
    std::ofstream file(path);
    file << print(graph_);
    if (!file) fail(ErrorCode::io_error, "could not write ", path.string());
  }

  Graph& graph_;
  const PipelineOptions& options_;
  PipelineReport report_;
  int dumped_ = 0;
};

}  // namespace

PipelineReport run_pipeline(Graph& graph, const PipelineOptions& options) {
  return Manager(graph, options).run();
}

void register_pass(Pass pass) {
  if (pass.name.empty() || !pass.run)
    fail(ErrorCode::invalid_argument, "a pass needs a name and a function");
  for (const Pass& known : all_passes()) {
    if (known.name == pass.name)
      fail(ErrorCode::invalid_argument, "a pass called \"", pass.name, "\" exists already");
  }
  UserPasses& user = user_passes();
  std::lock_guard lock(user.mutex);
  user.passes.push_back(std::move(pass));
}

}  // namespace gex::passes
