#pragma once
// A pass that replaces single nodes of given ops by graphs.

#include <functional>
#include <string>
#include <vector>

#include "passes/engine/pass.hpp"

namespace gex::passes {

struct DecomposePass {
  std::string name;
  std::string summary;
  Stage stage = Stage::early;
  int level = 2;
  std::vector<std::string> ops;
  std::function<bool(Node&)> condition;  // may be empty
  // Adds nodes before the current node and returns a value for each of its results.
  std::function<std::vector<Value*>(Graph&, Node&)> replacement;
};

// UserError for ops that don't exist.
Pass decompose_pass(DecomposePass description);

}  // namespace gex::passes
