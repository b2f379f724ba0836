#pragma once
// User-defined passes in C++, over the C interface only (gex/es.hpp has the ops). Derive from one
// of three classes, build patterns and replacements with the ES builder, and register:
//
//   class AddZero : public gex::es::PatternPass {
//     std::vector<Pattern> Patterns() const override {
//       gex::es::EsGraphBuilder b("add_zero");
//       auto x = b.CreateInput(0);
//       return Only(b.BuildAndReset({x + 0.0f}));
//     }
//     Holders Replacement(const Match& match) const override { return {match.Input(0)}; }
//   };
//   GEX_REGISTER_PASS(AddZero, "add-zero", "early")
//
// In a shared library listed in GEX_PLUGINS the macro is sufficient; elsewhere
// gex::es::RegisterPass<AddZero>("add-zero", "early") does the same at run time.
//
// Replacements add nodes to the current graph: operators and ops on the holders they are given. A
// callback that throws fails the compile with the name of the pass and the message thrown.

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gex/es/builder.hpp"
#include "gex/es/graph.hpp"
#include "gex/es/operators.hpp"

namespace gex::es {

namespace detail {

// The current graph while a callback runs; its holders are invalid afterwards.
class Borrowed {
 public:
  explicit Borrowed(gex_graph* graph)
      : builder_(EsGraphBuilder::Continue("pass", graph)),
        building_(Access::BuildingOf(builder_.Hold(GEX_NO_VALUE))) {}
  ~Borrowed() { building_->graph.release(); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  gex_graph* graph() const { return building_->graph.get(); }
  EsGraphBuilder& builder() const { return builder_; }
  EsTensorHolder Holder(gex_value value) const {
    return value == GEX_NO_VALUE ? EsTensorHolder() : Access::Holder(building_, value);
  }

 private:
  mutable EsGraphBuilder builder_;
  BuildingPtr building_;
};

// A list whose length the C interface returns first.
template <class T, class Function>
std::vector<T> List(Function&& get) {
  std::size_t count = 0;
  Check(get(static_cast<T*>(nullptr), std::size_t{0}, &count));
  std::vector<T> list(count);
  Check(get(list.data(), count, &count));
  return list;
}

inline gex_graph* GraphOf(const EsTensorHolder& holder) {
  return Access::BuildingOf(holder)->open();
}

}  // namespace detail

// --- the node of a value ------------------------------------------------------------------------

// "matmul"; "" for an input of the graph.
inline std::string OpOf(const EsTensorHolder& holder) {
  char* op = nullptr;
  detail::Check(gex_value_op(detail::GraphOf(holder), holder.value(), &op));
  return detail::Take(op);
}
// Operands of the node that makes it; absent ones are empty.
inline std::vector<EsTensorHolder> OperandsOf(const EsTensorHolder& holder) {
  gex_graph* graph = detail::GraphOf(holder);
  std::vector<EsTensorHolder> operands;
  for (gex_value value :
       detail::List<gex_value>([&](gex_value* values, std::size_t capacity, std::size_t* count) {
         return gex_value_operands(graph, holder.value(), values, capacity, count);
       }))
    operands.push_back(value == GEX_NO_VALUE
                           ? EsTensorHolder()
                           : detail::Access::Holder(detail::Access::BuildingOf(holder), value));
  return operands;
}
// All results of the node that makes it; an input of the graph is its own only result.
inline std::vector<EsTensorHolder> ResultsOf(const EsTensorHolder& holder) {
  if (OpOf(holder).empty()) return {holder};
  gex_graph* graph = detail::GraphOf(holder);
  std::vector<EsTensorHolder> results;
  for (gex_value value :
       detail::List<gex_value>([&](gex_value* values, std::size_t capacity, std::size_t* count) {
         return gex_value_results(graph, holder.value(), values, capacity, count);
       }))
    results.push_back(detail::Access::Holder(detail::Access::BuildingOf(holder), value));
  return results;
}

// Operand `operand` of a node, which is named by its first result; of the graph's outputs if
// `node` is empty.
struct Reader {
  EsTensorHolder node;
  std::size_t operand = 0;
};
inline std::vector<Reader> ReadersOf(const EsTensorHolder& holder) {
  gex_graph* graph = detail::GraphOf(holder);
  std::size_t count = 0;
  detail::Check(gex_value_readers(graph, holder.value(), nullptr, nullptr, 0, &count));
  std::vector<gex_value> nodes(count);
  std::vector<std::size_t> operands(count);
  detail::Check(
      gex_value_readers(graph, holder.value(), nodes.data(), operands.data(), count, &count));
  std::vector<Reader> readers;
  for (std::size_t k = 0; k < count; ++k)
    readers.push_back({nodes[k] == GEX_NO_VALUE
                           ? EsTensorHolder()
                           : detail::Access::Holder(detail::Access::BuildingOf(holder), nodes[k]),
                       operands[k]});
  return readers;
}
inline std::size_t UsesOf(const EsTensorHolder& holder) {
  std::size_t count = 0;
  detail::Check(gex_value_uses(detail::GraphOf(holder), holder.value(), &count));
  return count;
}
// As printed: 3, 0.5, [1, 2].
inline std::string AttrOf(const EsTensorHolder& holder, const std::string& name) {
  char* text = nullptr;
  detail::Check(gex_value_attr(detail::GraphOf(holder), holder.value(), name.c_str(), &text));
  return detail::Take(text);
}
inline std::vector<std::int64_t> IntegersOf(const EsTensorHolder& holder, const std::string& name) {
  gex_graph* graph = detail::GraphOf(holder);
  return detail::List<std::int64_t>([&](std::int64_t* numbers, std::size_t capacity,
                                        std::size_t* count) {
    return gex_value_attr_integers(graph, holder.value(), name.c_str(), numbers, capacity, count);
  });
}
// The contents of a constant. Throws if the value is not a constant.
inline Tensor ConstantOf(const EsTensorHolder& holder) {
  gex_tensor tensor = GEX_TENSOR_INIT;
  detail::Check(gex_value_constant(detail::GraphOf(holder), holder.value(), &tensor));
  return Tensor::Adopt(tensor);
}
inline bool IsConstant(const EsTensorHolder& holder) {
  const std::string op = OpOf(holder);
  return op == "constant" || op == "full";
}

// --- the three kinds ----------------------------------------------------------------------------

class Match {
 public:
  Match(const detail::Borrowed& graph, const gex_match* match) : graph_(graph), match_(match) {}

  // The values matched to the pattern's inputs; of a decompose pass: the node's operands.
  EsTensorHolder Input(std::size_t index) const { return Get(gex_match_input, index); }
  EsTensorHolder Output(std::size_t index = 0) const { return Get(gex_match_output, index); }
  EsTensorHolder Captured(std::size_t index) const { return Get(gex_match_captured, index); }
  std::size_t input_count() const {
    std::size_t count = 0;
    detail::Check(gex_match_counts(match_, &count, nullptr, nullptr));
    return count;
  }
  const gex_match* handle() const { return match_; }
  // Creates constants and nodes in the current graph; must not create inputs or outputs.
  EsGraphBuilder& Builder() const { return graph_.builder(); }
  // A copy of a prebuilt graph whose inputs are the match's inputs.
  std::vector<EsTensorHolder> Inline(const Graph& graph) const {
    std::vector<gex_value> inputs;
    for (std::size_t k = 0; k < input_count(); ++k) inputs.push_back(Input(k).value());
    std::vector<gex_value> outputs(graph.output_count());
    detail::Check(gex_graph_inline(graph_.graph(), graph.handle(), inputs.data(), inputs.size(),
                                   outputs.data(), outputs.size()));
    std::vector<EsTensorHolder> holders;
    for (gex_value value : outputs) holders.push_back(graph_.Holder(value));
    return holders;
  }

 private:
  EsTensorHolder Get(gex_status (*get)(const gex_match*, std::size_t, gex_value*),
                     std::size_t index) const {
    gex_value value = GEX_NO_VALUE;
    detail::Check(get(match_, index, &value));
    return graph_.Holder(value);
  }

  const detail::Borrowed& graph_;
  const gex_match* match_;
};

// A graph whose inputs match any values.
struct Pattern {
  std::unique_ptr<Graph> graph;
  std::vector<EsTensorHolder> captures;  // holders of the builder that made it
};

struct PassOptions {
  std::string summary;
  int level = 2;             // runs at this level and above; 4: only if enabled by name
  std::string version = {};  // see gex_pass
};

class PatternPass {
 public:
  using Holders = std::vector<EsTensorHolder>;
  virtual ~PatternPass() = default;
  virtual std::vector<Pattern> Patterns() const = 0;  // tried in order
  virtual bool MeetRequirements(const Match&) const { return true; }
  virtual Holders Replacement(const Match& match) const = 0;  // a value for each pattern output
  // Whether constants and attributes of the pattern match any others.
  virtual bool AnyConstants() const { return false; }
  virtual bool AnyAttributes() const { return false; }

 protected:
  static std::vector<Pattern> Only(std::unique_ptr<Graph> graph, Holders captures = {}) {
    std::vector<Pattern> patterns;
    patterns.push_back({std::move(graph), std::move(captures)});
    return patterns;
  }
};

class DecomposePass {
 public:
  using Holders = std::vector<EsTensorHolder>;
  virtual ~DecomposePass() = default;
  virtual std::vector<std::string> Ops() const = 0;
  // The match's inputs are the node's operands; Output() has its attributes.
  virtual bool MeetRequirements(const Match&) const { return true; }
  virtual Holders Replacement(const Match& match) const = 0;  // a value for each result
};

class GraphEditor {
 public:
  explicit GraphEditor(const detail::Borrowed& graph) : graph_(graph) {}
  gex_graph* handle() const { return graph_.graph(); }

  // The first result of each node, in order.
  std::vector<EsTensorHolder> Nodes() const {
    std::vector<EsTensorHolder> nodes;
    for (gex_value value :
         detail::List<gex_value>([&](gex_value* values, std::size_t capacity, std::size_t* count) {
           return gex_graph_nodes(graph_.graph(), values, capacity, count);
         }))
      nodes.push_back(graph_.Holder(value));
    return nodes;
  }
  // Creates constants and nodes; must not create inputs or outputs.
  EsGraphBuilder& Builder() const { return graph_.builder(); }
  // Inserts new nodes before the node of this value.
  void InsertBefore(const EsTensorHolder& value) {
    detail::Check(gex_graph_insert_before(graph_.graph(), value.value()));
  }
  // Redirects all uses of `from` to `to`, which must be computed before them.
  void Replace(const EsTensorHolder& from, const EsTensorHolder& to) {
    detail::Check(gex_graph_replace(graph_.graph(), from.value(), to.value()));
  }
  void Erase(const EsTensorHolder& value) {
    detail::Check(gex_graph_erase(graph_.graph(), value.value()));
  }

 private:
  const detail::Borrowed& graph_;
};

class GraphPass {
 public:
  virtual ~GraphPass() = default;
  virtual bool Run(GraphEditor& graph) const = 0;  // whether it changed anything
};

// --- registration -------------------------------------------------------------------------------

namespace detail {

template <class Body>
gex_status Guarded(Body&& body) {
  try {
    body();
    return GEX_OK;
  } catch (const Error& error) {
    return gex_fail(error.status(), error.what());
  } catch (const std::exception& error) {
    return gex_fail(GEX_INVALID_ARGUMENT, error.what());
  } catch (...) {
    return gex_fail(GEX_INVALID_ARGUMENT, "it threw an exception that is not a std::exception");
  }
}

template <class P>
gex_status Condition(void* user, gex_graph* graph, const gex_match* match, std::int32_t* agrees) {
  return Guarded([&] {
    const Borrowed borrowed(graph);
    *agrees = static_cast<const P*>(user)->MeetRequirements(Match(borrowed, match));
  });
}

template <class P>
gex_status Replacement(void* user, gex_graph* graph, const gex_match* match, gex_value* outputs,
                       std::size_t output_count) {
  return Guarded([&] {
    const Borrowed borrowed(graph);
    const auto values = static_cast<const P*>(user)->Replacement(Match(borrowed, match));
    if (values.size() != output_count)
      throw Error(GEX_INVALID_ARGUMENT, "the replacement returns " + std::to_string(values.size()) +
                                            " values for " + std::to_string(output_count) +
                                            " outputs");
    for (std::size_t k = 0; k < output_count; ++k) outputs[k] = values[k].value();
  });
}

inline gex_status Run(void* user, gex_graph* graph, std::int32_t* changed) {
  return Guarded([&] {
    const Borrowed borrowed(graph);
    GraphEditor editor(borrowed);
    *changed = static_cast<const GraphPass*>(user)->Run(editor);
  });
}

template <class P>
void Release(void* user) {
  delete static_cast<P*>(user);
}

// The library owns it from now on.
template <class P>
void HandOver(std::unique_ptr<P> pass, gex_pass& c) {
  c.release = Release<P>;
  c.user = pass.release();
  Check(gex_pass_register(&c));
}

inline void Register(std::unique_ptr<PatternPass> pass, gex_pass& c) {
  const std::vector<Pattern> patterns = pass->Patterns();
  std::vector<std::vector<gex_value>> captures(patterns.size());
  std::vector<gex_pattern> c_patterns;
  for (std::size_t k = 0; k < patterns.size(); ++k) {
    for (const EsTensorHolder& capture : patterns[k].captures)
      captures[k].push_back(capture.value());
    c_patterns.push_back({patterns[k].graph ? patterns[k].graph->handle() : nullptr,
                          captures[k].data(), captures[k].size()});
  }
  c.kind = GEX_PASS_PATTERN;
  c.any_constants = pass->AnyConstants();
  c.any_attributes = pass->AnyAttributes();
  c.patterns = c_patterns.data();
  c.pattern_count = c_patterns.size();
  c.condition = Condition<PatternPass>;
  c.replacement = Replacement<PatternPass>;
  HandOver(std::move(pass), c);
}

inline void Register(std::unique_ptr<DecomposePass> pass, gex_pass& c) {
  const std::vector<std::string> ops = pass->Ops();
  std::vector<const char*> names;
  for (const std::string& op : ops) names.push_back(op.c_str());
  c.kind = GEX_PASS_DECOMPOSE;
  c.ops = names.data();
  c.op_count = names.size();
  c.condition = Condition<DecomposePass>;
  c.replacement = Replacement<DecomposePass>;
  HandOver(std::move(pass), c);
}

inline void Register(std::unique_ptr<GraphPass> pass, gex_pass& c) {
  c.kind = GEX_PASS_GRAPH;
  c.run = Run;
  HandOver(std::move(pass), c);
}

}  // namespace detail

// Stages: early, middle, late, or GE's names of them (see gex.h).
template <class P>
void RegisterPass(const std::string& name, const std::string& stage = "early",
                  const PassOptions& options = {}) {
  using Base = std::conditional_t<
      std::is_base_of_v<PatternPass, P>, PatternPass,
      std::conditional_t<std::is_base_of_v<DecomposePass, P>, DecomposePass, GraphPass>>;
  gex_pass c = GEX_PASS_INIT;
  c.name = name.c_str();
  c.stage = stage.c_str();
  c.summary = options.summary.c_str();
  c.level = options.level;
  c.version = options.version.c_str();
  detail::Register(std::unique_ptr<Base>(std::make_unique<P>()), c);
}

inline void UnregisterPass(const std::string& name) {
  detail::Check(gex_pass_unregister(name.c_str()));
}

namespace detail {

// A static object registers while its library is loaded, where exceptions can't be caught.
template <class P>
struct Registrar {
  Registrar(const char* name, const char* stage, const PassOptions& options = {}) {
    try {
      RegisterPass<P>(name, stage, options);
    } catch (const std::exception& error) {
      gex_plugin_failed(error.what());
    }
  }
};

}  // namespace detail

}  // namespace gex::es

#define GEX_REGISTER_PASS(Class, ...) \
  static const ::gex::es::detail::Registrar<Class> gex_pass_registrar_##Class(__VA_ARGS__);
