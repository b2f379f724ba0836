// Matmul. One body: a sum of products in the compute type over the shared axis.

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/fold.hpp"
#include "ops/problem_rules.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

Shape batch_of(const Shape& shape) { return {shape.begin(), shape.end() - 2}; }

Type matmul_type(const InferContext& c) {
  require_dtype(c, 0, numeric);
  require_same_dtype(c, 0, 1);
  const Shape &a = c.in(0).shape, &b = c.in(1).shape;
  if (a.size() < 2 || b.size() < 2) {
    fail(ErrorCode::shape_mismatch, "matmul: operands are ", c.in(0), " and ", c.in(1),
         "; both need at least two axes");
  }
  if (!assume_eq(a[a.size() - 1], b[b.size() - 2])) {
    fail(ErrorCode::shape_mismatch, "matmul: ", c.in(0), " has ", a[a.size() - 1], " columns, but ",
         c.in(1), " has ", b[b.size() - 2], " rows");
  }
  Shape shape = broadcast_shapes(batch_of(a), batch_of(b), c.op_name);
  shape.push_back(a[a.size() - 2]);
  shape.push_back(b[b.size() - 1]);
  const DType dtype = c.in(0).dtype;
  return Type::tensor(c.as<Matmul>().wide ? compute_type(dtype) : dtype, shape);
}

// [batch..., m, n, k], reduced over k.
Shape matmul_space(const Node& n) {
  Shape shape = n.output()->type().shape;
  shape.push_back(n.input(0)->type().shape.back());
  return shape;
}

std::vector<Scalar> matmul_element(BodyContext& c, Indices p) {
  const std::size_t rank = p.size() - 1;  // of the result
  const Dim k = p[rank];
  const Shape batch = batch_of(c.out_type().shape);
  auto operand_at = [&](int which, Dim row, Dim column) {
    std::vector<Dim> at =
        broadcast_index(batch_of(c.in_type(which).shape), batch, p.subspan(0, rank - 2));
    at.push_back(row);
    at.push_back(column);
    return c.s.cast(c.in(which, at), compute_type(c.in_type(which).dtype));
  };
  return {c.s.mul(operand_at(0, p[rank - 2], k), operand_at(1, k, p[rank - 1]))};
}

loop::ReductionBody matmul_body() {
  loop::ReductionBody body;
  body.shape = matmul_space;
  body.axes = [](const Node& n) { return std::vector<int>{n.output()->type().rank()}; };
  body.out_index = [](const Node&, Indices p) { return std::vector<Dim>(p.begin(), p.end() - 1); };
  body.accumulators = [](const Node& n) {
    return std::vector{accumulator("a", compute_type(n.input(0)->type().dtype), 0)};
  };
  body.elements = matmul_element;
  body.combine = combine_by(Prim::add);
  body.finish = [](BodyContext& c, int, Indices, std::span<const Scalar> acc) {
    return c.s.cast(acc[0], c.out_type().dtype);
  };
  return body;
}

// --- rows -------------------------------------------------------------------------------------

// torch.matmul: 1-d operands get an axis that is removed from the result.
Value* matmul_any_rank(Graph& g, Value* a, Value* b, bool wide = false) {
  const bool a_vector = a->type().rank() == 1, b_vector = b->type().rank() == 1;
  if (a_vector) a = unsqueeze(g, a, 0);
  if (b_vector) b = unsqueeze(g, b, 1);
  Value* product = matmul(g, a, b, wide);
  if (b_vector) product = squeeze(g, product, -1);
  if (a_vector) product = squeeze(g, product, b_vector ? -1 : -2);
  return product;
}

std::vector<Value*> import_matmul(AtenCall& c) {
  if (!numeric(c.result().dtype)) return {};
  return one(matmul_any_rank(c.graph(), c.tensor(0), c.tensor(1)));
}

bool is_number(const AtenCall& c, std::size_t i, double value) {
  return c.none(i) || (c.is_constant_number(i) && c.number(i) == value);
}

// beta*input + alpha*(a @ b), rounded once.
std::vector<Value*> import_add_product(AtenCall& c) {
  Graph& g = c.graph();
  const DType t = compute_type(c.result().dtype);
  if (!numeric(c.result().dtype)) return {};
  const bool wide = is_low_float(c.result().dtype);
  Value* product = matmul_any_rank(g, c.tensor(1), c.tensor(2), wide);
  if (!is_number(c, 4, 1)) product = mul(g, product, operand(c, 4, t));
  if (is_number(c, 3, 0)) return one(to_result(c, product));
  Value* input = operand(c, 0, t);
  if (!is_number(c, 3, 1)) input = mul(g, input, operand(c, 3, t));
  return one(to_result(c, add(g, product, input)));
}

// beta*input + alpha*a*b' for vectors, each step rounded as in eager's kernel.
std::vector<Value*> import_addr(AtenCall& c) {
  Graph& g = c.graph();
  const DType t = c.result().dtype;
  if (!numeric(t)) return {};
  Value* column = unsqueeze(g, operand(c, 1, t), 1);
  if (!is_number(c, 4, 1)) column = mul(g, operand(c, 4, t), column);
  Value* product = mul(g, column, unsqueeze(g, operand(c, 2, t), 0));
  if (is_number(c, 3, 0)) return one(product);
  Value* input = operand(c, 0, t);
  if (!is_number(c, 3, 1)) input = mul(g, operand(c, 3, t), input);
  return one(add(g, input, product));
}

}  // namespace

void register_matmul() {
  Definition("matmul", "Matrix product over the last two axes; leading axes broadcast.")
      .in({"a", "b"})
      .attrs<Matmul>()
      .traits(Trait::pure | Trait::reduction | Trait::contraction)
      .infer_one(matmul_type)
      .reduction(matmul_body())
      .problem(matmul_rule())
      .aten("aten.mm.default", import_matmul)
      .aten("aten.bmm.default", import_matmul)
      .aten("aten.matmul.default", import_matmul)
      .aten("aten.mv.default", import_matmul)
      .aten("aten.dot.default", import_matmul)
      .aten("aten.vdot.default", import_matmul)
      .aten("aten.addmm.default", import_add_product)
      .aten("aten.baddbmm.default", import_add_product)
      .aten("aten.addmv.default", import_add_product)
      .aten("aten.linear.default",
            [](AtenCall& c) {
              Value* bias = c.none(2) ? nullptr : c.tensor(2);
              return one(linear(c.graph(), c.tensor(0), c.tensor(1), bias));
            })
      .aten("aten.addr.default", import_addr)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data({Dim(2), s, Dim(5)}), data({Dim(5), Dim(3)})}, {}, {}};
      })
      .define();
  register_aten_facts({"aten.bmm", "aten.matmul", "aten.mm", "aten.mv"},
                      {.padding = AtenFacts::Padding::contracts, .padding_argument = 0});
  register_aten_facts({"aten.addmm", "aten.baddbmm"},
                      {.padding = AtenFacts::Padding::contracts, .padding_argument = 1});
}

}  // namespace gex::ops
