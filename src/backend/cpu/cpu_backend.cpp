#include "backend/cpu/cpu_backend.hpp"

#include <array>
#include <cstdlib>
#include <string_view>

#include "backend/cpu/code.hpp"
#include "backend/cpu/generator.hpp"
#include "backend/cpu/kernels/attention.hpp"
#include "backend/cpu/kernels/conv2d.hpp"
#include "backend/cpu/kernels/grouped_matmul.hpp"
#include "backend/cpu/kernels/integer_conv2d.hpp"
#include "backend/cpu/kernels/integer_product.hpp"
#include "backend/cpu/kernels/matmul.hpp"
#include "backend/cpu/kernels/quantised_matmul.hpp"
#include "backend/cpu/kernels/sort.hpp"
#include "backend/cpu/kernels/tiles.hpp"
#include "base/error.hpp"
#include "base/thread_pool.hpp"
#include "loop/kernel.hpp"

namespace gex::backend::cpu {

namespace {

using problems::Conv2dProblem;
using problems::MatmulProblem;
using problems::Problem;

static_assert(CostModel{}.matmul_tile_columns == kernels::kTileCols);
static_assert(CostModel{}.few_rows == kernels::kFewRows);
static_assert(CostModel{}.attention_query_rows == kernels::kQueryRows);
static_assert(CostModel{}.max_prologue_inputs == kernels::kMaxPrologueInputs);
static_assert(CostModel{}.max_epilogue_buffers == kernels::kMaxEpilogueBuffers);

struct Planner {
  std::span<const Dim> d;
  Dim at(int position) const { return d[static_cast<std::size_t>(position)]; }

  LaunchPlan operator()(const MatmulProblem& p) const {
    namespace dims = problems::matmul_dims;
    const Dim batch = at(dims::batch0) * at(dims::batch1);
    const Dim m = at(dims::m), n = at(dims::n), k = at(dims::k);
    return {kernels::matmul_grid(p, batch, m, n, k),
            kernels::matmul_scratch_bytes(p, batch, m, n, k), 0};
  }
  LaunchPlan operator()(const Conv2dProblem& p) const {
    namespace dims = problems::conv2d_dims;
    if (kernels::is_integer_product(p))
      return {kernels::integer_conv2d_grid(p, d), kernels::integer_conv2d_scratch_bytes(p, d), 0};
    return {kernels::conv2d_grid(p, at(dims::n), at(dims::o), at(dims::oh), at(dims::ow)),
            kernels::conv2d_scratch_bytes(p), 0};
  }
  LaunchPlan operator()(const problems::Conv2dWeightGradProblem& p) const {
    namespace dims = problems::conv2d_dims;
    const Dim taps = floordiv(at(dims::c), p.conv.groups) * at(dims::kh) * at(dims::kw);
    return {kernels::conv2d_weight_grad_grid(p.conv, at(dims::o), taps),
            kernels::conv2d_weight_grad_scratch_bytes(p.conv), 0};
  }
  LaunchPlan operator()(const problems::Conv2dInputGradProblem& p) const {
    namespace dims = problems::conv2d_dims;
    return {kernels::conv2d_input_grad_grid(at(dims::n), at(dims::c)),
            kernels::conv2d_input_grad_scratch_bytes(p.conv), 0};
  }
  LaunchPlan operator()(const problems::AttentionProblem& p) const {
    namespace dims = problems::attention_dims;
    return {kernels::attention_grid(p, at(dims::batch), at(dims::heads), at(dims::kv_heads),
                                    at(dims::queries)),
            kernels::attention_scratch_bytes(p, at(dims::head_size), at(dims::value_size)), 0};
  }
  LaunchPlan operator()(const problems::SortProblem& p) const {
    namespace dims = problems::sort_dims;
    Dim rows = 1;
    for (int axis = 0; axis < p.batch_rank; ++axis) rows *= at(dims::sizes + axis);
    return {rows, kernels::sort_scratch_bytes(p, at(dims::length)), 0};
  }
  LaunchPlan operator()(const problems::GroupedMatmulProblem& p) const {
    return {kernels::grouped_matmul_grid(at(problems::matmul_dims::n)),
            kernels::grouped_matmul_scratch_bytes(p), 0};
  }
  LaunchPlan operator()(const problems::GroupedWeightGradProblem& p) const {
    namespace dims = problems::matmul_dims;
    return {kernels::matmul_grid(p.grouped.product, 1, at(dims::m), at(dims::n), at(dims::k)),
            kernels::grouped_matmul_scratch_bytes(p.grouped), 0};
  }
  LaunchPlan operator()(const problems::QuantisedMatmulProblem& p) const {
    namespace dims = problems::quantised_dims;
    return {kernels::quantised_matmul_grid(at(dims::m), at(dims::n)),
            kernels::quantised_matmul_scratch_bytes(p, at(dims::m), at(dims::k)), 0};
  }
};

// Up to this many rows a matmul is bound by reading its right operand, in any layout.
constexpr std::int64_t kRowsInPlace = 3;

// Packs the right operand of a matmul into panels. Matmuls with few rows or columns read it in
// place.
std::optional<PackedOperand> pack_right(MatmulProblem& problem, std::vector<Dim>& launch_dims) {
  namespace at = problems::matmul_dims;
  const Dim m = launch_dims[at::m], n = launch_dims[at::n], k = launch_dims[at::k];
  // Integers are always packed: their panels also hold the sums of columns.
  const bool integers = kernels::is_integer_product(problem);
  if (!integers && m.as_const().value_or(kernels::kFewRows + 1) <= kRowsInPlace)
    return std::nullopt;
  const std::vector<Dim> strides(launch_dims.begin() + at::b_strides,
                                 launch_dims.begin() + at::b_strides + 4);
  const Dim size0 = strides[0] == Dim(0) ? Dim(1) : launch_dims[at::batch0];
  const Dim size1 = strides[1] == Dim(0) ? Dim(1) : launch_dims[at::batch1];
  std::vector<std::int64_t> dims;
  for (Dim d : {size0, size1, n, k, strides[0], strides[1], strides[2], strides[3]}) {
    if (!d.is_const()) return std::nullopt;
    dims.push_back(d.constant());
  }
  if (!integers && n.constant() <= kernels::kFewRows) return std::nullopt;
  problem.b_packed = true;
  const Dim one = kernels::matmul_packed_elements(problem, 1, n, k);
  const Dim batches = size0 * size1;
  launch_dims[at::b_strides] = strides[0] == Dim(0) ? Dim(0) : size1 * one;
  launch_dims[at::b_strides + 1] = strides[1] == Dim(0) ? Dim(0) : one;
  return PackedOperand{"matmul", problem.b, (batches * one).constant(), std::move(dims),
                       kernels::matmul_pack_grid(problem, batches, n, k).constant()};
}

// Dims of a launch that packs weights with these strides.
std::optional<PackedOperand> pack_integer_weights(Conv2dProblem& problem,
                                                  const std::vector<Dim>& launch_dims) {
  namespace at = problems::conv2d_dims;
  const auto bytes = kernels::integer_conv2d_packed_bytes(problem, launch_dims);
  if (!bytes) return std::nullopt;
  const std::int64_t out = launch_dims[at::o].constant();
  std::vector<std::int64_t> dims = {out, launch_dims[at::c].constant() / problem.groups,
                                    launch_dims[at::kh].constant(), launch_dims[at::kw].constant()};
  for (int k = 0; k < 4; ++k) {
    const Dim stride = launch_dims[static_cast<std::size_t>(at::w_strides + k)];
    if (!stride.is_const()) return std::nullopt;
    dims.push_back(stride.constant());
  }
  problem.w_packed = true;
  return PackedOperand{str("integer_conv2d ", problem.groups), problem.w, *bytes, std::move(dims),
                       out};
}

std::optional<PackedOperand> pack_weights(Conv2dProblem& problem,
                                          const std::vector<Dim>& launch_dims,
                                          const PackOptions& options) {
  namespace at = problems::conv2d_dims;
  if (kernels::is_integer_product(problem)) return pack_integer_weights(problem, launch_dims);
  const auto sizes = kernels::conv2d_constant_sizes(problem, launch_dims);
  if (!sizes) return std::nullopt;
  Conv2dProblem packed = problem;
  // 16-bit numbers are widened ahead of time.
  if (problem.x != DType::f64 && (problem.w == DType::f16 || problem.w == DType::bf16))
    packed.w = DType::f32;
  packed.winograd = options.winograd && sizes->winograd_pays();
  if (!kernels::conv2d_packs_weights(packed, *sizes)) return std::nullopt;
  packed.w_packed = true;
  const DType source = problem.w;
  problem = packed;
  std::array<std::int64_t, 4> strides{};
  for (std::size_t k = 0; k < 4; ++k) strides[k] = launch_dims[at::w_strides + k].constant();
  const Dim out = launch_dims[at::o];
  return PackedOperand{str("conv2d ", problem.groups), problem.w,
                       kernels::conv2d_packed_elements(problem, out, sizes->depth()).constant(),
                       kernels::conv2d_pack_dims(problem, source, *sizes, strides),
                       kernels::conv2d_pack_grid(problem, out).constant()};
}

class CpuBackend final : public Backend {
 public:
  Target describe(Target target) const override { return target; }

  std::string fingerprint(const Target&, const CodeOptions& options) const override {
    codegen::Generator* generator =
        options.generate_code ? codegen::llvm_generator(nullptr) : nullptr;
    return generator != nullptr ? generator->target() : "no generator";
  }

  LaunchPlan plan(const loop::Kernel& kernel, const Target&) const override {
    return {kernel.grid_size(), kernel.scratch_bytes(), 0};
  }

  LaunchPlan plan(const Problem& problem, const AttachedKernels& attached,
                  std::span<const Dim> dims, const Target&) const override {
    LaunchPlan plan = std::visit(Planner{dims}, problem);
    if (attached.epilogue != nullptr) plan.scratch_bytes += attached.epilogue->scratch_bytes();
    return plan;
  }

  std::optional<PackedOperand> pack_operand(Problem& problem, int operand, std::vector<Dim>& dims,
                                            const PackOptions& options) const override {
    if (operand != 1) return std::nullopt;
    if (auto* matmul = std::get_if<MatmulProblem>(&problem)) return pack_right(*matmul, dims);
    if (auto* conv = std::get_if<Conv2dProblem>(&problem))
      return pack_weights(*conv, dims, options);
    return std::nullopt;
  }

  bool has_packing(const Problem& problem) const override {
    return std::holds_alternative<MatmulProblem>(problem) ||
           std::holds_alternative<Conv2dProblem>(problem);
  }

  void pack(const Problem& problem, std::span<const std::int64_t> dims, std::int64_t grid,
            const void* source, void* packed) const override {
    const auto* matmul = std::get_if<MatmulProblem>(&problem);
    const program::Callable function =
        matmul != nullptr ? kernels::make_matmul_pack(*matmul)
                          : kernels::make_conv2d_pack(std::get<Conv2dProblem>(problem));
    void* buffers[] = {const_cast<void*>(source), packed};
    ThreadPool::Region region(ThreadPool::global());
    region.parallel_for(grid, 1, [&](std::int64_t begin, std::int64_t end, int) {
      function(buffers, dims.data(), begin, end, nullptr);
    });
  }

  CompiledCode compile(std::shared_ptr<const program::Program> program,
                       const CodeOptions& options) const override {
    return compile_for_cpu(std::move(program), options);
  }
};

}  // namespace

const Backend& backend() {
  static const auto* instance = new CpuBackend;
  return *instance;
}

}  // namespace gex::backend::cpu
