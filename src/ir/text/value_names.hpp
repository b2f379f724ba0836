#pragma once
// Names of the values of one graph in printed forms: their own names made unique, numbers for the
// others.

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph.hpp"

namespace gex {

class ValueNames {
 public:
  explicit ValueNames(const Graph& graph);

  // Values of another graph are an error, but a message must still be able to print them.
  const std::string& of(const Value& value) const;

 private:
  void define(const Value& value);
  std::string unique(std::string name);

  std::unordered_map<const Value*, std::string> names_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> copies_;
  int next_ = 0;
};

}  // namespace gex
