#pragma once
// GE's fusion passes (ge::fusion::PatternFusionPass, DecomposePass, REG_FUSION_PASS) over the
// passes of gex/pass.hpp. A replacement is a graph whose inputs get the types of the matched
// tensors, so shapes need not be inferred again. A hook that throws, or a replacement that is null,
// fails the compile with the name of the pass.

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gex/compat/ge.hpp"
#include "gex/compat/ge_nodes.hpp"
#include "gex/compat/ge_ops.hpp"
#include "gex/pass.hpp"

namespace ge {

enum class CustomPassStage {
  kBeforeInferShape = 0,
  kAfterInferShape = 1,
  kAfterAssignLogicStream = 2,
  kAfterBuiltinFusionPass = 3,
  kAfterOriginGraphOptimize = 4,
  kCompatibleInherited = 5,
};

namespace fusion {

using GraphUniqPtr = std::unique_ptr<Graph>;

// A graph whose inputs match any tensors.
class Pattern {
 public:
  explicit Pattern(Graph&& graph) : graph_(std::make_unique<Graph>(std::move(graph))) {}
  // Read back by MatchResult::GetCapturedTensor in the same order.
  Pattern& CaptureTensor(const NodeIo& tensor) {
    captures_.push_back(tensor.node.result());
    return *this;
  }
  const Graph& GetGraph() const { return *graph_; }
  gex::es::Pattern Take() { return {std::move(graph_), std::move(captures_)}; }

 private:
  GraphUniqPtr graph_;
  std::vector<gex::es::EsTensorHolder> captures_;
};
using PatternUniqPtr = std::unique_ptr<Pattern>;

// What has to be equal besides the ops. By default neither constants nor attributes.
class PatternMatcherConfig {
 public:
  bool IsEnableConstValueMatch() const { return constants_; }
  bool IsEnableIrAttrMatch() const { return attributes_; }

 private:
  friend class PatternMatcherConfigBuilder;
  bool constants_ = false, attributes_ = false;
};

class PatternMatcherConfigBuilder {
 public:
  PatternMatcherConfigBuilder& EnableConstValueMatch() {
    config_.constants_ = true;
    return *this;
  }
  PatternMatcherConfigBuilder& EnableIrAttrMatch() {
    config_.attributes_ = true;
    return *this;
  }
  std::unique_ptr<PatternMatcherConfig> Build() const {
    return std::make_unique<PatternMatcherConfig>(config_);
  }

 private:
  PatternMatcherConfig config_;
};

// A tensor from outside of a match: where the matched nodes read it.
class SubgraphInput {
 public:
  explicit SubgraphInput(std::vector<NodeIo> readers) : readers_(std::move(readers)) {}
  std::vector<NodeIo> GetAllInputs() const { return readers_; }

 private:
  std::vector<NodeIo> readers_;
};

class SubgraphBoundary {
 public:
  explicit SubgraphBoundary(std::vector<SubgraphInput> inputs) : inputs_(std::move(inputs)) {}
  Status GetAllInputs(std::vector<SubgraphInput>& inputs) const {
    inputs = inputs_;
    return SUCCESS;
  }

 private:
  std::vector<SubgraphInput> inputs_;
};

// Valid while the hook that got it runs.
class MatchResult {
 public:
  explicit MatchResult(const gex::es::Match& match) : match_(match) {
    for (std::size_t k = 0; k < match.input_count(); ++k) inputs_.push_back(match.Input(k));
    std::size_t outputs = 0;
    gex::es::detail::Check(gex_match_counts(match.handle(), nullptr, &outputs, nullptr));
    for (std::size_t k = 0; k < outputs; ++k) Visit(match.Output(k));
  }

  // Operands before the nodes that read them, constants included.
  std::vector<GNode> GetMatchedNodes() const { return nodes_; }
  Status GetCapturedTensor(std::size_t index, NodeIo& tensor) const {
    tensor = {GNode(match_.Captured(index)), 0};
    return SUCCESS;
  }
  std::unique_ptr<SubgraphBoundary> ToSubgraphBoundary() const {
    std::vector<SubgraphInput> inputs;
    for (const gex::es::EsTensorHolder& input : inputs_) {
      std::vector<NodeIo> readers;
      for (const GNode& node : nodes_) {
        const std::vector<gex::es::EsTensorHolder> operands = gex::es::OperandsOf(node.result());
        for (std::size_t k = 0; k < operands.size(); ++k)
          if (!operands[k].empty() && operands[k].value() == input.value())
            readers.push_back({node, static_cast<std::int64_t>(k)});
      }
      inputs.emplace_back(std::move(readers));
    }
    return std::make_unique<SubgraphBoundary>(std::move(inputs));
  }

 private:
  void Visit(const gex::es::EsTensorHolder& value) {
    const auto is_value = [&](const gex::es::EsTensorHolder& other) {
      return other.value() == value.value();
    };
    if (value.empty() || std::any_of(inputs_.begin(), inputs_.end(), is_value) ||
        std::any_of(nodes_.begin(), nodes_.end(),
                    [&](const GNode& node) { return is_value(node.result()); }))
      return;
    for (const gex::es::EsTensorHolder& operand : gex::es::OperandsOf(value)) Visit(operand);
    nodes_.emplace_back(value);
  }

  const gex::es::Match& match_;
  std::vector<gex::es::EsTensorHolder> inputs_;
  std::vector<GNode> nodes_;
};

// Replacements already have the types of the tensors they are replaced for.
class InferShapeUtil {
 public:
  template <class Boundary>
  static Status InferShape(const Graph& /*replacement*/, const Boundary& /*boundary*/) {
    return SUCCESS;
  }
};

class PatternFusionPass {
 public:
  PatternFusionPass() : config_(std::make_unique<PatternMatcherConfig>()) {}
  explicit PatternFusionPass(std::unique_ptr<PatternMatcherConfig> config)
      : config_(std::move(config)) {}
  virtual ~PatternFusionPass() = default;

 protected:
  virtual std::vector<PatternUniqPtr> Patterns() = 0;
  virtual bool MeetRequirements(const std::unique_ptr<MatchResult>& /*match*/) { return true; }
  virtual GraphUniqPtr Replacement(const std::unique_ptr<MatchResult>& match) = 0;

 private:
  friend class PatternPassAdapter;
  std::unique_ptr<PatternMatcherConfig> config_;
};

class DecomposePass {
 public:
  explicit DecomposePass(std::vector<AscendString> op_types) : op_types_(std::move(op_types)) {}
  virtual ~DecomposePass() = default;

 protected:
  virtual bool MeetRequirements(const GNode& /*node*/) { return true; }
  virtual GraphUniqPtr Replacement(const GNode& node) = 0;

 private:
  friend class DecomposePassAdapter;
  std::vector<AscendString> op_types_;
};

// --- over gex's passes --------------------------------------------------------------------------

namespace detail {

// Inputs that a hook creates without a type, for as long as it runs.
class InputTypesScope {
 public:
  InputTypesScope() { es::detail::InputTypes::OfThisThread().in_pattern = true; }
  explicit InputTypesScope(const gex::es::Match& match) {
    for (std::size_t k = 0; k < match.input_count(); ++k)
      es::detail::InputTypes::OfThisThread().matched.push_back(match.Input(k));
  }
  ~InputTypesScope() { es::detail::InputTypes::OfThisThread() = {}; }
  InputTypesScope(const InputTypesScope&) = delete;
  InputTypesScope& operator=(const InputTypesScope&) = delete;
};

inline std::vector<gex::es::EsTensorHolder> Inlined(const gex::es::Match& match,
                                                    const GraphUniqPtr& replacement) {
  if (replacement == nullptr)
    throw gex::es::Error(GEX_INVALID_ARGUMENT, "Replacement() returned no graph");
  if (replacement->input_count() != match.input_count())
    throw gex::es::Error(GEX_INVALID_ARGUMENT,
                         "the replacement has " + std::to_string(replacement->input_count()) +
                             " inputs, the match has " + std::to_string(match.input_count()));
  return match.Inline(*replacement);
}

inline const char* NameOf(CustomPassStage stage) {
  switch (stage) {
    case CustomPassStage::kBeforeInferShape:
      return "BEFORE_INFER_SHAPE";
    case CustomPassStage::kAfterInferShape:
      return "AFTER_INFER_SHAPE";
    case CustomPassStage::kAfterBuiltinFusionPass:
    case CustomPassStage::kCompatibleInherited:
      return "AFTER_BUILTIN_FUSION_PASS";
    case CustomPassStage::kAfterOriginGraphOptimize:
      return "AFTER_ORIGIN_GRAPH_OPTIMIZE";
    default:
      throw gex::es::Error(GEX_UNSUPPORTED,
                           "fusion passes don't run at kAfterAssignLogicStream; use "
                           "kAfterOriginGraphOptimize");
  }
}

}  // namespace detail

class PatternPassAdapter : public gex::es::PatternPass {
 public:
  explicit PatternPassAdapter(std::unique_ptr<PatternFusionPass> pass) : pass_(std::move(pass)) {}

  std::vector<gex::es::Pattern> Patterns() const override {
    const detail::InputTypesScope scope;
    std::vector<gex::es::Pattern> patterns;
    for (PatternUniqPtr& pattern : pass_->Patterns()) patterns.push_back(pattern->Take());
    return patterns;
  }
  bool MeetRequirements(const gex::es::Match& match) const override {
    return pass_->MeetRequirements(std::make_unique<MatchResult>(match));
  }
  Holders Replacement(const gex::es::Match& match) const override {
    const detail::InputTypesScope scope(match);
    return detail::Inlined(match, pass_->Replacement(std::make_unique<MatchResult>(match)));
  }
  bool AnyConstants() const override { return !pass_->config_->IsEnableConstValueMatch(); }
  bool AnyAttributes() const override { return !pass_->config_->IsEnableIrAttrMatch(); }

 private:
  std::unique_ptr<PatternFusionPass> pass_;
};

class DecomposePassAdapter : public gex::es::DecomposePass {
 public:
  explicit DecomposePassAdapter(std::unique_ptr<fusion::DecomposePass> pass)
      : pass_(std::move(pass)) {}

  std::vector<std::string> Ops() const override {
    std::vector<std::string> ops;
    for (const AscendString& type : pass_->op_types_)
      ops.push_back(ge::detail::OpOfType(type.GetString()));
    return ops;
  }
  bool MeetRequirements(const gex::es::Match& match) const override {
    return pass_->MeetRequirements(GNode(match.Output()));
  }
  Holders Replacement(const gex::es::Match& match) const override {
    const detail::InputTypesScope scope(match);
    return detail::Inlined(match, pass_->Replacement(GNode(match.Output())));
  }

 private:
  std::unique_ptr<fusion::DecomposePass> pass_;
};

// What REG_FUSION_PASS and REG_DECOMPOSE_PASS collect before they register.
class FusionPassRegistrationData {
 public:
  using Make = std::function<void(gex_pass& c)>;
  FusionPassRegistrationData(std::string name, Make make)
      : name_(std::move(name)), make_(std::move(make)) {}
  FusionPassRegistrationData& Stage(CustomPassStage stage) {
    stage_ = stage;
    return *this;
  }
  void Register() const {
    gex_pass c = GEX_PASS_INIT;
    c.name = name_.c_str();
    c.stage = detail::NameOf(stage_);
    c.level = 1;
    make_(c);
  }

 private:
  std::string name_;
  Make make_;
  CustomPassStage stage_ = CustomPassStage::kBeforeInferShape;
};

template <class P>
FusionPassRegistrationData FusionPassOf(const char* name) {
  return {name, [](gex_pass& c) {
            gex::es::detail::Register(std::unique_ptr<gex::es::PatternPass>(
                                          new PatternPassAdapter(std::make_unique<P>())),
                                      c);
          }};
}
template <class P>
FusionPassRegistrationData DecomposePassOf(const char* name, std::vector<AscendString> op_types) {
  return {name, [types = std::move(op_types)](gex_pass& c) {
            gex::es::detail::Register(std::unique_ptr<gex::es::DecomposePass>(
                                          new DecomposePassAdapter(std::make_unique<P>(types))),
                                      c);
          }};
}

// A static object registers while its library is loaded, where exceptions can't be caught.
class PassRegistrar {
 public:
  PassRegistrar(const FusionPassRegistrationData& data) {  // NOLINT: initialises a static object
    try {
      data.Register();
    } catch (const std::exception& error) {
      gex_plugin_failed(error.what());
    }
  }
};

}  // namespace fusion
}  // namespace ge

#define GEX_GE_JOINED(a, b) a##b
#define GEX_GE_NAMED(counter) GEX_GE_JOINED(gex_ge_pass_, counter)
// Followed by .Stage(CustomPassStage::...) and a semicolon.
#define REG_FUSION_PASS(Class)                                                          \
  [[maybe_unused]] static const ::ge::fusion::PassRegistrar GEX_GE_NAMED(__COUNTER__) = \
      ::ge::fusion::FusionPassOf<Class>(#Class)
#define REG_DECOMPOSE_PASS(Class, ...)                                                  \
  [[maybe_unused]] static const ::ge::fusion::PassRegistrar GEX_GE_NAMED(__COUNTER__) = \
      ::ge::fusion::DecomposePassOf<Class>(#Class, __VA_ARGS__)
