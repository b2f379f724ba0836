// Matmul and grouped matmul as problems.

#include <algorithm>

#include "ops/core/attributes.hpp"
#include "ops/problem_rules.hpp"

namespace gex::ops {

namespace {

// Neighbouring batch axes are merged if every operand traverses them with one stride.
struct Batch {
  std::vector<Dim> sizes;
  std::vector<std::vector<Dim>> strides;  // for each operand, one for each size

  void collapse() {
    for (std::size_t d = 0; d + 1 < sizes.size();) {
      bool joins = sizes[d] == Dim(1) || sizes[d + 1] == Dim(1);
      if (!joins) {
        joins = std::all_of(strides.begin(), strides.end(),
                            [&](const auto& s) { return s[d] == s[d + 1] * sizes[d + 1]; });
      }
      if (!joins) {
        ++d;
        continue;
      }
      std::size_t kept = sizes[d + 1] == Dim(1) ? d : d + 1;
      for (auto& s : strides) {
        s[d] = s[kept];
        s.erase(s.begin() + static_cast<std::ptrdiff_t>(d) + 1);
      }
      sizes[d] = sizes[d] * sizes[d + 1];
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    }
    while (sizes.size() < 2) {
      sizes.insert(sizes.begin(), Dim(1));
      for (auto& s : strides) s.insert(s.begin(), Dim(0));
    }
  }
};

// Strides over the output's batch axes: 0 if the operand is broadcast.
std::vector<Dim> batch_strides(const Type& type, const std::vector<Dim>& strides,
                               std::size_t batch_rank) {
  std::size_t own = type.shape.size() - 2;
  std::vector<Dim> result(batch_rank, Dim(0));
  for (std::size_t d = 0; d < own; ++d) {
    if (!(type.shape[d] == Dim(1))) result[batch_rank - own + d] = strides[d];
  }
  return result;
}

std::vector<Dim> first(const std::vector<Dim>& dims, std::size_t count) {
  return {dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count)};
}

// More than two levels of strides: dense copies of the operands have at most two.
Batch with_dense_operands(ProblemContext& c, StridedOperand& a, StridedOperand& b,
                          std::vector<Dim> result_batch) {
  const Type& type = c.node.output()->type();
  const std::size_t batch_rank = type.shape.size() - 2;
  GEX_CHECK(c.computed == 0, "a computed operand with a batch of rank ", batch_rank);
  for (int k = 0; k < 2; ++k) {
    StridedOperand& which = k == 0 ? a : b;
    const Type& full = c.node.input(static_cast<std::size_t>(k))->type();
    Shape shape = first(type.shape, batch_rank);
    std::vector<Dim> strides = batch_strides(full, which.strides, batch_rank);
    shape.insert(shape.end(), full.shape.end() - 2, full.shape.end());
    strides.insert(strides.end(), which.strides.end() - 2, which.strides.end());
    which.strides = std::move(strides);
    which = c.dense_copy(which, Type::tensor(full.dtype, shape));
  }
  Batch batch{
      first(type.shape, batch_rank),
      {first(a.strides, batch_rank), first(b.strides, batch_rank), std::move(result_batch)}};
  batch.collapse();
  GEX_CHECK(batch.sizes.size() == 2, "batch of rank ", batch.sizes.size());
  return batch;
}

// Operands, dims and work of a product of two strided batches of matrices.
ProblemLaunch strided_product(ProblemContext& c) {
  const Type& a_type = c.node.input(0)->type();
  const Type& b_type = c.node.input(1)->type();
  const Type& c_type = c.node.output()->type();
  const std::size_t rank = c_type.shape.size(), batch_rank = rank - 2;
  StridedOperand a = c.operand(0), b = c.operand(1);
  const std::vector<Dim> c_strides = result_strides(c.node);
  const std::vector<Dim> c_batch = batch_strides(c_type, c_strides, batch_rank);
  Batch batch{first(c_type.shape, batch_rank),
              {batch_strides(a_type, a.strides, batch_rank),
               batch_strides(b_type, b.strides, batch_rank), c_batch}};
  batch.collapse();
  if (batch.sizes.size() > 2) batch = with_dense_operands(c, a, b, c_batch);
  const Dim m = c_type.shape[rank - 2], n = c_type.shape[rank - 1], k = a_type.shape.back();
  ProblemLaunch launch;
  launch.dims = {batch.sizes[0], batch.sizes[1], m, n, k};
  const auto push = [&](std::size_t which, Dim outer, Dim inner) {
    launch.dims.insert(launch.dims.end(),
                       {batch.strides[which][0], batch.strides[which][1], outer, inner});
  };
  push(0, a.strides[a.strides.size() - 2], a.strides.back());
  push(1, b.strides[b.strides.size() - 2], b.strides.back());
  push(2, c_strides[rank - 2], c_strides[rank - 1]);
  launch.work = batch.sizes[0] * batch.sizes[1] * m * n * k;
  launch.operands = {std::move(a), std::move(b)};
  return launch;
}

ProblemLaunch matmul_launch(ProblemContext& c) {
  ProblemLaunch launch = strided_product(c);
  problems::MatmulProblem problem;
  problem.a = c.node.input(0)->type().dtype;
  problem.b = c.node.input(1)->type().dtype;
  problem.c = c.has_epilogue ? DType::f32 : c.node.output()->type().dtype;
  problem.any_rows = c.any_rows;
  problem.keep_subnormals = c.keep_subnormals;
  problem.computed = c.computed;
  launch.problem = problem;
  return launch;
}

ProblemLaunch integer_matmul_launch(ProblemContext& c) {
  ProblemLaunch launch = strided_product(c);
  problems::MatmulProblem problem;
  problem.a = c.node.input(0)->type().dtype;
  problem.b = c.node.input(1)->type().dtype;
  problem.c = DType::i32;
  launch.problem = problem;
  return launch;
}

std::vector<int> matmul_computable(const Node& node) {
  if (node.output()->type().shape.size() > 4) return {};
  return {0, 1};
}

// The rows of one tile are used for all of its columns at once.
std::int64_t matmul_reads(const Node& node, int operand, const CostModel& costs) {
  const Shape& out = node.output()->type().shape;
  const Dim own = operand == 0 ? out[out.size() - 2] : out.back();
  const Dim other = operand == 0 ? out.back() : out[out.size() - 2];
  const Shape& of = node.input(static_cast<std::size_t>(operand))->type().shape;
  const auto batches = [](const Shape& shape) {
    return product(Shape(shape.begin(), shape.end() - 2));
  };
  const bool shared = !(batches(of) == batches(out));
  const std::int64_t sharing = shared ? reads_of(floordiv(batches(out), batches(of)), 1) : 1;
  // A separate launch would take longer than computing so few elements.
  if (!shared && own.is_const() && own.constant() <= costs.few_rows) return 0;
  return sharing * reads_of(other, costs.matmul_tile_columns);
}

// Groups of rows times one matrix per group, or the gradient of those matrices.
struct Grouped {
  problems::GroupedMatmulProblem problem;
  StridedOperand a, b, ends;
  Dim groups, rows, depth, columns;

  explicit Grouped(ProblemContext& c) {
    const Type& a_type = c.node.input(0)->type();
    const Type& b_type = c.node.input(1)->type();
    const Type& ends_type = c.node.input(2)->type();
    a = c.operand(0);
    b = c.operand(1);
    problem.product.a = a_type.dtype;
    problem.product.b = b_type.dtype;
    problem.product.c = c.node.output()->type().dtype;
    problem.product.any_rows = c.any_rows;
    problem.product.keep_subnormals = c.keep_subnormals;
    problem.ends = ends_type.dtype;
    // A view of the ends may have any stride: a copy is dense.
    ends = c.materialised(2);
    GEX_CHECK(ends.strides[0] == Dim(1) || ends_type.shape[0] == Dim(1), "ends with a stride");
    groups = ends_type.shape[0];
    rows = a_type.shape[0];
    depth = a_type.shape[1];
    columns = b_type.shape.back();
  }
  ProblemLaunch launch(problems::Problem of, std::vector<Dim> dims) {
    return {std::move(of),
            {std::move(a), std::move(b), std::move(ends)},
            std::move(dims),
            rows * columns * depth};
  }
};

ProblemLaunch grouped_matmul_launch(ProblemContext& context) {
  Grouped g(context);
  const std::vector<Dim> c = result_strides(context.node);
  std::vector<Dim> dims{Dim(1), Dim(1), g.rows, g.columns, g.depth};
  dims.insert(dims.end(), {Dim(0), Dim(0), g.a.strides[0], g.a.strides[1]});
  dims.insert(dims.end(), {g.b.strides[0], Dim(0), g.b.strides[1], g.b.strides[2]});
  dims.insert(dims.end(), {Dim(0), Dim(0), c[0], c[1], g.groups});
  return g.launch(g.problem, std::move(dims));
}

ProblemLaunch grouped_weight_grad_launch(ProblemContext& context) {
  Grouped g(context);
  const std::vector<Dim> c = result_strides(context.node);
  std::vector<Dim> dims{Dim(1), Dim(1), g.depth, g.columns, g.rows};
  dims.insert(dims.end(), {Dim(0), Dim(0), g.a.strides[1], g.a.strides[0]});
  dims.insert(dims.end(), {Dim(0), Dim(0), g.b.strides[0], g.b.strides[1]});
  dims.insert(dims.end(), {c[0], Dim(0), c[1], c[2], g.groups});
  return g.launch(problems::GroupedWeightGradProblem{g.problem}, std::move(dims));
}

}  // namespace

std::int64_t reads_of(Dim size, std::int64_t block) {
  constexpr std::int64_t kTypical = 4;  // if the size is not known
  if (!size.is_const()) return kTypical;
  return std::max<std::int64_t>(1, (size.constant() + block - 1) / block);
}

ProblemRule matmul_rule() {
  ProblemRule rule;
  rule.launch = matmul_launch;
  rule.epilogue = rule.any_result_strides = rule.library_product = true;
  rule.packed = 1;
  rule.prologues = {
      .operands = matmul_computable, .times_read = matmul_reads, .along_columns = true};
  return rule;
}

ProblemRule integer_matmul_rule() {
  ProblemRule rule;
  rule.launch = integer_matmul_launch;
  rule.epilogue = true;
  rule.packed = 1;
  return rule;
}

ProblemRule grouped_matmul_rule() { return {.launch = grouped_matmul_launch}; }
ProblemRule grouped_weight_grad_rule() { return {.launch = grouped_weight_grad_launch}; }

}  // namespace gex::ops
