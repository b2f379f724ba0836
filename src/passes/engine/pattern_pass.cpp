#include "passes/engine/pattern_pass.hpp"

#include "passes/splat.hpp"

namespace gex::passes {
namespace {

struct CompiledRule {
  CompiledRule(PatternRule rule)
      : pattern(
            compile_pattern(std::move(rule.pattern), rule.any_constants, rule.ignore_attributes)),
        condition(std::move(rule.condition)),
        replacement(std::move(rule.replacement)) {
    for (const std::string& value : rule.any_attributes) pattern.any_attr(value);
  }

  Pattern pattern;
  std::function<bool(const Match&)> condition;
  std::function<std::vector<Value*>(Graph&, const Match&)> replacement;
};

void refuse_what_never_matches(const Graph& pattern) {
  for (const Node& node : pattern.nodes()) {
    if (node.op().has(Trait::control) || !node.subgraphs().empty())
      fail(ErrorCode::invalid_argument, "pattern '", pattern.name(), "': ", node.op().name,
           " has subgraphs; a pattern must consist of plain ops");
    if (find_label(node.labels(), "after") != nullptr)
      fail(ErrorCode::invalid_argument, "pattern '", pattern.name(), "': ", node.op().name,
           " has a control edge, which a pattern can't have");
    for (std::size_t k = 0; k < node.num_outputs(); ++k)
      if (node.output(k)->type().is_token())
        fail(ErrorCode::invalid_argument, "pattern '", pattern.name(), "': ", node.op().name,
             " orders effects, which a pattern can't do");
  }
}

bool apply(Graph& graph, const CompiledRule& rule, int& replaced, int& matched) {
  bool changed =
      apply_rewrite(graph, rule.pattern, rule.condition, rule.replacement, &replaced, &matched);
  for (Node& node : graph.nodes())
    for (const auto& subgraph : node.subgraphs())
      changed |= apply(*subgraph, rule, replaced, matched);
  return changed;
}

}  // namespace

Pattern compile_pattern(std::unique_ptr<Graph> graph, bool any_constants, bool any_attributes) {
  refuse_what_never_matches(*graph);
  Pattern pattern = Pattern::from(std::move(graph));
  if (any_attributes) pattern.any_attrs();
  pattern.compare_constants(any_constants ? [](const Node&, const Node&) { return true; }
                                          : same_constant);
  return pattern;
}

Pass pattern_pass(PatternPass description) {
  auto rules = std::make_shared<std::vector<CompiledRule>>();
  for (PatternRule& rule : description.rules) rules->emplace_back(std::move(rule));
  Pass pass;
  pass.name = description.name;
  pass.summary = description.summary;
  pass.stage = description.stage;
  pass.level = description.level;
  pass.run = [rules](Graph& graph, PassContext& context) {
    bool changed = false;
    int replaced = 0, matched = 0;
    for (const CompiledRule& rule : *rules) changed |= apply(graph, rule, replaced, matched);
    context.count(replaced);
    context.matched(matched);
    return changed;
  };
  return pass;
}

}  // namespace gex::passes
