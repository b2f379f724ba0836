// User passes through gex.h.

#include <algorithm>

#include "frontend/capi/boundary.hpp"
#include "frontend/capi/convert.hpp"
#include "frontend/capi/match.hpp"
#include "passes/engine/decompose_pass.hpp"
#include "passes/engine/pattern_pass.hpp"
#include "passes/engine/user_passes.hpp"
#include "passes/pipeline.hpp"

using namespace gex;
using namespace gex::capi;

namespace {

// Converts a callback's failure to an exception.
void check_callback(gex_status status) {
  if (status == GEX_OK) return;
  const std::string message = gex_last_error();
  const bool known = status > GEX_OK && status <= GEX_INTERNAL;
  fail(known ? static_cast<ErrorCode>(status - 1) : ErrorCode::invalid_argument,
       message.empty() ? "it failed without a message (set one with gex_fail)" : message);
}

// The callbacks of one pass. Copies share `user`, which is freed with the last of them.
class Callbacks {
 public:
  explicit Callbacks(const gex_pass& pass)
      : name_(pass.name == nullptr ? "" : pass.name),
        condition_(pass.condition),
        replacement_(pass.replacement),
        run_(pass.run),
        user_(pass.user, [release = pass.release](void* user) {
          if (release != nullptr) release(user);
        }) {}

  bool agrees(Graph& graph, const std::function<gex_match(gex_graph&)>& make) const {
    if (condition_ == nullptr) return true;
    BorrowedGraph borrowed(graph);
    const gex_match match = make(borrowed.handle());
    std::int32_t agrees = 0;
    check_callback(condition_(user_.get(), &borrowed.handle(), &match, &agrees));
    return agrees != 0;
  }

  std::vector<Value*> replace(Graph& graph,
                              const std::function<gex_match(gex_graph&)>& make) const {
    Node* const place = graph.insertion_point();
    Node* const before = place == nullptr ? graph.last() : place->prev();
    const std::string location = str(graph.current_location(), "(pass ", name_, ")");
    BorrowedGraph borrowed(graph);
    const gex_match match = make(borrowed.handle());
    const std::size_t inputs = graph.inputs().size();
    std::vector<gex_value> outputs(match.outputs.size(), GEX_NO_VALUE);
    check_callback(
        replacement_(user_.get(), &borrowed.handle(), &match, outputs.data(), outputs.size()));
    check_inputs(graph, inputs);
    for (Node* node = before == nullptr ? graph.first() : before->next();
         node != nullptr && node != place; node = node->next())
      if (node->location().empty()) node->set_location(location);
    std::vector<Value*> values;
    for (std::size_t k = 0; k < outputs.size(); ++k)
      values.push_back(borrowed.handle().value(outputs[k], str("replacement ", k).c_str()));
    return values;
  }

  bool run(Graph& graph) const {
    BorrowedGraph borrowed(graph);
    std::int32_t changed = 0;
    const std::size_t inputs = graph.inputs().size();
    const gex_status status = run_(user_.get(), &borrowed.handle(), &changed);
    graph.insert_before(nullptr);
    check_callback(status);
    check_inputs(graph, inputs);
    return changed != 0;
  }

 private:
  // A pass must not change the inputs of a graph.
  static void check_inputs(const Graph& graph, std::size_t count) {
    if (graph.inputs().size() != count)
      fail(ErrorCode::invalid_argument,
           "it added an input; a pass can't change the inputs of a graph");
  }

  std::string name_;
  decltype(gex_pass::condition) condition_;
  decltype(gex_pass::replacement) replacement_;
  decltype(gex_pass::run) run_;
  std::shared_ptr<void> user_;
};

passes::Pass to_pattern_pass(const gex_pass& given, const Callbacks& callbacks) {
  required(given.patterns, "patterns");
  passes::PatternPass pass;
  for (std::size_t k = 0; k < given.pattern_count; ++k) {
    const gex_pattern& pattern = given.patterns[k];
    passes::PatternRule rule;
    rule.pattern = required(pattern.graph, "a pattern's graph").graph->clone();
    rule.any_constants = given.any_constants != 0;
    rule.ignore_attributes = given.any_attributes != 0;
    auto captures = std::make_shared<const std::vector<Capture>>(captures_of(pattern));
    rule.condition = [callbacks, captures](const Match& found) {
      return callbacks.agrees(found.outputs[0]->graph(),
                              [&](gex_graph& graph) { return match_of(graph, found, *captures); });
    };
    rule.replacement = [callbacks, captures](Graph& graph, const Match& found) {
      return callbacks.replace(
          graph, [&](gex_graph& handle) { return match_of(handle, found, *captures); });
    };
    pass.rules.push_back(std::move(rule));
  }
  if (pass.rules.empty()) fail(ErrorCode::invalid_argument, "the pass has no pattern");
  return passes::pattern_pass(std::move(pass));
}

passes::Pass to_decompose_pass(const gex_pass& given, const Callbacks& callbacks) {
  passes::DecomposePass pass;
  require_list(given.ops, given.op_count, "ops");
  for (std::size_t k = 0; k < given.op_count; ++k)
    pass.ops.push_back(&required(given.ops[k], "an op"));
  pass.condition = [callbacks](Node& node) {
    return callbacks.agrees(node.graph(),
                            [&](gex_graph& handle) { return match_of(handle, node); });
  };
  pass.replacement = [callbacks](Graph& graph, Node& node) {
    return callbacks.replace(graph, [&](gex_graph& handle) { return match_of(handle, node); });
  };
  return passes::decompose_pass(std::move(pass));
}

passes::Pass to_graph_pass(const Callbacks& callbacks) {
  passes::Pass pass;
  pass.run = [callbacks](Graph& graph, passes::PassContext& context) {
    const bool changed = callbacks.run(graph);
    context.count(changed ? 1 : 0);
    return changed;
  };
  return pass;
}

passes::Pass to_pass(const gex_pass& given) {
  const Callbacks callbacks(given);  // first: it frees `user` if the rest fails
  const std::string name = &required(given.name, "name");
  const passes::Stage stage = passes::stage_of(given.stage == nullptr ? "early" : given.stage);
  if (given.level < 0 || given.level > passes::kOnRequest)
    fail(ErrorCode::invalid_argument, "level is ", given.level,
         "; levels are 0 to 3, and 4 for a "
         "pass that runs only if enabled by name");
  if (given.kind == GEX_PASS_GRAPH ? given.run == nullptr : given.replacement == nullptr)
    fail(ErrorCode::invalid_argument, given.kind == GEX_PASS_GRAPH ? "run" : "replacement",
         " is NULL; the pass needs it");
  passes::Pass pass;
  switch (given.kind) {
    case GEX_PASS_PATTERN:
      pass = to_pattern_pass(given, callbacks);
      break;
    case GEX_PASS_DECOMPOSE:
      pass = to_decompose_pass(given, callbacks);
      break;
    case GEX_PASS_GRAPH:
      pass = to_graph_pass(callbacks);
      break;
    default:
      fail(ErrorCode::invalid_argument, "kind is ", given.kind,
           "; kinds are 0 (pattern), 1 (decompose) and 2 (graph)");
  }
  pass.name = name;
  pass.summary = given.summary == nullptr ? "" : given.summary;
  pass.stage = stage;
  pass.level = given.level;
  pass.version = given.version == nullptr ? "" : given.version;
  return pass;
}

std::string describe(const passes::Pass& pass) {
  return str(pass.name, "  ", passes::name_of(pass.stage), "  O", pass.level, "  ", pass.summary,
             "\n");
}

}  // namespace

extern "C" {

gex_status gex_pass_register(const gex_pass* pass) {
  return guarded([&] {
    const gex_pass defaults = GEX_PASS_INIT;
    const gex_pass given = read_versioned(pass, defaults, offsetof(gex_pass, version), "pass");
    const std::string name = given.name == nullptr ? "" : given.name;
    try {
      passes::register_user_pass(to_pass(given));
    } catch (const UserError& error) {
      fail(error.code(), "pass ", name, ": ", error.what());
    }
  });
}

gex_status gex_pass_unregister(const char* name) {
  return guarded([&] { passes::unregister_user_pass(&required(name, "name")); });
}

gex_status gex_list_passes(char** text) {
  return guarded([&] {
    std::string list;
    for (const passes::Pass& pass : passes::builtin_passes()) list += describe(pass);
    for (const passes::Pass& pass : *passes::user_passes()) list += describe(pass);
    give_text(list, text);
  });
}

gex_status gex_load_plugins(const char* list) {
  return guarded([&] { passes::load_plugins(&required(list, "list")); });
}

void gex_plugin_failed(const char* message) {
  passes::note_failed_registration(message == nullptr ? "a pass could not be registered" : message);
}

}  // extern "C"
