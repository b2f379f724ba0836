#include "cache/problem_bounds.hpp"

#include <array>
#include <initializer_list>
#include <span>

#include "backend/cpu/kernels/attention.hpp"
#include "backend/cpu/kernels/conv2d.hpp"
#include "backend/cpu/kernels/grouped_matmul.hpp"
#include "backend/cpu/kernels/integer_conv2d.hpp"
#include "backend/cpu/kernels/integer_product.hpp"
#include "backend/cpu/kernels/matmul.hpp"
#include "backend/cpu/kernels/quantised_matmul.hpp"
#include "backend/cpu/kernels/sort.hpp"
#include "base/error.hpp"
#include "cache/access_bounds.hpp"
#include "cache/bounds_check.hpp"

namespace gex {

namespace {

using problems::contains;

Dim width_of(DType dtype) { return Dim(static_cast<std::int64_t>(size_of(dtype))); }
DType accumulated(DType dtype) {
  if (kernels::is_byte(dtype)) return DType::i32;
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

class ProblemProof {
 public:
  ProblemProof(const program::Program& program, const ProblemLaunch& at)
      : program_(program), at_(at), launch_(*at.launch), facts_(facts_of(program)) {}

  std::vector<std::string> run() {
    std::visit([&](const auto& problem) { check(problem); }, *at_.problem);
    return std::move(problems_);
  }

 private:
  template <class... Args>
  bool require(bool proven, const Args&... sentence) {
    if (!proven) problems_.push_back(str("launch \"", launch_.name, "\": ", sentence...));
    return proven;
  }
  bool le(Dim a, Dim b) const { return surely_le(a, b, facts_); }
  Dim dim(int k) const { return launch_.dims[static_cast<std::size_t>(k)]; }

  bool has(int buffers, int dims) {
    return require(std::ssize(launch_.buffers) >= buffers && std::ssize(launch_.dims) >= dims,
                   "it has ", launch_.buffers.size(), " buffers and ", launch_.dims.size(),
                   " sizes, fewer than its kernel needs");
  }
  Dim bytes_of(int k) const {
    return bytes_of_values(program_, launch_.buffers[static_cast<std::size_t>(k)]);
  }

  // Elements below and above the operand's address that its strides reach: strides of flipped
  // weights are negative.
  struct Reach {
    Dim below, above;
  };
  Reach reach(std::span<const Dim> sizes, int strides) {
    Reach reached{Dim(0), Dim(1)};
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const Dim stride = dim(strides + static_cast<int>(d));
      if (le(0, stride))
        reached.above += (sizes[d] - 1) * stride;
      else if (require(le(stride, 0), "the sign of a stride is not known"))
        reached.below += (sizes[d] - 1) * -stride;
    }
    return reached;
  }

  void operand(int buffer, DType dtype, std::initializer_list<Dim> sizes, int strides,
               bool written = false) {
    const std::vector<Dim> list(sizes);
    const Reach reached = reach(list, strides);
    holds(buffer, dtype, reached.above, written);
    if (reached.below == Dim(0)) return;
    const program::BufferId id = launch_.buffers[static_cast<std::size_t>(buffer)];
    require(le(reached.below * width_of(dtype), program::offset_from_root(program_, id)), "buffer ",
            buffer, " (%", id, ") may be read before its first element");
  }
  // Number of elements of an operand without negative strides.
  Dim elements(std::span<const Dim> sizes, int strides) {
    const Reach reached = reach(sizes, strides);
    require(reached.below == Dim(0), "a stride may be negative");
    return reached.above;
  }
  void holds(int buffer, DType dtype, Dim elements, bool written = false) {
    require(le(elements * width_of(dtype), bytes_of(buffer)), "buffer ", buffer, " (%",
            launch_.buffers[static_cast<std::size_t>(buffer)], ") may be too small");
    require(!written || launch_.writes[static_cast<std::size_t>(buffer)], "it writes buffer ",
            buffer, " without declaring it");
  }

  // Of the CPU's kernels. Those of GPUs: unproven_layouts.
  void work(Dim grid, Dim scratch) {
    if (program_.target != "cpu") return;
    if (at_.epilogue != nullptr) scratch = scratch + over_dims(at_.epilogue->scratch_bytes());
    require(le(launch_.grid, grid), "it may have more grid points than its kernel");
    require(le(scratch, launch_.scratch_bytes), "it may have too little scratch");
  }

  // The epilogue's sizes follow those of the problem.
  Dim over_dims(Dim d) const { return over(d, *at_.epilogue, first_dim_); }
  Dim over(Dim d, const loop::Kernel& kernel, int first) const {
    const std::vector<Dim> symbols = kernel.symbols();
    return d.substitute([&](Dim symbol) -> std::optional<Dim> {
      for (std::size_t k = 0; k < symbols.size(); ++k)
        if (symbols[k] == symbol) return dim(first + static_cast<int>(k));
      return std::nullopt;
    });
  }

  // An attached kernel, called for elements [0, total) of its grid with one buffer of `elements`
  // elements and buffers [first_buffer, first_buffer + count) of the launch.
  void attached(const loop::Kernel& kernel, int first_buffer, int count, int first_dim, Dim total,
                DType computed, bool elements_first) {
    const auto symbols = static_cast<int>(kernel.symbols().size());
    if (!has(first_buffer + count, first_dim + symbols)) return;
    if (!require(kernel.num_params() == count + 1,
                 "an attached kernel has a different number of buffers"))
      return;
    const Dim grid = over(kernel.grid_size(), kernel, first_dim);
    require(le(total, grid), "an attached kernel may be called outside its grid");
    std::vector<Dim> bytes;
    if (elements_first) bytes.push_back(grid * width_of(computed));
    for (int k = 0; k < count; ++k) bytes.push_back(bytes_of(first_buffer + k));
    if (!elements_first) bytes.push_back(grid * width_of(computed));
    for (int k = 0; k < count; ++k) {
      const auto& buffer = kernel.buffers[static_cast<std::size_t>(k + (elements_first ? 1 : 0))];
      const bool writes = buffer.role != loop::Buffer::Role::in;
      require(!writes || launch_.writes[static_cast<std::size_t>(first_buffer + k)],
              "an attached kernel writes a buffer without declaring it");
    }
    const std::span<const Dim> dims =
        std::span(launch_.dims)
            .subspan(static_cast<std::size_t>(first_dim), static_cast<std::size_t>(symbols));
    for (const std::string& problem : unproven_accesses(kernel, dims, bytes, facts_))
      require(false, problem);
  }

  void epilogue(int first_buffer, int first_dim, Dim total, DType input) {
    first_dim_ = first_dim;
    if (at_.epilogue != nullptr)
      attached(*at_.epilogue, first_buffer, at_.extra_buffers, first_dim, total, accumulated(input),
               true);
  }
  void prologue(int operand_number, Dim reached) {
    for (const ProblemLaunch::Prologue& p : at_.prologues)
      if (p.operand == operand_number)
        attached(*p.kernel, p.first_buffer, p.input_buffers, p.dims_begin, reached,
                 accumulated(summed_), false);
  }

  // An operand of a matmul: in memory, or computed by a prologue.
  void operand_or_prologue(int number, bool computed, DType dtype, std::initializer_list<Dim> sizes,
                           int strides) {
    if (!computed) return operand(number, dtype, sizes, strides);
    const std::vector<Dim> list(sizes);
    prologue(number, elements(list, strides));
  }

  void check(const problems::MatmulProblem& p) {
    namespace at = problems::matmul_dims;
    if (!has(at_.epilogue != nullptr ? 2 : 3, at::count)) return;
    summed_ = p.a;
    const Dim b0 = dim(at::batch0), b1 = dim(at::batch1), m = dim(at::m), n = dim(at::n),
              k = dim(at::k);
    operand_or_prologue(0, contains(p.computed, 0), p.a, {b0, b1, m, k}, at::a_strides);
    if (p.b_packed) {
      const std::array<Dim, 2> batch = {b0, b1};
      holds(1, p.b,
            elements(batch, at::b_strides) - 1 + kernels::matmul_packed_elements(p, Dim(1), n, k));
    } else {
      operand_or_prologue(1, contains(p.computed, 1), p.b, {b0, b1, k, n}, at::b_strides);
    }
    if (at_.epilogue == nullptr) operand(2, p.c, {b0, b1, m, n}, at::c_strides, true);
    epilogue(2, at::count, b0 * b1 * m * n, p.a);
    work(kernels::matmul_grid(p, b0 * b1, m, n, k),
         kernels::matmul_scratch_bytes(p, b0 * b1, m, n, k));
  }

  void check(const problems::Conv2dProblem& p) {
    namespace at = problems::conv2d_dims;
    if (!has(at_.epilogue != nullptr ? 2 : 3, at::count)) return;
    const Dim depth = floordiv(dim(at::c), Dim(p.groups));
    summed_ = p.x;
    whole_groups(p);
    if (p.up != std::array<std::int64_t, 2>{1, 1})
      require(has_up_kernel(p), "a transposed convolution of these sizes has no kernel");
    operand_or_prologue(0, p.x_computed, p.x, {dim(at::n), dim(at::c), dim(at::h), dim(at::w)},
                        at::x_strides);
    if (p.w_packed && kernels::is_integer_product(p)) {
      const auto bytes = kernels::integer_conv2d_packed_bytes(p, launch_.dims);
      if (require(bytes.has_value(), "sizes of a convolution with packed weights vary"))
        holds(1, p.w, Dim(*bytes));
    } else if (p.w_packed) {
      const auto sizes = kernels::conv2d_constant_sizes(p, launch_.dims);
      if (require(sizes.has_value(), "sizes of a convolution with packed weights vary") &&
          require(!p.winograd || sizes->can(kernels::Form::winograd),
                  "a convolution of these sizes has no transformed weights"))
        holds(1, p.w,
              kernels::conv2d_packed_elements(p, dim(at::o), depth * dim(at::kh) * dim(at::kw)));
    } else if (require(!p.winograd, "transformed weights that are not packed"))
      operand(1, p.w, {dim(at::o), depth, dim(at::kh), dim(at::kw)}, at::w_strides);
    const Dim n = dim(at::n), o = dim(at::o), oh = dim(at::oh), ow = dim(at::ow);
    if (at_.epilogue == nullptr) operand(2, p.y, {n, o, oh, ow}, at::y_strides, true);
    epilogue(2, at::count, n * o * oh * ow, p.x);
    if (kernels::is_integer_product(p)) {
      work(kernels::integer_conv2d_grid(p, launch_.dims),
           kernels::integer_conv2d_scratch_bytes(p, launch_.dims));
      return;
    }
    work(kernels::conv2d_grid(p, n, o, oh, ow), kernels::conv2d_scratch_bytes(p));
  }

  bool has_up_kernel(const problems::Conv2dProblem& p) {
    namespace at = problems::conv2d_dims;
    const auto channels = dim(at::c).as_const(), rows = dim(at::kh).as_const(),
               columns = dim(at::kw).as_const();
    return channels && rows && columns && p.groups == 1 && p.pad[0] >= 0 && p.pad[1] >= 0 &&
           problems::has_up_kernel(*channels, *rows, *columns, {p.up[0], p.up[1]},
                                   {p.pad[0], p.pad[1]});
  }

  void whole_groups(const problems::Conv2dProblem& p) {
    namespace at = problems::conv2d_dims;
    for (const Dim channels : {dim(at::c), dim(at::o)})
      require(p.groups > 0 && provably_eq(mod(channels, Dim(p.groups)), 0),
              "the number of channels may not be a multiple of the groups");
  }

  // Operands of a convolution's gradients: the image, the weights and the result, in this order.
  void gradient(const problems::Conv2dProblem& p, std::array<int, 3> buffers,
                std::array<DType, 3> dtypes, int written) {
    namespace at = problems::conv2d_dims;
    whole_groups(p);
    const Dim depth = floordiv(dim(at::c), Dim(p.groups));
    operand(buffers[0], dtypes[0], {dim(at::n), dim(at::c), dim(at::h), dim(at::w)}, at::x_strides,
            written == 0);
    operand(buffers[1], dtypes[1], {dim(at::o), depth, dim(at::kh), dim(at::kw)}, at::w_strides,
            written == 1);
    operand(buffers[2], dtypes[2], {dim(at::n), dim(at::o), dim(at::oh), dim(at::ow)},
            at::y_strides);
  }

  void check(const problems::Conv2dWeightGradProblem& problem) {
    namespace at = problems::conv2d_dims;
    const problems::Conv2dProblem& p = problem.conv;
    if (!has(3, at::count)) return;
    gradient(p, {0, 2, 1}, {p.x, p.y, p.w}, 1);
    const Dim taps = floordiv(dim(at::c), Dim(p.groups)) * dim(at::kh) * dim(at::kw);
    work(kernels::conv2d_weight_grad_grid(p, dim(at::o), taps),
         kernels::conv2d_weight_grad_scratch_bytes(p));
  }

  void check(const problems::Conv2dInputGradProblem& problem) {
    namespace at = problems::conv2d_dims;
    const problems::Conv2dProblem& p = problem.conv;
    if (!has(3, at::count)) return;
    gradient(p, {2, 1, 0}, {p.x, p.w, p.y}, 0);
    work(kernels::conv2d_input_grad_grid(dim(at::n), dim(at::c)),
         kernels::conv2d_input_grad_scratch_bytes(p));
  }

  void check(const problems::AttentionProblem& p) {
    namespace at = problems::attention_dims;
    const bool masked = p.mask != problems::MaskKind::none;
    const int out = masked ? 4 : 3;
    const int count = masked ? at::count_with_mask : at::count_without_mask;
    if (!has(at_.epilogue != nullptr ? out : out + 1, count)) return;
    summed_ = p.qkv;
    const Dim batch = dim(at::batch), heads = dim(at::heads), kv = dim(at::kv_heads),
              queries = dim(at::queries), keys = dim(at::keys), size = dim(at::head_size),
              values = dim(at::value_size);
    require(provably_eq(heads, kv) || provably_eq(mod(heads, kv), 0),
            "the number of heads may not be a multiple of the key-value heads");
    operand_or_prologue(0, contains(p.computed, 0), p.qkv, {batch, heads, queries, size},
                        at::q_strides);
    operand_or_prologue(1, contains(p.computed, 1), p.qkv, {batch, kv, keys, size}, at::k_strides);
    operand_or_prologue(2, contains(p.computed, 2), p.qkv, {batch, kv, keys, values},
                        at::v_strides);
    if (masked) {
      const DType mask = p.mask == problems::MaskKind::boolean ? DType::boolean : p.mask_dtype;
      operand_or_prologue(3, contains(p.computed, 3), mask, {batch, heads, queries, keys},
                          at::mask_strides);
    }
    if (at_.epilogue == nullptr)
      operand(out, p.out, {batch, heads, queries, values}, at::out_strides, true);
    epilogue(out, count, batch * heads * queries * values, p.qkv);
    work(kernels::attention_grid(p, batch, heads, kv, queries),
         kernels::attention_scratch_bytes(p, size, values));
  }

  void check(const problems::SortProblem& p) {
    namespace at = problems::sort_dims;
    const int results = (p.values ? 1 : 0) + (p.indices ? 1 : 0);
    if (!require(p.batch_rank >= 0, "it has a batch of rank ", p.batch_rank) ||
        !has(1 + results, at::count(p.batch_rank, results)))
      return;
    std::vector<Dim> sizes;
    Dim rows(1);
    for (int k = 0; k < p.batch_rank; ++k) {
      sizes.push_back(dim(at::sizes + k));
      rows *= sizes.back();
    }
    require(le(dim(at::kept), dim(at::length)), "it may return more elements than a row has");
    sizes.push_back(dim(at::length));
    holds(0, p.dtype, elements(sizes, at::x_strides(p.batch_rank)));
    sizes.back() = dim(at::kept);
    for (int k = 0; k < results; ++k)
      holds(1 + k, k == 0 && p.values ? p.dtype : DType::i64,
            elements(sizes, at::result_strides(p.batch_rank, k)), true);
    work(rows, kernels::sort_scratch_bytes(p, dim(at::length)));
  }

  // The group ends are read from memory at run time; the kernels clamp them to the sizes.
  void check(const problems::GroupedMatmulProblem& p) {
    namespace at = problems::matmul_dims;
    if (!has(4, at::count + 1)) return;
    const Dim m = dim(at::m), n = dim(at::n), k = dim(at::k), groups = dim(at::count);
    operand(0, p.product.a, {m, k}, at::a_strides + 2);
    operand(1, p.product.b, {groups, Dim(1), k, n}, at::b_strides);
    holds(2, p.ends, groups);
    operand(3, p.product.c, {m, n}, at::c_strides + 2, true);
    work(kernels::grouped_matmul_grid(n), kernels::grouped_matmul_scratch_bytes(p));
  }
  void check(const problems::GroupedWeightGradProblem& problem) {
    namespace at = problems::matmul_dims;
    const problems::GroupedMatmulProblem& p = problem.grouped;
    if (!has(4, at::count + 1)) return;
    const Dim m = dim(at::m), n = dim(at::n), k = dim(at::k), groups = dim(at::count);
    operand(0, p.product.a, {m, k}, at::a_strides + 2);
    operand(1, p.product.b, {k, n}, at::b_strides + 2);
    holds(2, p.ends, groups);
    operand(3, p.product.c, {groups, Dim(1), m, n}, at::c_strides, true);
    work(kernels::matmul_grid(p.product, Dim(1), m, n, k),
         kernels::grouped_matmul_scratch_bytes(p));
  }

  void check(const problems::QuantisedMatmulProblem& p) {
    namespace at = problems::quantised_dims;
    if (!has(p.operands() + (at_.epilogue != nullptr ? 0 : 1), at::count)) return;
    const Dim m = dim(at::m), n = dim(at::n), k = dim(at::k);
    const Dim groups = p.group == 0 ? min(k, Dim(1)) : ceildiv(k, p.group);
    operand(0, p.a, {m, k}, at::a_strides);
    operand(1, p.q, {n, p.bits == 4 ? ceildiv(k, 2) : k}, at::q_strides);
    if (p.has_scale) operand(2, p.scale, {n, groups}, at::scale_strides);
    if (p.has_offset) operand(p.operands() - 1, DType::f32, {n, groups}, at::offset_strides);
    if (at_.epilogue == nullptr) operand(p.operands(), p.c, {m, n}, at::c_strides, true);
    epilogue(p.operands(), at::count, m * n, p.a);
    work(kernels::quantised_matmul_grid(m, n), kernels::quantised_matmul_scratch_bytes(p, m, k));
  }

  const program::Program& program_;
  const ProblemLaunch& at_;
  const program::Launch& launch_;
  const Facts facts_;
  int first_dim_ = 0;
  DType summed_ = DType::f32;  // of the operands; decides the accumulator type
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> unproven_problem(const program::Program& program,
                                          const ProblemLaunch& launch) {
  return ProblemProof(program, launch).run();
}

}  // namespace gex
