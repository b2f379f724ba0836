// Frozen right operands of matrix products and frozen weights of convolutions, packed once into the
// panels that the kernel reads. Here it is decided; frozen_plan.cpp does it.

#include <algorithm>

#include "backend/cpu/kernels/conv2d.hpp"
#include "backend/cpu/kernels/matmul.hpp"
#include "backend/cpu/kernels/tiles.hpp"
#include "emit/emitter.hpp"

namespace gex::compile_detail {

using program::BufferDesc;
using program::BufferId;

void Emitter::define_frozen() {
  for (std::size_t k = 0; k < options_.frozen.size(); ++k) {
    const FrozenInput& input = options_.frozen[k];
    Value* value = graph_.inputs()[static_cast<std::size_t>(input.graph_input)].get();
    if (value->uses().empty()) continue;
    BufferDesc desc = describe(value->type(), BufferDesc::Kind::constant, value->name());
    buffers_[value] = add_frozen(std::move(desc), {static_cast<int>(k), {}}, input.contents);
  }
}

BufferId Emitter::add_frozen(BufferDesc desc, FrozenSlot slot, bool contents) {
  desc.slot = static_cast<int>(out_.frozen.size());
  out_.frozen.push_back(std::move(slot));
  frozen_contents_.push_back(contents);
  return add_buffer(std::move(desc));
}

bool Emitter::is_frozen(const Value* value) const {
  return value->is_input() && &value->graph() == &graph_ &&
         std::ranges::any_of(options_.frozen, [&](const FrozenInput& input) {
           return input.graph_input == value->index();
         });
}

bool Emitter::has_frozen_contents(BufferId id) const {
  const BufferDesc& desc = program_.buffers[static_cast<std::size_t>(id)];
  return desc.kind == BufferDesc::Kind::constant && desc.slot >= 0 &&
         frozen_contents_[static_cast<std::size_t>(desc.slot)];
}

// Few rows or columns are multiplied without panels: there the operand is read where it lies.
bool Emitter::pack_right(const Operand& right, ChoicePlan& plan, kernels::MatmulProblem& problem) {
  namespace at = kernels::matmul_dims;
  if (!has_frozen_contents(right.buffer)) return false;
  const Dim m = plan.dims[at::m], n = plan.dims[at::n], k = plan.dims[at::k];
  if (m.as_const().value_or(kernels::kFewRows + 1) <= kernels::kFewRows) return false;
  std::vector<Dim> sizes,
      strides(plan.dims.begin() + at::b_strides, plan.dims.begin() + at::b_strides + 4);
  for (int level = 0; level < 2; ++level) {
    const auto l = static_cast<std::size_t>(level);
    sizes.push_back(strides[l] == Dim(0) ? Dim(1) : plan.dims[l]);
  }
  std::vector<std::int64_t> dims;
  for (Dim d : {sizes[0], sizes[1], n, k, strides[0], strides[1], strides[2], strides[3]}) {
    if (!d.is_const()) return false;
    dims.push_back(d.constant());
  }
  if (!right.offset.is_const() || n.constant() <= kernels::kFewRows) return false;

  problem.b_packed = true;
  const Dim one = kernels::matmul_packed_elements(problem, 1, n, k);
  const Dim batches = sizes[0] * sizes[1];
  plan.operands[1] = packed(right, "matmul", problem.b, batches * one, dims, problem,
                            kernels::matmul_pack_grid(problem, batches, n, k));
  plan.dims[at::b_strides] = strides[0] == Dim(0) ? Dim(0) : sizes[1] * one;
  plan.dims[at::b_strides + 1] = strides[1] == Dim(0) ? Dim(0) : one;
  return true;
}

bool Emitter::pack_weights(const Operand& weights, const ChoicePlan& plan,
                           kernels::Conv2dProblem& problem, BufferId& packed_weights) {
  namespace at = kernels::conv2d_dims;
  if (!has_frozen_contents(weights.buffer) || !weights.offset.is_const()) return false;
  std::vector<std::int64_t> d;
  for (Dim dim : plan.dims) {
    // Strides of the images may be anything.
    const auto position = static_cast<int>(d.size());
    const bool needed = position < at::x_strides
                            ? position != at::n
                            : position >= at::w_strides && position < at::y_strides;
    if (needed && !dim.is_const()) return false;
    d.push_back(dim.as_const().value_or(0));
  }
  const std::int64_t channels = d[at::c] / problem.groups;
  const kernels::ConvSizes sizes = kernels::conv_sizes(
      problem.x, {problem.stride[0], problem.stride[1]}, {problem.dilation[0], problem.dilation[1]},
      {problem.pad[0], problem.pad[1]}, problem.groups, problem.x_computed, d.data());
  if (!kernels::conv2d_packs_weights(problem, sizes)) return false;
  problem.w_packed = true;
  const std::vector<std::int64_t> dims = {d[at::o],
                                          channels,
                                          d[at::kh],
                                          d[at::kw],
                                          d[at::w_strides],
                                          d[at::w_strides + 1],
                                          d[at::w_strides + 2],
                                          d[at::w_strides + 3]};
  packed_weights = packed(weights, str("conv2d ", problem.groups), problem.w,
                          kernels::conv2d_packed_elements(problem, d[at::o], sizes.depth()), dims,
                          problem, kernels::conv2d_pack_grid(problem, d[at::o]));
  return true;
}

BufferId Emitter::packed(const Operand& source, const std::string& form, DType dtype, Dim elements,
                         const std::vector<std::int64_t>& dims, const kernels::Problem& problem,
                         Dim grid) {
  std::string key = str(form, " ", source.buffer, " ", source.offset);
  for (std::int64_t d : dims) key += str(" ", d);
  auto [found, added] = packed_.try_emplace(key, -1);
  if (!added) return found->second;
  const BufferDesc& from = program_.buffers[static_cast<std::size_t>(source.buffer)];
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t bytes = elements.constant() * element;
  FrozenSlot slot{from.slot, FrozenSlot::Packing{problem, source.offset.constant() * element, bytes,
                                                 dims, grid.constant()}};
  BufferDesc desc =
      describe(Type::tensor(dtype, {elements}), BufferDesc::Kind::constant, from.name + ".packed");
  found->second = add_frozen(std::move(desc), std::move(slot), true);
  program_.counters.push_back({"packed_bytes", bytes});
  return found->second;
}

}  // namespace gex::compile_detail
