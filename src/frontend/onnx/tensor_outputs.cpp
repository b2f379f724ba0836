#include "frontend/onnx/tensor_outputs.hpp"

#include <algorithm>
#include <set>

#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/strings.hpp"

namespace gex::onnx {
namespace {

std::string listed(const std::vector<std::string>& words) {
  constexpr std::size_t kMost = 20;
  std::string out;
  for (std::size_t k = 0; k < words.size() && k < kMost; ++k) out += (k > 0 ? ", " : "") + words[k];
  return words.size() > kMost ? str(out, ", ... (", words.size(), ")") : out;
}

// The keys of ZipMap: the class labels in the order of the scores' columns.
std::vector<std::string> keys_of(const Item& keys) {
  std::vector<std::string> words;
  const Node* node = keys.value->producer();
  const auto values = std::get<TensorPtr>(node->attr("value"));
  for (std::int64_t k = 0; k < values->numel(); ++k) {
    const std::int64_t number = values->get_int(k);
    words.push_back(keys.elem == Elem::string ? string_of(number) : std::to_string(number));
  }
  return words;
}

// Strings that the model's nodes name as labels: an output of strings is made of them.
std::vector<std::string> labels_in(const ModelProto& model) {
  constexpr std::string_view kLabels[] = {"classlabels_strings", "values_strings",
                                          "classes_strings", "cats_strings", "keys_strings"};
  std::set<std::string> found;
  for (const NodeProto& node : model.graph.nodes)
    for (const AttributeProto& attribute : node.attributes)
      if (std::ranges::find(kLabels, attribute.name) != std::end(kLabels))
        found.insert(attribute.strings.begin(), attribute.strings.end());
  for (const TensorProto& tensor : model.graph.initialisers)
    if (tensor.elem == Elem::string) {
      const HostTensor numbers = tensor_of(&model, tensor);
      for (std::int64_t k = 0; k < numbers.numel(); ++k)
        found.insert(string_of(numbers.get_int(k)));
    }
  return {found.begin(), found.end()};
}

// Places in the list of labels; -1 for others.
Value* places(Graph& g, Value* strings, const std::vector<std::string>& labels) {
  Ints numbers;
  for (const std::string& label : labels) numbers.push_back(string_number(label));
  const auto count = static_cast<std::int64_t>(numbers.size());
  Expr table(g, ops::constant(g, HostTensor::of_i64({count}, numbers)));
  const Expr hit = unsqueeze(Expr(g, strings), strings->type().rank()) == table;
  const Expr place = (iota(g, Dim(count)) + 1) * hit.to(DType::i64);
  return sum(place, {hit.rank() - 1}) - 1;
}

bool is_map(const Item& item) {
  return item.kind == Item::Kind::sequence && item.items.size() == 2 &&
         item.items[0].kind == Item::Kind::tensor && item.items[1].kind == Item::Kind::tensor &&
         item.items[0].value->producer() != nullptr &&
         item.items[0].value->producer()->op().name == "constant";
}

void append_values(const Item& item, std::vector<Value*>& values) {
  if (item.value != nullptr) values.push_back(item.value);
  for (const Item& inner : item.items) append_values(inner, values);
}

}  // namespace

std::vector<std::string> make_tensor_outputs(Import& import, const ModelProto& model) {
  std::vector<std::string> notes;
  Graph& g = *import.graph;
  for (std::size_t k = 0; k < import.outputs.size(); ++k) {
    Item& item = import.outputs[k];
    const TypeProto& type = model.graph.outputs[k].type;
    const bool maps = type.inner && type.inner->kind == TypeProto::Kind::map;
    if (maps && is_map(item)) {
      notes.push_back(str(
          "output '", import.output_names[k],
          "' (maps) becomes a tensor with a column for each of: ", listed(keys_of(item.items[0]))));
      item = Item(item.items[1]);
    } else if (item.kind == Item::Kind::tensor && item.elem == Elem::string) {
      const std::vector<std::string> labels = labels_in(model);
      if (labels.empty()) continue;
      notes.push_back(str("output '", import.output_names[k],
                          "' (strings) becomes their places, from 0, in: ", listed(labels)));
      item = Item::tensor(places(g, item.value, labels), Elem::i64);
    }
  }
  if (notes.empty()) return notes;
  std::vector<Value*> values;
  for (const Item& item : import.outputs) append_values(item, values);
  g.set_outputs(values);
  return notes;
}

}  // namespace gex::onnx
