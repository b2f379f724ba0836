// Frozen right operands of matrix products, packed once into the panels that the kernel reads.

#include <algorithm>

#include "base/thread_pool.hpp"
#include "compile/emitter.hpp"
#include "compile/fold_frozen.hpp"
#include "kernels/matmul.hpp"
#include "kernels/tiles.hpp"

namespace gex::compile_detail {

using program::BufferDesc;
using program::BufferId;

void Emitter::define_frozen() {
  for (const FrozenInput& input : options_.frozen) {
    Value* value = graph_.inputs()[static_cast<std::size_t>(input.graph_input)].get();
    if (value->uses().empty()) continue;
    BufferDesc desc = describe(value->type(), BufferDesc::Kind::constant, value->name());
    buffers_[value] = add_frozen(std::move(desc), input.memory, input.contents);
  }
}

BufferId Emitter::add_frozen(BufferDesc desc, std::shared_ptr<const void> memory, bool contents) {
  desc.slot = static_cast<int>(out_.frozen.size());
  out_.frozen.push_back(std::move(memory));
  frozen_contents_.push_back(contents);
  return add_buffer(std::move(desc));
}

bool Emitter::is_frozen(const Value* value) const {
  return value->is_input() && &value->graph() == &graph_ &&
         std::ranges::any_of(options_.frozen, [&](const FrozenInput& input) {
           return input.graph_input == value->index();
         });
}

const void* Emitter::frozen_contents(BufferId id) const {
  const BufferDesc& desc = program_.buffers[static_cast<std::size_t>(id)];
  if (desc.kind != BufferDesc::Kind::constant || desc.slot < 0) return nullptr;
  const auto slot = static_cast<std::size_t>(desc.slot);
  return frozen_contents_[slot] ? out_.frozen[slot].get() : nullptr;
}

// Few rows or columns are multiplied without panels: there the operand is read where it lies.
bool Emitter::pack_right(const Operand& right, ChoicePlan& plan, kernels::MatmulProblem& problem) {
  namespace at = kernels::matmul_dims;
  const void* contents = frozen_contents(right.buffer);
  if (contents == nullptr) return false;
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
  std::string key = str(right.buffer, " ", right.offset);
  for (std::int64_t d : dims) key += str(" ", d);
  auto [found, added] = packed_.try_emplace(key, -1);
  if (added) {
    const auto element = static_cast<std::int64_t>(size_of(problem.b));
    const Dim total = sizes[0] * sizes[1] * one;
    std::shared_ptr<std::byte> memory =
        aligned_memory(static_cast<std::size_t>(total.constant() * element));
    const program::Callable pack = kernels::make_matmul_pack(problem);
    auto* from = const_cast<std::byte*>(static_cast<const std::byte*>(contents)) +
                 right.offset.constant() * element;
    void* buffers[] = {from, memory.get()};
    const Dim grid = kernels::matmul_pack_grid(problem, sizes[0] * sizes[1], n, k);
    ThreadPool::Region region(ThreadPool::global());
    region.parallel_for(grid.constant(), 1, [&](std::int64_t begin, std::int64_t end, int) {
      pack(buffers, dims.data(), begin, end, nullptr);
    });
    BufferDesc desc =
        describe(Type::tensor(problem.b, {total}), BufferDesc::Kind::constant,
                 program_.buffers[static_cast<std::size_t>(right.buffer)].name + ".packed");
    found->second = add_frozen(std::move(desc), std::move(memory), true);
    program_.counters.push_back({"packed_bytes", total.constant() * element});
  }
  plan.operands[1] = found->second;
  plan.dims[at::b_strides] = strides[0] == Dim(0) ? Dim(0) : sizes[1] * one;
  plan.dims[at::b_strides + 1] = strides[1] == Dim(0) ? Dim(0) : one;
  return true;
}

}  // namespace gex::compile_detail
