#include "backend/cpu/kernels/grouped_matmul.hpp"

#include <algorithm>
#include <memory>

#include "backend/cpu/kernels/bind.hpp"
#include "base/error.hpp"

namespace gex::kernels {

namespace {

using i64 = std::int64_t;

struct Context {
  GroupedMatmulProblem problem;
  program::Callable product;
};

i64 end_of(const Context& c, const void* ends, i64 group) {
  return c.problem.ends == DType::i64 ? static_cast<const i64*>(ends)[group]
                                      : static_cast<const std::int32_t*>(ends)[group];
}

void* moved(void* base, i64 elements, DType dtype) {
  return static_cast<std::byte*>(base) + elements * static_cast<i64>(size_of(dtype));
}

void clear(const Context& c, void* out, const i64* dims, i64 first, i64 col0, i64 col1) {
  const i64* stride = dims + matmul_dims::c_strides;
  for (i64 r = first; r < dims[matmul_dims::m]; ++r) {
    for (i64 n = col0; n < col1; ++n) {
      auto* at =
          static_cast<std::byte*>(moved(out, r * stride[2] + n * stride[3], c.problem.product.c));
      std::fill_n(at, size_of(c.problem.product.c), std::byte{0});
    }
  }
}

// Calls visit(group, first row, number of rows) for each group, including empty ones. Returns the
// end of the last one.
template <class Visit>
i64 for_each_group(const Context& c, const void* ends, i64 rows, i64 groups, const Visit& visit) {
  i64 start = 0;
  for (i64 g = 0; g < groups; ++g) {
    const i64 stop = std::clamp(end_of(c, ends, g), start, rows);
    visit(g, start, stop - start);
    start = stop;
  }
  return start;
}

// The grid counts columns: the units of a matmul are numbered by rows first, so a range of columns
// is a range of its grid.
void run(const void* context, void* const* buffers, const i64* dims, i64 begin, i64 end,
         std::byte* scratch) {
  const auto& c = *static_cast<const Context*>(context);
  i64 group_dims[matmul_dims::count];
  std::copy(dims, dims + matmul_dims::count, group_dims);
  const auto multiply = [&](i64 g, i64 start, i64 count) {
    if (count == 0) return;
    const i64 units = (count + kUnitRows - 1) / kUnitRows;
    group_dims[matmul_dims::m] = count;
    void* operands[] = {
        moved(buffers[0], start * dims[matmul_dims::a_strides + 2], c.problem.product.a),
        moved(buffers[1], g * dims[matmul_dims::b_strides], c.problem.product.b),
        moved(buffers[3], start * dims[matmul_dims::c_strides + 2], c.problem.product.c)};
    c.product(operands, group_dims, begin * units, end * units, scratch);
  };
  const i64 last =
      for_each_group(c, buffers[2], dims[matmul_dims::m], dims[matmul_dims::count], multiply);
  clear(c, buffers[3], dims, last, begin * kUnitCols,
        std::min(end * kUnitCols, dims[matmul_dims::n]));
}

// The grid is that of one group's matmul: each range of it is computed for all groups, so workers
// have equal shares for any distribution of the rows.
void run_weight_grad(const void* context, void* const* buffers, const i64* dims, i64 begin, i64 end,
                     std::byte* scratch) {
  const auto& c = *static_cast<const Context*>(context);
  i64 group_dims[matmul_dims::count];
  std::copy(dims, dims + matmul_dims::count, group_dims);
  const auto multiply = [&](i64 g, i64 start, i64 count) {
    group_dims[matmul_dims::k] = count;
    void* operands[] = {
        moved(buffers[0], start * dims[matmul_dims::a_strides + 3], c.problem.product.a),
        moved(buffers[1], start * dims[matmul_dims::b_strides + 2], c.problem.product.b),
        moved(buffers[3], g * dims[matmul_dims::c_strides], c.problem.product.c)};
    c.product(operands, group_dims, begin, end, scratch);
  };
  for_each_group(c, buffers[2], dims[matmul_dims::k], dims[matmul_dims::count], multiply);
}

program::Callable bind_grouped(program::KernelFn fn, const GroupedMatmulProblem& problem) {
  GEX_CHECK(problem.ends == DType::i64 || problem.ends == DType::i32, "ends of ", problem.ends);
  auto context = std::make_shared<const Context>(Context{problem, make_matmul(problem.product)});
  const void* address = context.get();
  return {fn, address, std::move(context)};
}

}  // namespace

Dim grouped_matmul_grid(Dim columns) { return ceildiv(columns, kUnitCols); }

Dim grouped_matmul_scratch_bytes(const GroupedMatmulProblem& problem) {
  return tile_scratch_bytes(problem.product.a);
}

program::Callable make_grouped_matmul(const GroupedMatmulProblem& problem) {
  return bind_grouped(&run, problem);
}

program::Callable make_grouped_weight_grad(const GroupedMatmulProblem& problem) {
  return bind_grouped(&run_weight_grad, problem);
}

}  // namespace gex::kernels
