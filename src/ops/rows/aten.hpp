#pragma once
// An ATen call as seen by the rows in the op definitions. The importer (frontend/fx) fills it from
// an FX node: arguments in schema order with defaults, tensors already imported as Values.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/graph.hpp"
#include "ops/rows/aten_facts.hpp"

namespace gex {

struct AtenArg {
  // none | tensor | bool | int (possibly symbolic) | float | string | dtype | list
  std::variant<std::monostate, Value*, bool, Dim, double, std::string, DType, std::vector<AtenArg>>
      v;

  bool is_none() const { return std::holds_alternative<std::monostate>(v); }
  bool is_tensor() const { return std::holds_alternative<Value*>(v); }
  bool is_list() const { return std::holds_alternative<std::vector<AtenArg>>(v); }
};

class AtenCall {
 public:
  AtenCall(Graph& graph, std::string overload, std::vector<AtenArg> args, std::vector<Type> results)
      : graph_(graph),
        overload_(std::move(overload)),
        args_(std::move(args)),
        results_(std::move(results)) {}

  Graph& graph() { return graph_; }
  const std::string& overload() const { return overload_; }
  std::size_t size() const { return args_.size(); }
  const AtenArg& arg(std::size_t i) const { return args_[i]; }
  bool none(std::size_t i) const { return i >= args_.size() || args_[i].is_none(); }

  Value* tensor(std::size_t i) const;                // UserError if not a tensor
  std::vector<Value*> tensors(std::size_t i) const;  // a list; absent entries are null
  bool flag(std::size_t i) const;
  Dim dim(std::size_t i) const;               // int, maybe symbolic
  std::int64_t integer(std::size_t i) const;  // constant int; UserError if symbolic
  double number(std::size_t i) const;         // int, float or bool, constant
  bool is_constant_number(std::size_t i) const;
  DType dtype(std::size_t i) const;
  const std::string& string(std::size_t i) const;
  std::vector<Dim> dims(std::size_t i) const;  // int[] ; a lone int is a list of one
  std::vector<std::int64_t> integers(std::size_t i) const;

  // PyTorch's fake results: dtype, shape, strides.
  const std::vector<Type>& results() const { return results_; }
  const Type& result(std::size_t i = 0) const { return results_[i]; }

  // A size that the call finds in its data (i64 scalar) and that the trace already knows as another
  // one, because the program asserts it or combines the result with another tensor.
  void expect_size(Value* found, Dim size) { expected_sizes_.push_back({found, size}); }
  const std::vector<std::pair<Value*, Dim>>& expected_sizes() const { return expected_sizes_; }

 private:
  Graph& graph_;
  std::string overload_;
  std::vector<AtenArg> args_;
  std::vector<Type> results_;
  std::vector<std::pair<Value*, Dim>> expected_sizes_;
};

// Rows of all ops, by overload name ("aten.add.Tensor"). Null if there is none.
const AtenRow* find_aten_row(std::string_view overload);
std::vector<std::string> all_aten_overloads();
// For overloads that are compositions without an op of their own. Two rows for one name are a bug.
void register_aten_row(std::string overload, std::function<std::vector<Value*>(AtenCall&)> import);

}  // namespace gex
