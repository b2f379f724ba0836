// Attention as a problem.

#include "ops/core/attributes.hpp"
#include "ops/problem_rules.hpp"

namespace gex::ops {

namespace {

constexpr int kMask = 3;

// The kernel's batch and heads, if the operands have none.
Shape with_heads(Shape shape) {
  while (shape.size() < 4) shape.insert(shape.begin(), Dim(1));
  return shape;
}

void add_strides(std::vector<Dim>& dims, std::vector<Dim> strides) {
  while (strides.size() < 4) strides.insert(strides.begin(), Dim(0));
  dims.insert(dims.end(), strides.begin(), strides.end());
}

void add_mask(ProblemContext& c, problems::AttentionProblem& problem, ProblemLaunch& launch) {
  const Type& type = c.node.input(kMask)->type();
  problem.mask =
      type.dtype == DType::boolean ? problems::MaskKind::boolean : problems::MaskKind::additive;
  problem.mask_dtype = type.dtype;
  StridedOperand mask = c.operand(kMask);
  std::vector<Dim> strides(4, Dim(0));
  const std::size_t skip = 4 - type.shape.size();
  for (std::size_t d = skip; d < 4; ++d)
    if (!(type.shape[d - skip] == Dim(1))) strides[d] = mask.strides[d - skip];
  launch.dims.insert(launch.dims.end(), strides.begin(), strides.end());
  launch.operands.push_back(std::move(mask));
}

ProblemLaunch attention_launch(ProblemContext& c) {
  const auto attrs = c.node.as<Attention>();
  const Type& q_type = c.node.input(0)->type();
  const Type& out_type = c.node.output()->type();
  const Shape q = with_heads(q_type.shape), k = with_heads(c.node.input(1)->type().shape);
  const Shape v = with_heads(c.node.input(2)->type().shape);
  problems::AttentionProblem problem;
  problem.qkv = q_type.dtype;
  problem.out = c.has_epilogue ? accumulated(out_type.dtype) : out_type.dtype;
  problem.causal = attrs.causal ? problems::Causal::top_left : problems::Causal::none;
  problem.scale = attrs.scale;
  problem.nan_if_fully_masked = attrs.nan_if_fully_masked;
  problem.computed = c.computed;
  problem.keep_subnormals = c.keep_subnormals;
  ProblemLaunch launch;
  launch.operands = {c.operand(0), c.operand(1), c.operand(2)};
  launch.dims = {q[0], q[1], k[1], q[2], k[2], q[3], v[3]};
  for (const StridedOperand& operand : launch.operands) add_strides(launch.dims, operand.strides);
  add_strides(launch.dims, result_strides(c.node));
  if (c.node.has_input(kMask)) add_mask(c, problem, launch);
  launch.work = product(q) * k[2] * Dim(2);
  launch.problem = problem;
  return launch;
}

std::vector<int> attention_computable(const Node& node) {
  if (node.has_input(kMask)) return {0, 1, 2, kMask};
  return {0, 1, 2};
}

std::int64_t attention_reads(const Node& node, int operand, const CostModel& costs) {
  const Shape& q = node.input(0)->type().shape;
  const Shape& of = node.input(static_cast<std::size_t>(operand))->type().shape;
  const auto heads = [](const Shape& shape) {
    return shape.size() < 3 ? Dim(1) : shape[shape.size() - 3];
  };
  if (operand == 0) return 1;
  if (operand == kMask) return heads(of) == heads(q) ? 1 : reads_of(heads(q), 1);
  return reads_of(floordiv(heads(q), heads(of)) * q[q.size() - 2], costs.attention_query_rows);
}

// A mask that is broadcast over the keys has no rows to compute.
bool attention_accepts(const Node& node, int operand, bool repeated) {
  if (operand != kMask) return !repeated;
  const Shape& keys = node.input(1)->type().shape;
  return node.input(kMask)->type().shape.back() == keys[keys.size() - 2];
}

}  // namespace

ProblemRule attention_rule() {
  ProblemRule rule;
  rule.launch = attention_launch;
  rule.epilogue = true;
  rule.prologues = {.operands = attention_computable,
                    .times_read = attention_reads,
                    .accepts = attention_accepts};
  return rule;
}

}  // namespace gex::ops
