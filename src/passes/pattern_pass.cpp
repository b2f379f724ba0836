#include "passes/pattern_pass.hpp"

namespace gex::passes {

Pass pattern_pass(PatternPass description) {
  auto pattern = std::make_shared<Pattern>(Pattern::from(parse_graph(description.pattern)));
  for (const std::string& value : description.any_attributes) pattern->any_attr(value);
  Pass pass;
  pass.name = description.name;
  pass.summary = description.summary;
  pass.stage = description.stage;
  pass.level = description.level;
  pass.run = [pattern, condition = std::move(description.condition),
              replacement = std::move(description.replacement)](Graph& graph,
                                                                PassContext& context) {
    int count = 0;
    bool changed = apply_rewrite(graph, *pattern, condition, replacement, &count);
    context.count(count);
    return changed;
  };
  return pass;
}

}  // namespace gex::passes
