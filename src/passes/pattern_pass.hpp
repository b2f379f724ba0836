#pragma once
// A pass from a pattern: what to find (a graph whose inputs are wildcards), when to replace it, and
// by what. The built-in fusions and users' own are made by this one function.

#include <functional>
#include <memory>
#include <string>

#include "ir/matcher.hpp"
#include "passes/pass.hpp"

namespace gex::passes {

struct PatternPass {
  std::string name;
  std::string summary;
  Stage stage = Stage::early;
  int level = 2;
  // In .gex text; types in it only have to be consistent, they do not take part in matching.
  std::string pattern;
  // Values of the pattern (by name) whose node may have any attributes.
  std::vector<std::string> any_attributes;
  std::function<bool(const Match&)> condition;  // may be empty
  std::function<std::vector<Value*>(Graph&, const Match&)> replacement;
};

Pass pattern_pass(PatternPass description);

}  // namespace gex::passes
