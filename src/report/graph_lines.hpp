#pragma once
// The nodes of a printed graph, read off its text: what a picture of the graph needs, also for
// graphs whose constants are abbreviated and whose ops this process does not know.

#include <string>
#include <string_view>
#include <vector>

namespace gex::report {

struct ValueLine {
  std::string name, type;
  int producer = -1;  // node; -1: an input of its graph
};

struct NodeLine {
  std::string op, attributes, location;
  std::vector<int> inputs, outputs;  // values; -1: an optional input that is left out
  int parent = -1;                   // the node in whose subgraph it stands
};

struct GraphLines {
  std::string name;
  std::vector<ValueLine> values;
  std::vector<NodeLine> nodes;       // in the order of the text
  std::vector<int> inputs, outputs;  // values of the outermost graph
};

// UserError(parse_error) where the text is not what print() writes.
GraphLines read_lines(std::string_view text);

}  // namespace gex::report
