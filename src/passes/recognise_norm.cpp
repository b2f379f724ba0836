#include "passes/recognise_norm.hpp"

#include "ops/core/build.hpp"
#include "passes/engine/pattern_pass.hpp"
#include "passes/splat.hpp"

namespace gex::passes {
namespace {

// How many trailing axes are reduced, if exactly those are and keepdim is set.
std::optional<std::int64_t> last_axes(const ops::Ints& axes, bool keepdim, std::int64_t rank) {
  const auto count = static_cast<std::int64_t>(axes.size());
  for (std::int64_t k = 0; k < count; ++k)
    if (axes[static_cast<std::size_t>(k)] != rank - count + k) return std::nullopt;
  return keepdim && count > 0 ? std::optional(count) : std::nullopt;
}

std::optional<std::int64_t> folded_axes(const Node& node) {
  const std::int64_t rank = node.input(0)->type().rank();
  if (node.is("variance")) {
    const auto a = node.as<ops::Variance>();
    return a.correction == 0 ? last_axes(a.axes, a.keepdim, rank) : std::nullopt;
  }
  const auto a = node.as<ops::Reduce>();
  return last_axes(a.axes, a.keepdim, rank);
}

// The norm that a match represents: all its statistics are over the same trailing axes, and its
// constant is the epsilon.
std::optional<ops::Norm> norm_of(const Match& match) {
  const DType dtype = match.inputs[0]->type().dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return std::nullopt;
  std::optional<std::int64_t> rank;
  std::optional<double> eps;
  bool divide = false;
  for (const Node* node : match.nodes) {
    if (node->op().has(Trait::constant)) eps = splat(node->output());
    if (node->is("div")) divide = true;
    if (!node->is("reduce_mean") && !node->is("variance")) continue;
    const auto axes = folded_axes(*node);
    if (!axes || (rank && rank != axes)) return std::nullopt;
    rank = axes;
  }
  if (!rank || !eps) return std::nullopt;
  return ops::Norm{*rank, *eps, divide};
}

PatternRule rule(const std::string& lines, const char* op_name, std::vector<std::string> folding) {
  PatternRule rule;
  rule.pattern =
      parse_graph("graph norm(%x: f32[2, 4]) -> (f32[2, 4]) {\n" + lines + "  return %y\n}");
  rule.any_attributes = std::move(folding);
  rule.any_constants = true;
  rule.condition = [](const Match& match) { return norm_of(match).has_value(); };
  rule.replacement = [op_name](Graph& graph, const Match& match) {
    std::vector<Value*> inputs = match.inputs;
    inputs.resize(op(op_name).inputs.size(), nullptr);
    return std::vector<Value*>{
        graph.add(op(op_name), inputs, to_attr_list(*norm_of(match)))->output()};
  };
  return rule;
}

// The forms of `variance` and, for a layer norm, `centred`.
constexpr const char* kMeanOfSquares = R"(
  %mean = reduce_mean(%x) {axes = [1], keepdim = true} : f32[2, 1]
  %centred = sub(%x, %mean) : f32[2, 4]
  %square = mul(%centred, %centred) : f32[2, 4]
  %variance = reduce_mean(%square) {axes = [1], keepdim = true} : f32[2, 1]
)";
constexpr const char* kVarianceBesideMean = R"(
  %mean = reduce_mean(%x) {axes = [1], keepdim = true} : f32[2, 1]
  %centred = sub(%x, %mean) : f32[2, 4]
  %variance, %other = variance(%x) {axes = [1], keepdim = true, correction = 0.0} : f32[2, 1], f32[2, 1]
)";
constexpr const char* kVarianceAndMean = R"(
  %variance, %mean = variance(%x) {axes = [1], keepdim = true, correction = 0.0} : f32[2, 1], f32[2, 1]
  %centred = sub(%x, %mean) : f32[2, 4]
)";
constexpr const char* kSquares = R"(
  %square = mul(%x, %x) : f32[2, 4]
  %variance = reduce_mean(%square) {axes = [1], keepdim = true} : f32[2, 1]
)";

// The possible endings for the named value.
std::vector<std::string> endings(const std::string& value) {
  const std::string sum = R"(
  %eps = full() {dtype = f32, value = 1e-05, shape = []} : f32[]
  %sum = add(%variance, %eps) : f32[2, 1]
)";
  const std::string product = "  %y = mul(" + value + ", %scale) : f32[2, 4]\n";
  const std::string root = "  %root = sqrt(%sum) : f32[2, 1]\n";
  return {sum + "  %scale = rsqrt(%sum) : f32[2, 1]\n" + product,
          sum + root + "  %scale = reciprocal(%root) : f32[2, 1]\n" + product,
          sum + root + "  %y = div(" + value + ", %root) : f32[2, 4]\n"};
}

}  // namespace

Pass recognise_norm() {
  PatternPass pass{"recognise-norm", "recognises RMS and layer norms", Stage::early, 2, {}};
  // Layer norms first: they contain an RMS norm.
  for (const std::string& ending : endings("%centred")) {
    pass.rules.push_back(rule(kMeanOfSquares + ending, "layer_norm", {"mean", "variance"}));
    pass.rules.push_back(rule(kVarianceBesideMean + ending, "layer_norm", {"mean", "variance"}));
    pass.rules.push_back(rule(kVarianceAndMean + ending, "layer_norm", {"variance"}));
  }
  for (const std::string& ending : endings("%x"))
    pass.rules.push_back(rule(kSquares + ending, "rms_norm", {"variance"}));
  return pattern_pass(std::move(pass));
}

}  // namespace gex::passes
