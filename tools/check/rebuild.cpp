#include "check/rebuild.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace gex::check {
namespace {

class Rebuilder {
 public:
  Rebuilder(const Graph& graph, const Changes& changes) : graph_(graph), changes_(changes) {}

  std::unique_ptr<Graph> run() {
    mark_needed();
    for (const auto& input : graph_.inputs())
      if (needed_.contains(input.get()) || is_tied(*input))
        image_[input.get()] = out_->add_input(changed(input->type()), input->name());
    int number = 0;
    for (Node& node : graph_.nodes()) {
      ++number;
      if (is_needed(node)) copy(node, number);
    }
    std::vector<Value*> outputs;
    std::vector<int> new_index(graph_.outputs().size(), -1);
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k) {
      if (changes_.dropped_outputs.contains(k)) continue;
      new_index[k] = static_cast<int>(outputs.size());
      outputs.push_back(image_.at(graph_.outputs()[k]));
    }
    out_->set_outputs(outputs);
    for (const Tie& tie : kept_ties())
      out_->ties().push_back(
          {new_index[static_cast<std::size_t>(tie.output)],
           image_.at(graph_.inputs()[static_cast<std::size_t>(tie.input)].get())->index()});
    verify(*out_);
    return std::move(out_);
  }

 private:
  std::vector<Tie> kept_ties() const {
    std::vector<Tie> kept;
    for (const Tie& tie : graph_.ties())
      if (!changes_.drop_ties &&
          !changes_.dropped_outputs.contains(static_cast<std::size_t>(tie.output)))
        kept.push_back(tie);
    return kept;
  }

  bool is_tied(const Value& input) const {
    const auto ties = kept_ties();
    return std::any_of(ties.begin(), ties.end(),
                       [&](const Tie& tie) { return tie.input == input.index(); });
  }

  bool is_needed(const Node& node) const {
    if (node.op().has(Trait::effect)) return true;
    bool used = false;
    for (std::size_t k = 0; k < node.num_outputs(); ++k) {
      if (needed_.contains(node.output(k))) return true;
      used |= !node.output(k)->uses().empty();
    }
    // An unused node may be what fails, so it is removed only when it is cut.
    return !used && !changes_.cut.contains(&node);
  }

  void mark_needed() {
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k)
      if (!changes_.dropped_outputs.contains(k)) needed_.insert(graph_.outputs()[k]);
    for (Node* node = graph_.last(); node != nullptr; node = node->prev()) {
      if (!is_needed(*node) || changes_.cut.contains(node)) continue;
      const auto bypass = changes_.bypass.find(node);
      for (std::size_t k = 0; k < node->inputs().size(); ++k)
        if (node->has_input(k) && (bypass == changes_.bypass.end() || bypass->second == k))
          needed_.insert(node->input(k));
    }
  }

  Dim changed(Dim size) const { return changes_.size ? changes_.size(size) : size; }

  Type changed(Type type) const {
    for (Dim& size : type.shape) size = changed(size);
    if (changes_.size) type.strides.reset();
    return type;
  }

  AttrValue changed(AttrValue value) const {
    if (!changes_.size) return value;
    if (auto* size = std::get_if<Dim>(&value)) *size = changed(*size);
    if (auto* sizes = std::get_if<std::vector<Dim>>(&value))
      for (Dim& size : *sizes) size = changed(size);
    return value;
  }

  void copy(const Node& node, int number) {
    if (changes_.cut.contains(&node)) {
      for (std::size_t k = 0; k < node.num_outputs(); ++k) {
        const Value& value = *node.output(k);
        if (!needed_.contains(&value)) continue;
        Type type = changed(value.type());
        image_[&value] = out_->add_input(std::move(type), str("cut_", number, "_", k));
      }
      return;
    }
    if (const auto bypass = changes_.bypass.find(&node); bypass != changes_.bypass.end()) {
      image_[node.output(0)] = image_.at(node.input(bypass->second));
      return;
    }
    std::vector<Value*> inputs;
    for (Value* input : node.inputs()) inputs.push_back(input ? image_.at(input) : nullptr);
    if (const auto branch = changes_.inlined.find(&node); branch != changes_.inlined.end()) {
      // The first input of an if is its condition; all inputs of a while are those of its
      // subgraphs.
      const Graph& body = *node.subgraphs()[branch->second];
      inputs.erase(inputs.begin(),
                   inputs.end() - static_cast<std::ptrdiff_t>(body.inputs().size()));
      const std::vector<Value*> results = out_->inline_graph(body, inputs);
      for (std::size_t k = 0; k < results.size(); ++k) image_[node.output(k)] = results[k];
      return;
    }
    AttrList attrs;
    for (const AttrValue& value : node.attrs()) attrs.push_back(changed(value));
    if (const auto attr = changes_.default_attr.find(&node); attr != changes_.default_attr.end())
      attrs[attr->second] = node.op().attrs[attr->second].default_value;
    std::vector<std::unique_ptr<Graph>> subgraphs;
    for (const auto& subgraph : node.subgraphs()) {
      Changes inside;
      inside.size = changes_.size;
      subgraphs.push_back(changes_.size ? rebuild_all(*subgraph, inside) : subgraph->clone());
    }
    Node* made = out_->add(node.op(), std::move(inputs), std::move(attrs), std::move(subgraphs));
    for (std::size_t k = 0; k < node.num_outputs(); ++k) {
      image_[node.output(k)] = made->output(k);
      made->output(k)->set_name(node.output(k)->name());
    }
  }

  // A subgraph keeps all of its inputs: they are its node's operands.
  static std::unique_ptr<Graph> rebuild_all(const Graph& graph, const Changes& changes) {
    Rebuilder rebuilder(graph, changes);
    for (const auto& input : graph.inputs()) rebuilder.needed_.insert(input.get());
    return rebuilder.run();
  }

  const Graph& graph_;
  const Changes& changes_;
  std::unique_ptr<Graph> out_ = std::make_unique<Graph>(graph_.name());
  std::unordered_set<const Value*> needed_;
  std::unordered_map<const Value*, Value*> image_;
};

}  // namespace

std::unique_ptr<Graph> rebuild(const Graph& graph, const Changes& changes) {
  return Rebuilder(graph, changes).run();
}

}  // namespace gex::check
