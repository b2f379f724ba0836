#pragma once
// GE's fusion passes (ge::fusion::FusionBasePass, PatternFusionPass, DecomposePass,
// REG_FUSION_PASS) over the passes of gex/pass.hpp. A replacement is a graph whose inputs get the
// types of the matched tensors, so shapes need not be inferred again. A hook that throws, or a
// replacement that is null, fails the compile with the name of the pass.

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gex/compat/ge.hpp"
#include "gex/compat/ge_match.hpp"
#include "gex/compat/ge_ops.hpp"
#include "gex/pass.hpp"

namespace ge {

using std::vector;  // GE's headers offer it, and samples rely on that

enum class CustomPassStage {
  kBeforeInferShape = 0,
  kAfterInferShape = 1,
  kAfterAssignLogicStream = 2,
  kAfterBuiltinFusionPass = 3,
  kAfterOriginGraphOptimize = 4,
  kCompatibleInherited = 5,
};

namespace fusion {

// Replacements already have the types of the tensors they are replaced for.
class InferShapeUtil {
 public:
  template <class Boundary>
  static Status InferShape(const Graph& /*replacement*/, const Boundary& /*boundary*/) {
    return SUCCESS;
  }
};

// A pass that walks and changes a whole graph. Replacements that it builds have inputs of one f32
// unless they are created with a type; their ops get the types of the real tensors when they are
// put into the graph.
class FusionBasePass {
 public:
  virtual ~FusionBasePass() = default;
  virtual Status Run(GraphPtr& graph, CustomPassContext& context) = 0;
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

// Calls a function with the graph in GE's form.
class GraphPassAdapter : public gex::es::GraphPass {
 public:
  using Function = std::function<Status(GraphPtr& graph, CustomPassContext& context)>;
  GraphPassAdapter(std::string name, Function run) : name_(std::move(name)), run_(std::move(run)) {}

  bool Run(gex::es::GraphEditor& editor) const override {
    const detail::InputTypesScope scope;
    auto graph = std::make_shared<Graph>(gex::es::Graph::Lent(editor.handle()));
    CustomPassContext context;
    context.SetPassName(name_);
    const std::size_t before = ge::detail::EditsOfThisThread();
    const Status status = run_(graph, context);
    if (status != SUCCESS && status != GRAPH_NOT_CHANGED) {
      const AscendString message = context.GetErrorMessage();
      throw gex::es::Error(GEX_INVALID_ARGUMENT, message.GetLength() == 0
                                                     ? "it returned " + std::to_string(status)
                                                     : message.GetString());
    }
    if (graph == nullptr || graph->handle() != editor.handle())
      throw gex::es::Error(GEX_UNSUPPORTED,
                           "it replaced the whole graph; change the graph that it was given");
    graph->FinishEdits();
    return ge::detail::EditsOfThisThread() != before;
  }

 private:
  std::string name_;
  Function run_;
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
  return {
      name, [name = std::string(name)](gex_pass& c) {
        if constexpr (std::is_base_of_v<FusionBasePass, P>) {
          auto pass = std::make_shared<P>();
          gex::es::detail::Register(
              std::unique_ptr<gex::es::GraphPass>(new GraphPassAdapter(
                  name, [pass](GraphPtr& graph,
                               CustomPassContext& context) { return pass->Run(graph, context); })),
              c);
        } else {
          gex::es::detail::Register(
              std::unique_ptr<gex::es::PatternPass>(new PatternPassAdapter(std::make_unique<P>())),
              c);
        }
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

// Sizes and types are inferred, and support is checked, when nodes are made.
class GeUtils {
 public:
  static Status InferShape(const Graph& /*graph*/, const std::vector<Shape>& /*inputs*/) {
    return SUCCESS;
  }
  static Status CheckNodeSupportOnAicore(const GNode& /*node*/, bool& is_supported,
                                         AscendString& /*reason*/) {
    is_supported = true;
    return SUCCESS;
  }
};

// REGISTER_CUSTOM_PASS("name").CustomPassFn(function).Stage(stage)
class PassRegistrationData {
 public:
  explicit PassRegistrationData(std::string name) : name_(std::move(name)) {}
  PassRegistrationData& CustomPassFn(fusion::GraphPassAdapter::Function run) {
    run_ = std::move(run);
    return *this;
  }
  PassRegistrationData& Stage(CustomPassStage stage) {
    stage_ = stage;
    return *this;
  }
  operator fusion::FusionPassRegistrationData() const {  // NOLINT: what PassRegistrar takes
    fusion::FusionPassRegistrationData data(name_, [name = name_, run = run_](gex_pass& c) {
      if (!run) throw gex::es::Error(GEX_INVALID_ARGUMENT, "CustomPassFn was not set");
      gex::es::detail::Register(
          std::unique_ptr<gex::es::GraphPass>(new fusion::GraphPassAdapter(name, run)), c);
    });
    data.Stage(stage_);
    return data;
  }

 private:
  std::string name_;
  fusion::GraphPassAdapter::Function run_;
  CustomPassStage stage_ = CustomPassStage::kBeforeInferShape;
};

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
#define REGISTER_CUSTOM_PASS(name)                                                      \
  [[maybe_unused]] static const ::ge::fusion::PassRegistrar GEX_GE_NAMED(__COUNTER__) = \
      ::ge::PassRegistrationData(name)
