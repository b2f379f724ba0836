#include "lower/prologue.hpp"

#include <algorithm>

#include "loop/builder.hpp"
#include "lower/views.hpp"
#include "ops/core/attributes.hpp"

namespace gex::lower {

namespace {

// How often an operand is read where the size that decides is not known: a typical number.
constexpr std::int64_t kUnknownRepeats = 4;

std::int64_t repeats(Dim size, std::int64_t block) {
  if (!size.is_const()) return kUnknownRepeats;
  return std::max<std::int64_t>(1, (size.constant() + block - 1) / block);
}

// How often the kernel asks for each element of an operand.
std::int64_t times_read(const Node& node, int operand, const CostModel& costs) {
  const Shape& out = node.output()->type().shape;
  if (node.is("matmul")) {
    // Rows of one tile meet all of its columns at once.
    const Dim own = operand == 0 ? out[out.size() - 2] : out.back();
    const Dim other = operand == 0 ? out.back() : out[out.size() - 2];
    const Shape& of = node.input(static_cast<std::size_t>(operand))->type().shape;
    const auto batches = [](const Shape& shape) {
      return product(Shape(shape.begin(), shape.end() - 2));
    };
    const bool shared = !(batches(of) == batches(out));
    const std::int64_t sharing = shared ? repeats(floordiv(batches(out), batches(of)), 1) : 1;
    // A launch of its own would take longer than computing so few elements.
    if (!shared && own.is_const() && own.constant() <= costs.few_rows) return 0;
    return sharing * repeats(other, costs.matmul_tile_columns);
  }
  if (node.is("conv2d")) return costs.conv_image_reads;
  const Shape& q = node.input(0)->type().shape;
  const Shape& of = node.input(static_cast<std::size_t>(operand))->type().shape;
  const auto heads = [](const Shape& shape) {
    return shape.size() < 3 ? Dim(1) : shape[shape.size() - 3];
  };
  if (operand == 0) return 1;
  if (operand == 3) return heads(of) == heads(q) ? 1 : repeats(heads(q), 1);
  return repeats(floordiv(heads(q), heads(of)) * q[q.size() - 2], costs.attention_query_rows);
}

// Each call of the code is for one row at most, except in convolutions: many calls for few
// elements each take longer than a loop over all.
bool has_many_short_rows(const Node& node, const Shape& shape) {
  constexpr std::int64_t kShortRow = 16, kMany = 4096;
  if (node.is("conv2d") || !shape.back().is_const() || shape.back().constant() >= kShortRow)
    return false;
  const Dim elements = product(shape);
  return !elements.is_const() || elements.constant() > kMany;
}

}  // namespace

std::vector<int> computable_operands(const Node& node) {
  if (node.is("matmul") && node.output()->type().shape.size() <= 4) return {0, 1};
  if (node.is("conv2d") && node.as<ops::Conv>().groups == 1) return {0};
  if (node.is("attention"))
    return node.has_input(3) ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0, 1, 2};
  return {};
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
  if (operand == 3) {
    // A mask that is broadcast over the keys has no rows to compute.
    const Shape& keys = node.input(1)->type().shape;
    if (!(input->type().shape.back() == keys[keys.size() - 2])) return nullptr;
  } else if (!provably_eq(product(view->base->type().shape), product(input->type().shape))) {
    return nullptr;  // broadcast by a view: its elements would be computed several times
  }
  const bool along_rows = view->strides.back() == Dim(1);
  const bool along_columns = view->strides[view->strides.size() - 2] == Dim(1);
  return along_rows || (node.is("matmul") && along_columns) ? view->base : nullptr;
}

bool prologue_pays(const Node& node, int operand, const std::vector<const Node*>& nodes,
                   const CostModel& costs) {
  std::int64_t cost = 0;
  for (const Node* part : nodes) cost += weight_of(*part);
  if (has_many_short_rows(node, computable_value(node, operand)->type().shape)) return false;
  return cost * times_read(node, operand, costs) <= costs.memory_round_trip;
}

LoweredCluster lower_prologue(const Node& contraction, const ClusterPrologue& prologue,
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
  // Elements are rounded as they would be in memory, then widened to what is summed: a mask's too.
  const DType dtype = contraction.input(0)->type().dtype == DType::f64 ? DType::f64 : DType::f32;
  loop::Stage& stage = lowered.kernel.stages.front();
  GEX_CHECK(stage.stores.size() == 1, "a prologue with ", stage.stores.size(), " stores");
  loop::ScalarBuilder builder(stage.exprs);
  loop::Store& store = stage.stores.front();
  store.value = builder.cast({store.value, prologue.value->type().dtype}, dtype).id;
  lowered.kernel.buffers[static_cast<std::size_t>(store.buffer)].dtype = dtype;
  return lowered;
}

}  // namespace gex::lower
