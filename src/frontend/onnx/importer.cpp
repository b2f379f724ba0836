#include "frontend/onnx/importer.hpp"

#include <algorithm>
#include <set>

#include "frontend/onnx/least_ranks.hpp"
#include "frontend/onnx/row.hpp"
#include "ir/sizes_differ.hpp"
#include "ops/core/build.hpp"

namespace gex::onnx {
namespace {

constexpr int kDeepestCalls = 64;
constexpr std::int64_t kCopied = 64;  // known values up to this size are not inputs of inner graphs

std::string described(const NodeProto& node) {
  std::string text = node.domain.empty() ? node.op : node.domain + "." + node.op;
  if (!node.name.empty()) return text + " '" + node.name + "'";
  return node.outputs.empty() ? text : text + " with output '" + node.outputs[0] + "'";
}

// Operators without rows, in all graphs and functions of the model.
class MissingRows {
 public:
  explicit MissingRows(const ModelProto& model) : model_(model) { visit(model.graph.nodes); }
  void report() const {
    if (nodes_.empty()) return;
    std::string text = str("the model has operators that gex does not support:");
    for (const auto& [op, names] : nodes_) {
      text += "\n  " + op + ":";
      for (std::size_t k = 0; k < names.size() && k < 8; ++k) text += " " + names[k];
      if (names.size() > 8) text += str(" and ", names.size() - 8, " more");
    }
    fail(ErrorCode::unsupported, text);
  }

 private:
  void visit(const std::vector<NodeProto>& nodes) {
    for (const NodeProto& node : nodes) {
      for (const AttributeProto& a : node.attributes)
        if (a.graph) visit(a.graph->nodes);
      const FunctionProto* function = nullptr;
      for (const FunctionProto& f : model_.functions)
        if (f.name == node.op && f.domain == node.domain) function = &f;
      if (function != nullptr) {
        if (seen_.insert(function).second) visit(function->nodes);
        continue;
      }
      if (find_row(node.domain, node.op) != nullptr) continue;
      const std::string op = node.domain.empty() ? node.op : node.domain + "." + node.op;
      nodes_[op].push_back(node.name.empty() && !node.outputs.empty()
                               ? "(output '" + node.outputs[0] + "')"
                               : "'" + node.name + "'");
    }
  }
  const ModelProto& model_;
  std::set<const FunctionProto*> seen_;
  std::map<std::string, std::vector<std::string>> nodes_;
};

Shape shape_from(const TypeProto& type, const std::string& name,
                 std::map<std::string, Dim>& symbols) {
  if (!type.shape)
    fail(ErrorCode::unsupported, "the model does not declare the rank of input '", name,
         "'; pass its sizes");
  Shape shape;
  for (std::size_t d = 0; d < type.shape->size(); ++d) {
    const TypeProto::Size& size = (*type.shape)[d];
    if (size.value && *size.value >= 0) {
      shape.emplace_back(*size.value);
      continue;
    }
    // Symbols of the file may be any text; equal texts are equal sizes, except "?".
    const bool is_nameless = size.symbol.empty() || size.symbol == "?";
    const std::string key = is_nameless ? str(name, " ", d) : size.symbol;
    auto found = symbols.find(key);
    if (found == symbols.end())
      found =
          symbols.emplace(key, Dim::symbol(str("s", symbols.size()), {1, DimRange::kInf})).first;
    shape.push_back(found->second);
  }
  return shape;
}

InputFact fact_from(const TypeProto& type, const std::string& name,
                    std::map<std::string, Dim>& symbols) {
  InputFact fact;
  if (type.kind != TypeProto::Kind::tensor)
    fail(ErrorCode::unsupported, "input '", name,
         "' is not a tensor: the number of its items must be known before the model is imported");
  fact.elem = type.elem;
  fact.shape = shape_from(type, name, symbols);
  return fact;
}

Item make_input(ImportState& state, const InputFact& fact, const std::string& name) {
  Graph& g = state.graph();
  Item item;
  item.kind = fact.kind;
  item.elem = fact.elem;
  if (fact.kind == Item::Kind::tensor) {
    item.value = g.add_input(Type::tensor(memory_type_of(fact.elem), *fact.shape), name);
    return item;
  }
  for (std::size_t k = 0; k < fact.items.size(); ++k)
    item.items.push_back(make_input(state, fact.items[k], str(name, ".", k)));
  return item;
}

// The same structure with storage dtypes in place of memory types.
Item decoded(Graph& g, Item item) {
  if (item.value != nullptr) item.value = from_memory(g, item.value, item.elem);
  for (Item& inner : item.items) inner = decoded(g, std::move(inner));
  return item;
}

Item encoded(Graph& g, Item item, std::vector<Value*>& outputs) {
  if (item.value != nullptr) {
    item.value = to_memory(g, item.value, item.elem);
    outputs.push_back(item.value);
  }
  for (Item& inner : item.items) inner = encoded(g, std::move(inner), outputs);
  return item;
}

}  // namespace

namespace {

void require_ranks(const NodeProto& node, const std::vector<Item>& inputs) {
  const std::vector<int>& least = least_ranks(node.domain, node.op);
  for (std::size_t k = 0; k < least.size() && k < inputs.size(); ++k) {
    if (inputs[k].kind != Item::Kind::tensor || inputs[k].value->type().rank() >= least[k])
      continue;
    fail(ErrorCode::shape_mismatch, "input ", k, " is ", inputs[k].value->type(),
         ", it needs at least ", least[k], " axes");
  }
}

}  // namespace

std::vector<const ValueInfo*> model_inputs(const ModelProto& model) {
  std::set<std::string> stored;
  for (const TensorProto& t : model.graph.initialisers) stored.insert(t.name);
  for (const SparseTensorProto& t : model.graph.sparse_initialisers) stored.insert(t.values.name);
  std::vector<const ValueInfo*> inputs;
  for (const ValueInfo& info : model.graph.inputs)
    if (!stored.contains(info.name)) inputs.push_back(&info);
  return inputs;
}

std::unique_ptr<Graph> signature_graph(const ModelProto& model) {
  auto graph = std::make_unique<Graph>("main");
  std::map<std::string, Dim> symbols;
  for (const ValueInfo* info : model_inputs(model)) {
    const InputFact fact = fact_from(info->type, info->name, symbols);
    graph->add_input(Type::tensor(memory_type_of(fact.elem), *fact.shape), info->name);
  }
  return graph;
}

ImportState::ImportState(const ModelProto& the_model, const ImportOptions& the_options,
                         Import& the_import)
    : model(the_model), options(the_options), import(the_import) {
  frames_.push_back({import.graph.get(), {}, {}});
}

void ImportState::push(Graph& inner) { frames_.push_back({&inner, {}, {}}); }

ImportState::Frame ImportState::pop() {
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  return frame;
}

Value* ImportState::seen_from(std::size_t frame, Value* value) {
  Frame& f = frames_[frame];
  if (&value->graph() == f.graph || frame == 0) return value;
  if (const auto found = f.inner.find(value); found != f.inner.end()) return found->second;
  Value* outer = seen_from(frame - 1, value);
  Value* inner = nullptr;
  if (const HostTensor* tensor = known(value); tensor != nullptr && tensor->numel() <= kCopied) {
    inner = ops::constant(*f.graph, *tensor);
  } else {
    inner = f.graph->add_input(outer->type());
    f.captured.push_back(outer);
    if (const auto dims = known_dims(value)) dims_[inner] = dims;
  }
  f.inner[value] = inner;
  return inner;
}

Item ImportState::here(Item item) {
  if (item.value != nullptr) item.value = here(item.value);
  for (Item& inner : item.items) inner = here(std::move(inner));
  return item;
}

Item ImportState::lookup(const Scope& scope, const std::string& name) const {
  for (const Scope* s = &scope; s != nullptr; s = s->outer)
    if (const auto found = s->names.find(name); found != s->names.end()) return found->second;
  fail(ErrorCode::invalid_graph, "undefined name '", name, "'");
}

Item ImportState::constant(HostTensor carried, Elem elem) {
  return Item::tensor(ops::constant(graph(), std::move(carried)), elem);
}

Item ImportState::initialiser(const TensorProto& tensor) {
  if (const auto found = initialisers_.find(&tensor); found != initialisers_.end())
    return found->second;
  TensorPtr contents;
  if (options.contents != nullptr) contents = (*options.contents)[&tensor];
  if (!contents) contents = std::make_shared<const HostTensor>(tensor_of(&model, tensor));
  if (options.contents != nullptr) (*options.contents)[&tensor] = contents;
  Item item;
  if (contents->numel() >= options.weight_elements && !is_nested()) {
    Type type =
        Type::tensor(contents->dtype(), Shape(contents->shape().begin(), contents->shape().end()));
    Value* input = graph().add_input(std::move(type), tensor.name);
    import.weights.emplace_back(input->index(), contents);
    item = Item::tensor(input, tensor.elem);
  } else {
    Node* node = graph().add(op("constant"), {}, ops::Constant{contents});
    item = Item::tensor(node->output(), tensor.elem);
  }
  if (!is_nested()) initialisers_[&tensor] = item;
  return item;
}

Dim ImportState::fresh_symbol(const char* hint) {
  return Dim::symbol(str(hint, symbols_++), {0, DimRange::kInf});
}

const FunctionProto* ImportState::find_function(const NodeProto& node) const {
  for (const FunctionProto& f : model.functions)
    if (f.name == node.op && f.domain == node.domain && f.overload == node.overload) return &f;
  return nullptr;
}

std::vector<Item> ImportState::call_function(const FunctionProto& function, const NodeProto& node,
                                             const std::vector<Item>& inputs) {
  std::map<std::string, const AttributeProto*> attributes;
  for (const AttributeProto& a : function.attributes) attributes[a.name] = &a;
  for (const AttributeProto& a : node.attributes) {
    const AttributeProto* value = &a;
    if (!a.reference.empty() && current->attributes != nullptr) {
      const auto found = current->attributes->find(a.reference);
      if (found == current->attributes->end()) continue;
      value = found->second;
    }
    attributes[a.name] = value;
  }
  Scope scope;
  scope.opsets = function.opsets.empty() ? &model.opsets : &function.opsets;
  scope.attributes = &attributes;
  for (std::size_t k = 0; k < function.inputs.size(); ++k)
    scope.names[function.inputs[k]] = k < inputs.size() ? inputs[k] : Item{};
  for (const NodeProto& inner : function.nodes) import_node(inner, scope);
  std::vector<Item> outputs;
  for (const std::string& name : function.outputs) outputs.push_back(lookup(scope, name));
  return outputs;
}

void ImportState::import_node(const NodeProto& node, Scope& scope) {
  if (depth_ >= kDeepestCalls)
    fail(ErrorCode::unsupported, "functions or graphs nested too deeply at ", described(node));
  struct Inside {
    ImportState& state;
    const Scope* outer;
    Inside(ImportState& s, const Scope& inner) : state(s), outer(s.current) {
      state.current = &inner;
      ++state.depth_;
    }
    ~Inside() {
      state.current = outer;
      --state.depth_;
    }
  } inside(*this, scope);
  std::vector<Item> inputs;
  for (const std::string& name : node.inputs)
    inputs.push_back(name.empty() ? Item{} : here(lookup(scope, name)));
  graph().set_location(node.name.empty() ? node.op : node.name);
  std::vector<Item> outputs;
  try {
    if (const FunctionProto* function = find_function(node)) {
      outputs = call_function(*function, node, inputs);
    } else {
      const RowFunction* row = find_row(node.domain, node.op);
      if (row == nullptr)
        fail(ErrorCode::unsupported, "gex does not support the operator ", described(node));
      require_ranks(node, inputs);
      const auto opset = scope.opsets->find(node.domain);
      Row r(*this, node, opset == scope.opsets->end() ? 1 : opset->second, std::move(inputs));
      outputs = (*row)(r);
    }
  } catch (const UserError& error) {
    const std::string text = error.what();
    if (text.rfind("ONNX ", 0) == 0) throw;
    fail_as(error, str("ONNX ", described(node), ": ", text));
  } catch (const std::out_of_range&) {
    fail(ErrorCode::invalid_graph, "ONNX ", described(node),
         ": a list is shorter than the operator requires");
  }
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    if (node.outputs[k].empty()) continue;
    if (k >= outputs.size())
      fail(ErrorCode::unsupported, "ONNX ", described(node), ": gex does not support its output ",
           k);
    if (outputs[k].value != nullptr && outputs[k].value->name().empty())
      outputs[k].value->set_name(node.outputs[k]);
    scope.names[node.outputs[k]] = outputs[k];
  }
}

std::vector<Item> ImportState::import_body(const GraphProto& body, Scope& scope) {
  for (const TensorProto& t : body.initialisers)
    if (!scope.names.contains(t.name)) scope.names[t.name] = initialiser(t);
  for (const SparseTensorProto& t : body.sparse_initialisers)
    scope.names[t.values.name] = constant(tensor_of(&model, t), t.values.elem);
  for (const NodeProto& node : body.nodes) import_node(node, scope);
  std::vector<Item> outputs;
  for (const ValueInfo& info : body.outputs) outputs.push_back(here(lookup(scope, info.name)));
  return outputs;
}

std::vector<Item> ImportState::import_subgraph(const GraphProto& body,
                                               const std::vector<Item>& inputs) {
  Scope scope;
  scope.outer = current;
  scope.opsets = current->opsets;
  scope.attributes = current->attributes;
  for (std::size_t k = 0; k < body.inputs.size() && k < inputs.size(); ++k)
    scope.names[body.inputs[k].name] = inputs[k];
  return import_body(body, scope);
}

namespace {

// Upper bounds of sizes that the model implies: where a size must equal min(size, 64), as a slice
// of a table of 64 positions has it, it is at most 64. Other sizes are an error in any run.
class ImpliedBounds {
 public:
  // False if the sizes that differ imply no new bound.
  bool learn(const SizesDiffer& error) {
    return learn_from(error.a, error.b) || learn_from(error.b, error.a);
  }
  Dim bounded(Dim size) const {
    return size.substitute([&](Dim symbol) -> std::optional<Dim> {
      const auto bound = bounds_.find(symbol.name());
      if (bound == bounds_.end()) return std::nullopt;
      const DimRange range = symbol.range();
      return Dim::symbol(symbol.name(), {range.lo, std::min(range.hi, bound->second)});
    });
  }

 private:
  bool learn_from(Dim cut, Dim size) {
    if (cut.kind() != Dim::Kind::min || !size.is_symbol()) return false;
    for (const auto& [of, bound] : {std::pair(cut.operands()[0], cut.operands()[1]),
                                    std::pair(cut.operands()[1], cut.operands()[0])}) {
      const auto limit = bound.as_const();
      // min(size, 1) would be broadcast.
      if (of != size || !limit || *limit <= 1 || *limit >= size.range().hi) continue;
      bounds_[size.name()] = *limit;
      return true;
    }
    return false;
  }
  std::map<std::string, std::int64_t> bounds_;
};

Import import_within(const std::shared_ptr<const ModelProto>& model, const ImportOptions& options,
                     const ImpliedBounds& bounds);

}  // namespace

Import import_model(const std::shared_ptr<const ModelProto>& model, const ImportOptions& options) {
  MissingRows(*model).report();
  for (ImpliedBounds bounds;;) {
    try {
      return import_within(model, options, bounds);
    } catch (const SizesDiffer& error) {
      if (!bounds.learn(error)) throw;
    }
  }
}

namespace {

Import import_within(const std::shared_ptr<const ModelProto>& model, const ImportOptions& options,
                     const ImpliedBounds& bounds) {
  auto import = std::make_shared<Import>();
  import->graph = std::make_unique<Graph>("main");
  ImportState state(*model, options, *import);
  Opsets opsets = model->opsets;
  if (!opsets.contains("")) opsets[""] = 1;
  ImportState::Scope scope;
  scope.opsets = &opsets;

  const auto inputs = model_inputs(*model);
  std::map<std::string, Dim> symbols;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const bool given = k < options.inputs.size() && options.inputs[k];
    InputFact fact =
        given ? *options.inputs[k] : fact_from(inputs[k]->type, inputs[k]->name, symbols);
    if (fact.shape)
      for (Dim& size : *fact.shape) size = bounds.bounded(size);
    import->inputs.push_back(make_input(state, fact, inputs[k]->name));
    import->input_names.push_back(inputs[k]->name);
  }
  for (std::size_t k = 0; k < inputs.size(); ++k)
    scope.names[inputs[k]->name] = decoded(*import->graph, import->inputs[k]);
  try {
    std::vector<Value*> values;
    for (Item& item : state.import_body(model->graph, scope))
      import->outputs.push_back(encoded(*import->graph, std::move(item), values));
    import->graph->set_outputs(values);
  } catch (ValueNeeded& needed) {
    needed.so_far = import;
    throw;
  }
  for (const ValueInfo& info : model->graph.outputs) import->output_names.push_back(info.name);
  return std::move(*import);
}

}  // namespace

std::unique_ptr<Graph> import_graph(const std::shared_ptr<const ModelProto>& model,
                                    const ImportOptions& options) {
  try {
    Import import = import_model(model, options);
    return std::move(import.graph);
  } catch (const ValueNeeded& needed) {
    fail(
        ErrorCode::unsupported, needed.why,
        ": that depends on a value known only at run time, so the model is not a single graph. Run "
        "it as a model (gex run, gex.onnx.load)");
  }
}

}  // namespace gex::onnx
