#pragma once
// A row's view of its node, and the table of rows.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/onnx/import_state.hpp"
#include "frontend/onnx/importer.hpp"
#include "ops/core/build.hpp"

namespace gex::onnx {

using ops::Dims;
using ops::Ints;
using Items = std::vector<Item>;

class Row {
 public:
  Row(ImportState& state, const NodeProto& node, std::int64_t opset, std::vector<Item> inputs);

  Graph& g;
  ImportState& state;
  const NodeProto& node;
  const std::int64_t opset;

  // --- inputs
  std::size_t num_inputs() const { return inputs_.size(); }
  bool has(std::size_t i) const {
    return i < inputs_.size() && inputs_[i].kind != Item::Kind::none;
  }
  const Item& item(std::size_t i) const;  // UserError if absent
  Value* in(std::size_t i) const;         // UserError unless a tensor
  Value* in_or_null(std::size_t i) const { return has(i) ? in(i) : nullptr; }
  Elem elem(std::size_t i = 0) const { return item(i).elem; }
  const Shape& shape(std::size_t i = 0) const { return in(i)->type().shape; }
  int rank(std::size_t i = 0) const { return in(i)->type().rank(); }
  DType dtype(std::size_t i = 0) const { return in(i)->type().dtype; }

  // --- values of inputs: from constants, else requested from the run
  const HostTensor& number(std::size_t i, const char* why) const;
  const HostTensor* known(std::size_t i) const;  // null if known only at run time
  Ints integers(std::size_t i, const char* why) const;
  std::int64_t integer(std::size_t i, const char* why) const;
  Dims dims(std::size_t i, const char* why) const;  // integers that may be symbolic

  // --- attributes
  const AttributeProto* find(std::string_view name) const;
  bool has_attr(std::string_view name) const { return find(name) != nullptr; }
  std::int64_t int_attr(std::string_view name, std::int64_t otherwise) const;
  double float_attr(std::string_view name, double otherwise) const;
  std::string string_attr(std::string_view name, std::string otherwise) const;
  Ints ints_attr(std::string_view name, Ints otherwise = {}) const;
  std::vector<double> floats_attr(std::string_view name) const;
  std::vector<std::string> strings_attr(std::string_view name) const;
  const GraphProto& graph_attr(std::string_view name) const;
  HostTensor tensor_attr(std::string_view name) const;
  std::int64_t axis_attr(std::string_view name, std::int64_t otherwise, int rank) const;

  std::size_t num_outputs() const { return node.outputs.size(); }
  bool wants(std::size_t k) const { return k < node.outputs.size() && !node.outputs[k].empty(); }

  // --- results
  Items one(Value* value) const { return {Item::tensor(value, elem(0))}; }
  Items one(Value* value, Elem elem) const { return {Item::tensor(value, elem)}; }
  Items wrapped(Value* value) const { return one(wrap(g, value, elem(0)), elem(0)); }

  // All attributes of the node, as a short text: equal for equal attributes.
  std::string attributes_key() const;
  // A call of a host function; `key` distinguishes functions with other attributes.
  std::vector<Value*> host_call(const std::string& key, std::vector<Value*> operands,
                                const std::vector<Type>& results,
                                runtime::HostFunction function) const;

  // A call of a kernel that every process has (runtime/session/user_kernels.hpp).
  Value* kernel_call(const std::string& kernel, const std::string& parameters,
                     std::vector<Value*> operands, const Type& result) const;

  [[noreturn]] void refuse(const std::string& why) const;  // UserError that names the node

 private:
  std::vector<Item> inputs_;
};

std::int64_t normal_axis(std::int64_t axis, int rank);

using RowFunction = std::function<Items(Row&)>;
// Rows of all families, by domain and operator.
const RowFunction* find_row(const std::string& domain, const std::string& op);
void add_row(const std::string& domain, const std::string& op, RowFunction row);
inline void add_row(const std::string& op, RowFunction row) { add_row("", op, std::move(row)); }

void add_elementwise_rows();
void add_cast_rows();
void add_shape_rows();
void add_gather_rows();
void add_reduce_rows();
void add_matmul_rows();
void add_conv_rows();
void add_pool_rows();
void add_norm_rows();
void add_loss_rows();
void add_attention_rows();
void add_recurrent_rows();
void add_quant_rows();
void add_resize_rows();
void add_signal_rows();
void add_control_rows();
void add_sequence_rows();
void add_select_rows();
void add_string_rows();
void add_ml_rows();
void add_training_rows();
void add_microsoft_rows();
void add_microsoft_attention_rows();
void add_image_rows();

}  // namespace gex::onnx
