#include "lower/prologue.hpp"

#include <algorithm>

#include "loop/builder.hpp"
#include "lower/views.hpp"
#include "ops/core/problem_rule.hpp"

namespace gex::lower {

namespace {

// Many calls for few elements each take longer than one loop over all elements.
bool has_many_short_rows(const Shape& shape) {
  constexpr std::int64_t kShortRow = 16, kMany = 4096;
  if (!shape.back().is_const() || shape.back().constant() >= kShortRow) return false;
  const Dim elements = product(shape);
  return !elements.is_const() || elements.constant() > kMany;
}

// Whether it reads a large tensor across its rows: each call of a prologue would touch a cache line
// for every element, where a kernel of its own goes through blocks of both tensors.
bool reads_across_rows(const loop::Kernel& kernel) {
  constexpr std::int64_t kLarge = 64 * 1024;
  if (kernel.grid.empty() || !known_lt(kLarge, kernel.grid_size()).value_or(true)) return false;
  const Dim along = kernel.grid.back().index;
  return std::ranges::any_of(kernel.stages.front().exprs, [&](const loop::Expr& e) {
    if (e.kind != loop::Expr::Kind::load) return false;
    const loop::Buffer& buffer = kernel.buffers[static_cast<std::size_t>(e.buffer)];
    const auto parts = affine_in(loop::linear_offset(buffer, e.index), along);
    return parts && !(parts->coefficient == Dim(0)) && !(parts->coefficient == Dim(1));
  });
}

}  // namespace

std::vector<int> computable_operands(const Node& node) {
  if (!is_problem(node) || !node.op().problem->prologues) return {};
  return node.op().problem->prologues->operands(node);
}

Value* computable_value(const Node& node, int operand) {
  Value* input = operand_value(node, operand);
  const auto view = resolve_view(input);
  if (!view || view->base->producer() == nullptr || view->base->type().strides) return nullptr;
  if (!(view->offset == Dim(0)) || view->strides.size() < 2) return nullptr;
  const auto is_base = [&](Value* other) {
    if (other == nullptr || other->type().is_token()) return false;
    const auto view_of_other = resolve_view(other);
    return (view_of_other ? view_of_other->base : other) == view->base;
  };
  int reads = 0;
  for (int k = 0; k < static_cast<int>(node.inputs().size()); ++k)
    reads += is_base(operand_value(node, k)) ? 1 : 0;
  if (reads != 1) return nullptr;
  const ops::PrologueRule& rule = *node.op().problem->prologues;
  const bool repeated =
      !provably_eq(product(view->base->type().shape), product(input->type().shape));
  if (rule.accepts != nullptr ? !rule.accepts(node, operand, repeated) : repeated) return nullptr;
  const bool along_rows = view->strides.back() == Dim(1);
  const bool along_columns = view->strides[view->strides.size() - 2] == Dim(1);
  return along_rows || (rule.along_columns && along_columns) ? view->base : nullptr;
}

bool prologue_pays(const Node& node, int operand, const std::vector<const Node*>& nodes,
                   const CostModel& costs) {
  std::int64_t cost = 0;
  for (const Node* part : nodes) cost += weight_of(*part);
  const ops::PrologueRule& rule = *node.op().problem->prologues;
  if (rule.whole_rows && has_many_short_rows(computable_value(node, operand)->type().shape))
    return false;
  return cost * rule.times_read(node, operand, costs) <= costs.memory_round_trip;
}

LoweredCluster lower_prologue(const Node& problem, const ClusterPrologue& prologue,
                              const std::unordered_set<const Value*>& in_memory,
                              const FuseOptions& options) {
  Cluster cluster;
  cluster.nodes = prologue.nodes;
  cluster.space = prologue.value->type().shape;
  LoweredCluster lowered = lower_cluster(cluster, {prologue.value}, in_memory, options);
  if (!lowered.ok) return lowered;
  const auto refuse = [&](std::string reason) {
    lowered.ok = false;
    lowered.reason = std::move(reason);
    return lowered;
  };
  if (lowered.inputs.empty()) return refuse("it reads nothing from memory");
  if (static_cast<int>(lowered.inputs.size()) > options.costs.max_prologue_inputs)
    return refuse("it reads too many tensors");
  if (lowered.kernel.stages.size() != 1 || !(lowered.kernel.scratch_bytes() == Dim(0)))
    return refuse("it is more than one loop");
  if (reads_across_rows(lowered.kernel)) return refuse("it reads a tensor across its rows");
  // Elements are rounded as if stored, then widened to the accumulator type, including a mask's.
  const DType dtype = problem.input(0)->type().dtype == DType::f64 ? DType::f64 : DType::f32;
  loop::Stage& stage = lowered.kernel.stages.front();
  GEX_CHECK(stage.stores.size() == 1, "a prologue with ", stage.stores.size(), " stores");
  loop::ScalarBuilder builder(stage.exprs);
  loop::Store& store = stage.stores.front();
  store.value = builder.cast({store.value, prologue.value->type().dtype}, dtype).id;
  lowered.kernel.buffers[static_cast<std::size_t>(store.buffer)].dtype = dtype;
  return lowered;
}

}  // namespace gex::lower
