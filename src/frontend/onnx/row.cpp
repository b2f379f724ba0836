#include "frontend/onnx/row.hpp"

#include <bit>
#include <mutex>

#include "base/digest.hpp"
#include "frontend/onnx/operators.hpp"
#include "frontend/onnx/random.hpp"
#include "ops/call.hpp"
#include "runtime/session/user_kernels.hpp"

namespace gex::onnx {

Row::Row(ImportState& the_state, const NodeProto& the_node, std::int64_t the_opset,
         std::vector<Item> inputs)
    : g(the_state.graph()),
      state(the_state),
      node(the_node),
      opset(the_opset),
      inputs_(std::move(inputs)) {}

const Item& Row::item(std::size_t i) const {
  if (!has(i)) refuse(str("input ", i, " is missing"));
  return inputs_[i];
}

Value* Row::in(std::size_t i) const {
  const Item& found = item(i);
  // An optional with a tensor is treated as that tensor.
  if (found.kind == Item::Kind::optional && found.items.size() == 1 &&
      found.items[0].kind == Item::Kind::tensor)
    return found.items[0].value;
  if (found.kind != Item::Kind::tensor) refuse(str("input ", i, " is not a tensor"));
  return found.value;
}

const HostTensor* Row::known(std::size_t i) const { return has(i) ? state.known(in(i)) : nullptr; }

const HostTensor& Row::number(std::size_t i, const char* why) const {
  return state.need(in(i), str(node.op, " '", node.name, "': ", why));
}

Ints Row::integers(std::size_t i, const char* why) const {
  const HostTensor& tensor = number(i, why);
  Ints values;
  for (std::int64_t k = 0; k < tensor.numel(); ++k) values.push_back(tensor.get_int(k));
  return values;
}

std::int64_t Row::integer(std::size_t i, const char* why) const {
  const Ints values = integers(i, why);
  if (values.size() != 1) refuse(str(why, ": expected one number, got ", values.size()));
  return values[0];
}

Dims Row::dims(std::size_t i, const char* why) const {
  if (auto found = state.known_dims(in(i))) return *found;
  const Ints values = integers(i, why);
  return {values.begin(), values.end()};
}

const AttributeProto* Row::find(std::string_view name) const {
  for (const AttributeProto& a : node.attributes) {
    if (a.name != name) continue;
    if (a.reference.empty()) return &a;
    const auto* outer = state.current->attributes;
    if (outer == nullptr) return nullptr;
    const auto found = outer->find(a.reference);
    // A function's attribute without a value counts as absent.
    return found == outer->end() ? nullptr : found->second;
  }
  return nullptr;
}

std::int64_t Row::int_attr(std::string_view name, std::int64_t otherwise) const {
  const AttributeProto* a = find(name);
  return a != nullptr ? a->i : otherwise;
}
double Row::float_attr(std::string_view name, double otherwise) const {
  const AttributeProto* a = find(name);
  return a != nullptr ? a->f : otherwise;
}
std::string Row::string_attr(std::string_view name, std::string otherwise) const {
  const AttributeProto* a = find(name);
  return a != nullptr ? a->s : otherwise;
}
Ints Row::ints_attr(std::string_view name, Ints otherwise) const {
  const AttributeProto* a = find(name);
  return a != nullptr ? a->ints : otherwise;
}
std::vector<double> Row::floats_attr(std::string_view name) const {
  const AttributeProto* a = find(name);
  return a != nullptr ? a->floats : std::vector<double>{};
}
std::vector<std::string> Row::strings_attr(std::string_view name) const {
  const AttributeProto* a = find(name);
  return a != nullptr ? a->strings : std::vector<std::string>{};
}
const GraphProto& Row::graph_attr(std::string_view name) const {
  const AttributeProto* a = find(name);
  if (a == nullptr || !a->graph) refuse(str("attribute ", name, " is missing"));
  return *a->graph;
}
HostTensor Row::tensor_attr(std::string_view name) const {
  const AttributeProto* a = find(name);
  if (a == nullptr || !a->tensor) refuse(str("attribute ", name, " is missing"));
  return tensor_of(&state.model, *a->tensor);
}
std::int64_t Row::axis_attr(std::string_view name, std::int64_t otherwise, int rank) const {
  return normal_axis(int_attr(name, otherwise), rank);
}

std::string Row::attributes_key() const {
  Digester digester;
  const auto add_number = [&](double x) { digester.add(std::bit_cast<std::int64_t>(x)); };
  for (const AttributeProto& own : node.attributes) {
    const AttributeProto* a = find(own.name);
    if (a == nullptr) continue;
    digester.add(own.name).add(a->i).add(a->s);
    add_number(a->f);
    for (const std::int64_t i : a->ints) digester.add(i);
    for (const double f : a->floats) add_number(f);
    for (const std::string& s : a->strings) digester.add(s);
    if (!a->tensor) continue;
    const HostTensor tensor = tensor_of(&state.model, *a->tensor);
    for (const std::int64_t d : tensor.shape()) digester.add(d);
    digester.add(static_cast<std::int64_t>(tensor.dtype()));
    digester.add({reinterpret_cast<const char*>(tensor.data()), tensor.bytes()});
  }
  return digester.digest().hex();
}

std::vector<Value*> Row::host_call(const std::string& key, std::vector<Value*> operands,
                                   const std::vector<Type>& results,
                                   runtime::HostFunction function) const {
  const bool is_short = key.size() <= 64;
  const std::string name =
      str("onnx.", node.op, key.empty() ? "" : " ", is_short ? key : digest_of(key).hex());
  runtime::register_host_function(name, std::move(function));
  const auto attrs = ops::make_call(runtime::kHostCallee, name, results);
  const Node* call = g.add(op("call"), std::move(operands), attrs);
  std::vector<Value*> values;
  for (std::size_t k = 0; k < call->num_outputs(); ++k) values.push_back(call->output(k));
  return values;
}

Value* Row::kernel_call(const std::string& kernel, const std::string& parameters,
                        std::vector<Value*> operands, const Type& result) const {
  const std::string name = runtime::call_of_kernel(kernel, parameters);
  return g
      .add(op("call"), std::move(operands),
           ops::make_call(runtime::kHostCallee, name, std::span(&result, 1)))
      ->output(0);
}

void Row::refuse(const std::string& why) const { fail(ErrorCode::unsupported, why); }

std::int64_t normal_axis(std::int64_t axis, int rank) {
  const std::int64_t normal = axis < 0 ? axis + rank : axis;
  if (normal < 0 || normal >= rank)
    fail(ErrorCode::invalid_argument, "axis ", axis, " of a tensor with ", rank, " axes");
  return normal;
}

namespace {

using Key = std::pair<std::string, std::string>;

std::map<Key, RowFunction>& rows() {
  static std::map<Key, RowFunction> table;
  return table;
}

}  // namespace

void add_row(const std::string& domain, const std::string& op, RowFunction row) {
  const bool is_new = rows().emplace(Key{domain, op}, std::move(row)).second;
  GEX_CHECK(is_new, "two rows for ", domain, " ", op);
}

namespace {

void add_all_rows() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (auto* add : {add_elementwise_rows,
                      add_cast_rows,
                      add_shape_rows,
                      add_gather_rows,
                      add_reduce_rows,
                      add_matmul_rows,
                      add_conv_rows,
                      add_pool_rows,
                      add_norm_rows,
                      add_loss_rows,
                      add_attention_rows,
                      add_recurrent_rows,
                      add_quant_rows,
                      add_resize_rows,
                      add_signal_rows,
                      add_control_rows,
                      add_sequence_rows,
                      add_select_rows,
                      add_string_rows,
                      add_ml_rows,
                      add_training_rows,
                      add_microsoft_rows,
                      add_microsoft_attention_rows,
                      add_image_rows,
                      add_random_rows})
      add();
  });
}

}  // namespace

const RowFunction* find_row(const std::string& domain, const std::string& op) {
  add_all_rows();
  const auto found = rows().find({domain, op});
  return found == rows().end() ? nullptr : &found->second;
}

std::vector<std::pair<std::string, std::string>> known_operators() {
  add_all_rows();
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [key, row] : rows()) names.push_back(key);
  return names;
}

}  // namespace gex::onnx
