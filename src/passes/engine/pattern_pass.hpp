#pragma once
// A pass made of patterns: what to find (a graph whose inputs are wildcards), when to replace it,
// and the replacement. Used by built-in fusions and by users.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/matcher.hpp"
#include "passes/engine/pass.hpp"

namespace gex::passes {

struct PatternRule {
  // Types in it only have to be consistent; they are ignored in matching.
  std::unique_ptr<Graph> pattern;
  // Values of the pattern (by name) whose node may have any attributes.
  std::vector<std::string> any_attributes;
  bool any_constants = false;                   // its constants match any constants
  bool ignore_attributes = false;               // all its nodes may have any attributes
  std::function<bool(const Match&)> condition;  // may be empty
  std::function<std::vector<Value*>(Graph&, const Match&)> replacement;
};

struct PatternPass {
  std::string name;
  std::string summary;
  Stage stage = Stage::early;
  int level = 2;
  std::vector<PatternRule> rules;  // tried in order
};

// UserError for patterns that could never match.
Pattern compile_pattern(std::unique_ptr<Graph> graph, bool any_constants, bool any_attributes);

// UserError for patterns that could never match.
Pass pattern_pass(PatternPass description);

}  // namespace gex::passes
