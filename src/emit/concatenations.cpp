#include "emit/concatenations.hpp"

#include <algorithm>

#include "loop/body.hpp"
#include "lower/cluster.hpp"
#include "ops/core/attributes.hpp"

namespace gex::emit {

using program::BufferDesc;
using program::BufferId;

namespace {

bool has_loop(const Node& node) {
  return node.op().body && (node.op().body->map || node.op().body->reduction);
}

// Whether the value is read from memory regardless of how the rest is fused.
bool lies_in_memory(const Value& value) {
  return std::any_of(value.uses().begin(), value.uses().end(), [](const Use& use) {
    if (use.node == nullptr) return true;
    if (lower::is_free(*use.node)) return lies_in_memory(*use.node->output());
    return lower::is_problem(*use.node) || !has_loop(*use.node);
  });
}

// Cost of computing one element; reductions and problems are expensive enough to keep their own
// kernel.
constexpr int kWorthKeeping = 8;
int cost_of(const Value& value) {
  const Node* node = value.producer();
  if (node == nullptr || !has_loop(*node)) return 0;
  if (lower::is_problem(*node) || node->op().body->reduction) return kWorthKeeping;
  int cost = lower::weight_of(*node);
  for (const Value* input : node->inputs()) {
    if (cost >= kWorthKeeping) break;
    if (input != nullptr) cost += cost_of(*input);
  }
  return cost;
}

// A kernel that computes many parts selects one of them for each element, and vectors can't branch:
// for a few vectors that costs less than a launch for each part. Where independent launches are
// merged into one kernel, that kernel would select as well.
bool selects_too_often(const Node& cat, const CostModel& costs) {
  constexpr std::size_t kFewParts = 4;
  constexpr std::int64_t kFewElements = 4096;
  if (costs.merges_launches || cat.inputs().size() <= kFewParts) return false;
  const Dim elements = cat.output()->type().numel();
  return !elements.is_const() || elements.constant() >= kFewElements;
}

std::vector<Dim> dense_if_none(const Type& type) {
  return type.strides.value_or(dense_strides(type.shape));
}

// Where each part of a concatenation begins, in elements of the result's memory.
std::vector<Dim> offsets_of(const Node& cat) {
  const auto axis = static_cast<std::size_t>(cat.as<ops::Axis>().axis);
  const Dim stride = lower::memory_strides(*cat.output())[axis];
  std::vector<Dim> offsets;
  Dim at = 0;
  for (const Value* part : cat.inputs()) {
    offsets.push_back(at * stride);
    at += part->type().shape[axis];
  }
  return offsets;
}

// Whether the part's producer can write it with the strides of the result.
bool can_be_placed(const Value& part, const Node& cat) {
  const Node* node = part.producer();
  if (node == nullptr || lower::is_free(*node) || !has_loop(*node)) return false;
  const bool is_output = std::any_of(part.uses().begin(), part.uses().end(),
                                     [](const Use& use) { return use.node == nullptr; });
  const std::vector<Dim> strides = lower::memory_strides(*cat.output());
  const bool lies_so = dense_if_none(part.type()) == strides;
  if (is_output || (part.type().strides && !lies_so)) return false;
  return !lower::is_problem(*node) || lies_so ||
         (node->op().problem->any_result_strides && strides.size() == 2);
}

}  // namespace

void Concatenations::choose(lower::FuseOptions& fuse_options) {
  fuse_options.cats_alone = !state_.options.place_cats;
  if (!state_.options.place_cats || !state_.options.fuse) return;
  std::unordered_set<const Value*> taken;
  for (const Node& node : state_.graph.nodes()) {
    if (!node.op().has(Trait::concatenation) || node.inputs().size() < 2) continue;
    Value* result = node.output();
    const bool elsewhere =
        fuse_options.views.count(result) != 0 || taken.count(result) != 0 ||
        std::any_of(state_.graph.ties().begin(), state_.graph.ties().end(), [&](const Tie& tie) {
          return state_.graph.outputs()[static_cast<std::size_t>(tie.output)] == result;
        });
    if (elsewhere || !lies_in_memory(*result)) continue;
    std::vector<Value*> parts;
    std::size_t kept = 0;  // parts that have their own kernel in any case
    for (Value* part : node.inputs()) {
      if (!can_be_placed(*part, node) || !taken.insert(part).second) continue;
      parts.push_back(part);
      if (cost_of(*part) >= kWorthKeeping) ++kept;
    }
    // One kernel could compute or copy all the others; writing them in place takes one kernel each.
    const bool few = kept == 0 || node.inputs().size() - kept > 1;
    if (few && !selects_too_often(node, state_.target.costs)) {
      for (Value* part : parts) taken.erase(part);
      continue;
    }
    for (Value* part : parts) {
      Type type = part->type();
      type.strides = lower::memory_strides(*result);
      part->set_type(std::move(type));
    }
    placed_.insert(&node);
  }
  fuse_options.placed_cats = placed_;
}

void Concatenations::place() {
  for (const Node& node : state_.graph.nodes()) {
    if (!placed_.contains(&node)) continue;
    const BufferId whole = memory_.of(node.output());
    windowed_.insert(whole);
    const std::vector<Dim> offsets = offsets_of(node);
    for (std::size_t k = 0; k < node.inputs().size(); ++k) {
      Value* part = node.input(k);
      if (!can_be_placed(*part, node) || state_.buffers.count(part) != 0) continue;
      BufferDesc desc = describe(part->type(), BufferDesc::Kind::temp, part->producer()->op().name);
      desc.alias_of = whole;
      desc.alias_offset = offsets[k] * Dim(static_cast<std::int64_t>(size_of(desc.dtype)));
      state_.buffers[part] = memory_.add(std::move(desc));
    }
  }
}

void Concatenations::emit(const Node& node) {
  const BufferId whole = state_.buffers.at(node.output());
  const std::vector<Dim> strides = lower::memory_strides(*node.output());
  const std::vector<Dim> offsets = offsets_of(node);
  std::int64_t copied = 0;
  for (std::size_t k = 0; k < node.inputs().size(); ++k) {
    const Operand from = memory_.operand(node.input(k));
    const BufferDesc& desc = state_.program.buffers[static_cast<std::size_t>(from.buffer)];
    const Dim bytes = Dim(static_cast<std::int64_t>(size_of(desc.dtype)));
    if (desc.alias_of == whole && desc.alias_offset == offsets[k] * bytes) continue;
    launches_.copy(memory_.window(whole, offsets[k]), strides, from.buffer, from.strides,
                   from.offset, node.input(k)->type(), "cat");
    ++copied;
  }
  const auto parts = static_cast<std::int64_t>(node.inputs().size());
  state_.program.counters.push_back({"cat_parts_placed", parts - copied});
}

}  // namespace gex::emit
