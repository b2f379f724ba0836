#include "passes/recognise_norm.hpp"

#include "ops/build.hpp"
#include "passes/pattern_pass.hpp"
#include "passes/splat.hpp"

namespace gex::passes {
namespace {

// How many of the last axes it folds, if it folds just those and keeps them as ones.
std::optional<std::int64_t> last_axes(const Node& reduction) {
  const auto attrs = reduction.as<ops::Reduce>();
  const std::int64_t rank = reduction.input(0)->type().rank();
  const auto count = static_cast<std::int64_t>(attrs.axes.size());
  for (std::int64_t k = 0; k < count; ++k)
    if (attrs.axes[static_cast<std::size_t>(k)] != rank - count + k) return std::nullopt;
  return attrs.keepdim && count > 0 ? std::optional(count) : std::nullopt;
}

const Node* find(const Match& match, std::string_view op_name, std::size_t skip = 0) {
  for (const Node* node : match.nodes)
    if (node->is(op_name) && skip-- == 0) return node;
  return nullptr;
}

// The number added under the root: the constant of the match.
std::optional<double> epsilon(const Match& match) {
  for (const Node* node : match.nodes)
    if (node->op().has(Trait::constant)) return splat(node->output());
  return std::nullopt;
}

std::optional<ops::Norm> norm_of(const Match& match) {
  const Value* x = match.inputs[0];
  const DType dtype = x->type().dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return std::nullopt;
  const std::optional<std::int64_t> rank = last_axes(*find(match, "reduce_mean"));
  const std::optional<double> eps = epsilon(match);
  if (!rank || !eps) return std::nullopt;
  if (const Node* second = find(match, "reduce_mean", 1); second && last_axes(*second) != rank)
    return std::nullopt;
  return ops::Norm{*rank, *eps};
}

PatternRule rule(const char* pattern, const char* op_name, std::vector<std::string> reductions) {
  PatternRule rule;
  rule.pattern = parse_graph(pattern);
  rule.any_attributes = std::move(reductions);
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

}  // namespace

Pass recognise_norm() {
  PatternPass pass{
      "recognise-norm", "RMS and layer norms written out become one op", Stage::early, 2, {}};
  // First: a root-mean-square norm is part of it.
  pass.rules.push_back(rule(R"(graph layer(%x: f32[2, 4]) -> (f32[2, 4]) {
    %mean = reduce_mean(%x) {axes = [1], keepdim = true} : f32[2, 1]
    %centred = sub(%x, %mean) : f32[2, 4]
    %square = mul(%centred, %centred) : f32[2, 4]
    %variance = reduce_mean(%square) {axes = [1], keepdim = true} : f32[2, 1]
    %eps = full() {dtype = f32, value = 1e-05, shape = []} : f32[]
    %sum = add(%variance, %eps) : f32[2, 1]
    %scale = rsqrt(%sum) : f32[2, 1]
    %y = mul(%centred, %scale) : f32[2, 4]
    return %y
  })",
                            "layer_norm", {"mean", "variance"}));
  pass.rules.push_back(rule(R"(graph rms(%x: f32[2, 4]) -> (f32[2, 4]) {
    %square = mul(%x, %x) : f32[2, 4]
    %mean = reduce_mean(%square) {axes = [1], keepdim = true} : f32[2, 1]
    %eps = full() {dtype = f32, value = 1e-05, shape = []} : f32[]
    %sum = add(%mean, %eps) : f32[2, 1]
    %scale = rsqrt(%sum) : f32[2, 1]
    %y = mul(%x, %scale) : f32[2, 4]
    return %y
  })",
                            "rms_norm", {"mean"}));
  return pattern_pass(std::move(pass));
}

}  // namespace gex::passes
