#pragma once
// Builds a Graph from an ONNX model. Each operator has a row: a function that makes nodes for one
// ONNX node (row.hpp, ops_*.cpp). Sizes are Dims, so models with symbolic sizes import as they are.
//
// Where a size, a branch or a number of turns depends on a value that is not known at import, the
// importer takes the next of the `answers` it was given, and throws ValueNeeded when there is none
// left: whoever runs the model (session.hpp) computes the value, and imports again with one answer
// more.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/onnx/elem.hpp"
#include "frontend/onnx/model.hpp"
#include "ir/graph.hpp"

namespace gex::onnx {

// What an ONNX name stands for while importing.
struct Item {
  enum class Kind { none, tensor, sequence, optional } kind = Kind::none;
  Elem elem = Elem::undefined;  // of tensors, and of the elements of sequences
  Value* value = nullptr;       // carrier
  std::vector<Item> items;      // of a sequence; an optional holds one or none

  static Item tensor(Value* value, Elem elem) { return {Kind::tensor, elem, value, {}}; }
};

// What is known about an input of the model before the import.
struct InputFact {
  Item::Kind kind = Item::Kind::tensor;
  Elem elem = Elem::undefined;
  std::optional<Shape> shape;    // of tensors
  std::vector<InputFact> items;  // of sequences and optionals
};

struct ImportOptions {
  // By position; nothing: what the model says. Tensors whose rank the model does not tell need one.
  std::vector<std::optional<InputFact>> inputs;
  std::vector<HostTensor> answers;
  // Initialisers with at least so many elements become graph inputs behind the model's own.
  std::int64_t weight_elements = INT64_MAX;
  // Initialisers that earlier imports of the model have read; may be null.
  std::map<const TensorProto*, TensorPtr>* contents = nullptr;
};

struct Import {
  std::unique_ptr<Graph> graph;
  std::vector<Item> inputs, outputs;  // values are graph inputs, and outputs in order
  std::vector<std::string> input_names, output_names;
  std::vector<std::pair<int, TensorPtr>> weights;  // graph input, contents
};

// The value, in `graph` so far, that decides how the import goes on.
struct ValueNeeded {
  std::shared_ptr<Import> so_far;  // its graph has the value as its only output
  std::string why;
};

// UserError(unsupported) lists all operators that have no row, with the names of their nodes.
Import import_model(const std::shared_ptr<const ModelProto>& model,
                    const ImportOptions& options = {});
// The same as one graph, for callers who run it themselves: a value that would be needed is an
// error.
std::unique_ptr<Graph> import_graph(const std::shared_ptr<const ModelProto>& model,
                                    const ImportOptions& options = {});

// The inputs alone: names, types of memory, sizes. UserError if one is no tensor.
std::unique_ptr<Graph> signature_graph(const ModelProto& model);
// Inputs that are not initialisers, in order.
std::vector<const ValueInfo*> model_inputs(const ModelProto& model);

}  // namespace gex::onnx
