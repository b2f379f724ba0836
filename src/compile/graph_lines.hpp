#pragma once
// Reads the nodes of a printed graph from its text: enough to draw it. Also works if constants are
// abbreviated or ops are not registered in this process.

#include <string>
#include <string_view>
#include <vector>

namespace gex {

struct ValueLine {
  std::string name, type;
  int producer = -1;  // node; -1: an input of its graph
};

struct NodeLine {
  std::string op, attributes, location;
  std::vector<int> inputs, outputs;  // values; -1: an optional input that is left out
  int parent = -1;                   // the node whose subgraph contains it
};

struct GraphLines {
  std::string name;
  std::vector<ValueLine> values;
  std::vector<NodeLine> nodes;       // in the order of the text
  std::vector<int> inputs, outputs;  // values of the outermost graph
};

// UserError(parse_error) if the text was not written by print().
GraphLines read_lines(std::string_view text);

}  // namespace gex
