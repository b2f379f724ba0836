#pragma once
// Builds a Graph from the nodes of a traced PyTorch program. The caller (the Python package) passes
// one node at a time as (overload, arguments in schema order, fake results, the user's line); the
// rows in the op definitions determine what it becomes. Knows nothing of Python.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.hpp"
#include "ops/rows/aten.hpp"

namespace gex::fx {

// A call through the framework that made the trace, for nodes without a row.
struct CallSpec {
  std::string name;         // what is called, for reports and errors
  std::int64_t callee = 0;  // number in the caller's table of callees
  std::vector<Value*> operands;
  // For each operand the strides it must have; absent: any.
  std::vector<std::optional<std::vector<Dim>>> operand_strides;
  std::vector<Dim> integers;  // evaluated at each run and passed along
  std::vector<Type> results;  // with the strides of the fake results
  std::vector<int> written;   // operands that it writes; the last results are their new contents
  bool ordered = false;       // has an effect: stays in order with other such calls
};

struct NodeOutcome {
  std::optional<std::vector<Value*>> values;  // nothing: no row accepted it
  std::string reason;                         // why not
};

class Importer {
 public:
  explicit Importer(std::string name);

  Value* add_input(Type type, std::string name);
  Value* add_constant(HostTensor tensor);
  Value* add_dim(Dim value);  // a size as a 0-d i64 tensor

  // Leaves the graph unchanged if no row accepts the call. A result that PyTorch does not return
  // (None) has a token as its type.
  NodeOutcome add_node(const std::string& overload, std::vector<AtenArg> args,
                       std::vector<Type> results, const std::string& location);
  // Of the last add_node that succeeded: sizes found in data (i64 scalars) and what they must be.
  // The caller adds the checks.
  const std::vector<std::pair<Value*, Dim>>& expected_sizes() const { return expected_sizes_; }
  // Everything added after a mark can be removed as long as it contains no ordered call.
  Node* mark() const { return graph_->last(); }
  void rollback(Node* mark);
  // Adds these labels to everything added after a mark, unless already set.
  void label(Node* mark, const Labels& labels);

  std::vector<Value*> add_call(const CallSpec& spec, const std::string& location);
  // Binds `symbol` to element 0 of `value`.
  Value* add_bind(Value* value, Dim symbol, const std::string& location);

  // Control flow. Finishes the importers of the regions; their inputs are, in order, `inputs`.
  // UserError if the types don't match; the graph is then unchanged.
  std::vector<Value*> add_if(Value* condition, std::vector<Value*> inputs, Importer& yes,
                             Importer& no, const std::string& location);
  // The first `carried` inputs are replaced by the body.
  std::vector<Value*> add_while(std::vector<Value*> inputs, int carried, Importer& condition,
                                Importer& body, const std::string& location);

  // A call that raises unless the condition holds. Its results are not used.
  void add_check(Value* condition, const CallSpec& on_failure, const std::string& location);
  // Copies the nodes of a body in place of a call to it; the body can be used again. Locations of
  // the copy name module `now` where those of the body name `traced_for` or a module inside it.
  std::vector<Value*> add_copy_of(const Importer& body, std::vector<Value*> inputs,
                                  std::string_view traced_for = {}, std::string_view now = {});

  // Adds an output and returns its number; strides are those promised to the caller (absent:
  // dense).
  int add_output(Value* value, std::optional<std::vector<Dim>> strides);
  // Sets the new value of an input that the program mutates.
  void tie(Value* value, int input);

  const Graph& graph() const { return *graph_; }
  std::unique_ptr<Graph> finish();  // verified; the importer is empty afterwards

 private:
  std::vector<Value*> add_region_op(const char* op_name, std::vector<Value*> inputs, AttrList attrs,
                                    Importer& first, Importer& second, const std::string& location);

  std::unique_ptr<Graph> graph_;
  std::vector<std::pair<Value*, Dim>> expected_sizes_;
  Value* token_ = nullptr;  // of the last ordered call
};

}  // namespace gex::fx
