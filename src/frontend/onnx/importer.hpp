#pragma once
// Builds a Graph from an ONNX model. Each operator has a row: a function that makes nodes for one
// ONNX node (row.hpp, ops_*.cpp). Sizes are Dims, so models with symbolic sizes are imported
// directly.
//
// If a size, a branch or an iteration count depends on a value that is not known at import, the
// importer takes the next of the `answers` it was given, and throws ValueNeeded if there is none
// left: the caller (session.hpp) computes the value and imports again with one more answer.

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

// The value of an ONNX name during the import.
struct Item {
  enum class Kind { none, tensor, sequence, optional } kind = Kind::none;
  Elem elem = Elem::undefined;  // of tensors, and of the elements of sequences
  Value* value = nullptr;       // in the storage dtype
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
  // By position; absent: as in the model. Tensors of unknown rank need one.
  std::vector<std::optional<InputFact>> inputs;
  std::vector<HostTensor> answers;
  // Initialisers with at least this many elements become graph inputs after the model's own.
  std::int64_t weight_elements = INT64_MAX;
  // Initialisers read by earlier imports of the model; may be null.
  std::map<const TensorProto*, TensorPtr>* contents = nullptr;
};

struct Import {
  std::unique_ptr<Graph> graph;
  std::vector<Item> inputs, outputs;  // values are graph inputs, and outputs in order
  std::vector<std::string> input_names, output_names;
  std::vector<std::pair<int, TensorPtr>> weights;  // graph input, contents
};

// The value, in the graph so far, that decides how the import continues.
struct ValueNeeded {
  std::shared_ptr<Import> so_far;  // its graph has the value as its only output
  std::string why;
};

// UserError(unsupported) lists all operators that have no row, with the names of their nodes.
Import import_model(const std::shared_ptr<const ModelProto>& model,
                    const ImportOptions& options = {});
// Imports the model as one graph, for callers who run it themselves: a needed value is an error.
std::unique_ptr<Graph> import_graph(const std::shared_ptr<const ModelProto>& model,
                                    const ImportOptions& options = {});

// Only the inputs: names, memory types, sizes. UserError if one is not a tensor.
std::unique_ptr<Graph> signature_graph(const ModelProto& model);
// Inputs that are not initialisers, in order.
std::vector<const ValueInfo*> model_inputs(const ModelProto& model);

}  // namespace gex::onnx
