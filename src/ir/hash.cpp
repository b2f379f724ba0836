#include <unordered_map>

#include "ir/graph.hpp"

namespace gex {
namespace {

// Numbers every value by its position in the text, so that equal graphs have equal numbers.
class Numbering {
 public:
  void define(const Value* value) { ids_.emplace(value, ids_.size() + 1); }
  std::size_t operator()(const Value* value) const {
    if (value == nullptr) return 0;
    auto it = ids_.find(value);
    return it == ids_.end() ? ~std::size_t{0} : it->second;
  }

 private:
  std::unordered_map<const Value*, std::size_t> ids_;
};

Hash hash_of(const Type& type) {
  Hash hash = hash_combine(static_cast<Hash>(type.kind), static_cast<Hash>(type.dtype));
  auto add = [&](const std::vector<Dim>& dims) {
    hash = hash_combine(hash, dims.size());
    for (Dim d : dims) hash = hash_combine(hash, d.hash());
  };
  add(type.shape);
  if (type.strides) {
    hash = hash_combine(hash, 1);
    add(*type.strides);
  }
  return hash;
}

bool equal_nodes(const Node& a, const Node& b, const Numbering& id_a, const Numbering& id_b) {
  if (&a.op() != &b.op() || a.inputs().size() != b.inputs().size() ||
      a.num_outputs() != b.num_outputs() || a.attrs().size() != b.attrs().size() ||
      a.subgraphs().size() != b.subgraphs().size())
    return false;
  for (std::size_t i = 0; i < a.inputs().size(); ++i)
    if (id_a(a.input(i)) != id_b(b.input(i))) return false;
  for (std::size_t i = 0; i < a.num_outputs(); ++i)
    if (a.output(i)->type() != b.output(i)->type()) return false;
  for (std::size_t i = 0; i < a.attrs().size(); ++i)
    if (!attr_equal(a.attrs()[i], b.attrs()[i])) return false;
  for (std::size_t i = 0; i < a.subgraphs().size(); ++i)
    if (!structurally_equal(*a.subgraphs()[i], *b.subgraphs()[i])) return false;
  return labels_equal(a.labels(), b.labels());
}

}  // namespace

Hash structural_hash(const Graph& graph) {
  Numbering id;
  Hash hash = graph.inputs().size();
  auto add = [&](Hash part) { hash = hash_combine(hash, part); };
  for (const auto& input : graph.inputs()) {
    id.define(input.get());
    add(hash_of(input->type()));
  }
  for (const Node& node : graph.nodes()) {
    add(hash_text(node.op().name));
    add(node.inputs().size());
    for (const Value* value : node.inputs()) add(id(value));
    for (const AttrValue& value : node.attrs()) add(attr_hash(value));
    if (!node.labels().empty()) add(labels_hash(node.labels()));
    add(node.subgraphs().size());
    for (const auto& sub : node.subgraphs()) add(structural_hash(*sub));
    add(node.num_outputs());
    for (std::size_t i = 0; i < node.num_outputs(); ++i) {
      id.define(node.output(i));
      add(hash_of(node.output(i)->type()));
    }
  }
  add(graph.outputs().size());
  for (const Value* value : graph.outputs()) add(id(value));
  for (const Tie& tie : graph.ties()) {
    add(static_cast<Hash>(tie.output));
    add(static_cast<Hash>(tie.input));
  }
  if (!graph.labels().empty()) add(labels_hash(graph.labels()));
  return hash;
}

bool structurally_equal(const Graph& a, const Graph& b) {
  if (a.inputs().size() != b.inputs().size() || a.outputs().size() != b.outputs().size() ||
      a.num_nodes() != b.num_nodes() || a.ties() != b.ties() ||
      !labels_equal(a.labels(), b.labels()))
    return false;
  Numbering id_a, id_b;
  for (std::size_t i = 0; i < a.inputs().size(); ++i) {
    if (a.inputs()[i]->type() != b.inputs()[i]->type()) return false;
    id_a.define(a.inputs()[i].get());
    id_b.define(b.inputs()[i].get());
  }
  const Node* other = b.first();
  for (const Node& node : a.nodes()) {
    if (!equal_nodes(node, *other, id_a, id_b)) return false;
    for (std::size_t i = 0; i < node.num_outputs(); ++i) {
      id_a.define(node.output(i));
      id_b.define(other->output(i));
    }
    other = other->next();
  }
  for (std::size_t i = 0; i < a.outputs().size(); ++i)
    if (id_a(a.outputs()[i]) != id_b(b.outputs()[i])) return false;
  return true;
}

}  // namespace gex
