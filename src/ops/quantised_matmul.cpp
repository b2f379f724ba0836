// Products with quantised weights, which stay as they are stored, and their rows.

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/integer_products.hpp"
#include "ops/core/quantised_products.hpp"
#include "ops/core/samples.hpp"
#include "ops/problem_rules.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

bool is_narrow_float(DType dtype) { return is_float(dtype) && dtype != DType::f64; }

void require_parameters(const InferContext& c, std::size_t input, Dim rows, Dim groups) {
  require_rank(c, input, 2);
  const Shape& shape = c.in(input).shape;
  const bool fits =
      (shape[0] == Dim(1) || assume_eq(shape[0], rows)) && assume_eq(shape[1], groups);
  if (!fits)
    fail(ErrorCode::shape_mismatch, c.op_name, ": input ", input, " is ", c.in(input),
         "; it needs ", groups, " entries for each of ", rows, " columns, or for all of them");
}

Type quantised_matmul_type(const InferContext& c) {
  const auto a = c.as<QuantisedMatmul>();
  require_dtype(c, 0, is_narrow_float);
  require_dtype(c, 1, is_byte);
  require_rank(c, 0, 2);
  require_rank(c, 1, 2);
  if (a.bits != 8 && (a.bits != 4 || c.in(1).dtype != DType::u8))
    fail(ErrorCode::invalid_argument, c.op_name, ": weights of ", a.bits, " bits in ",
         c.in(1).dtype, "; they must have 8, or 4 in u8");
  if (a.group < 0)
    fail(ErrorCode::invalid_argument, c.op_name, ": group ", a.group, " must not be negative");
  const Dim depth = c.in(0).shape[1], rows = c.in(1).shape[0];
  if (!assume_eq(c.in(1).shape[1], a.bits == 4 ? ceildiv(depth, 2) : depth))
    fail(ErrorCode::shape_mismatch, c.op_name, ": ", c.in(0), " times weights of ", a.bits,
         " bits ", c.in(1), "; rows need as many numbers on both sides");
  const Dim groups = a.group == 0 ? Dim(1) : ceildiv(depth, a.group);
  if (c.has(2)) {
    require_dtype(c, 2, is_narrow_float);
    require_parameters(c, 2, rows, groups);
  }
  if (c.has(3)) {
    require_dtype(c, 3, [](DType d) { return d == DType::f32; });
    require_parameters(c, 3, rows, groups);
  }
  return Type::tensor(a.wide ? DType::f32 : c.in(0).dtype, {c.in(0).shape[0], rows});
}

// Scales or offsets [rows, groups] as [rows, depth].
Value* for_each_number(Graph& g, Value* x, std::int64_t group, Dim depth) {
  if (group == 0) return x;
  const Dim rows = x->type().shape[0], groups = x->type().shape[1];
  x = expand(g, unsqueeze(g, x, 2), {rows, groups, Dim(group)});
  return slice(g, reshape(g, x, {rows, groups * Dim(group)}), 1, 0, depth);
}

std::vector<Value*> expand_quantised(Graph& g, const Node& n) {
  const auto a = n.as<QuantisedMatmul>();
  Value *x = n.input(0), *q = n.input(1);
  const Dim depth = x->type().shape[1];
  if (a.bits == 4) q = unpack_halves(g, q, depth);
  Value* w = cast(g, q, DType::f32);
  if (a.zero != 0) w = sub(g, w, static_cast<double>(a.zero));
  if (n.has_input(2))
    w = mul(g, w, for_each_number(g, cast(g, n.input(2), DType::f32), a.group, depth));
  if (n.has_input(3)) w = add(g, w, for_each_number(g, n.input(3), a.group, depth));
  return {matmul(g, x, transpose(g, cast(g, w, x->type().dtype), {1, 0}), a.wide)};
}

ProblemLaunch quantised_launch(ProblemContext& c) {
  const auto attrs = c.node.as<QuantisedMatmul>();
  problems::QuantisedMatmulProblem p;
  p.a = c.node.input(0)->type().dtype;
  p.q = c.node.input(1)->type().dtype;
  p.bits = attrs.bits;
  p.group = attrs.group;
  p.zero = attrs.zero;
  p.has_scale = c.node.has_input(2);
  p.has_offset = c.node.has_input(3);
  if (p.has_scale) p.scale = c.node.input(2)->type().dtype;
  p.c = c.has_epilogue ? DType::f32 : c.node.output()->type().dtype;
  p.any_rows = c.any_rows;
  p.keep_subnormals = c.keep_subnormals;
  StridedOperand a = c.operand(0), q = c.operand(1);
  // Kernels read bytes that are adjacent along one of the axes.
  const bool adjacent = q.strides[1] == Dim(1) || (p.bits == 8 && q.strides[0] == Dim(1));
  if (!adjacent) q = c.dense_copy(q, c.node.input(1)->type());
  const Shape& shape = c.node.output()->type().shape;
  const Dim m = shape[0], n = shape[1], k = c.node.input(0)->type().shape[1];
  ProblemLaunch launch;
  launch.problem = p;
  launch.dims = {m, n, k, a.strides[0], a.strides[1], q.strides[0], q.strides[1]};
  launch.operands = {std::move(a), std::move(q)};
  for (const int input : {2, 3}) {
    if (!c.node.has_input(static_cast<std::size_t>(input))) {
      launch.dims.insert(launch.dims.end(), {Dim(0), Dim(0)});
      continue;
    }
    const Value* value = c.node.input(static_cast<std::size_t>(input));
    StridedOperand operand = c.operand(input);
    for (std::size_t d = 0; d < 2; ++d)
      launch.dims.push_back(value->type().shape[d] == Dim(1) ? Dim(0) : operand.strides[d]);
    launch.operands.push_back(std::move(operand));
  }
  const std::vector<Dim> strides = result_strides(c.node);
  launch.dims.insert(launch.dims.end(), {strides[0], strides[1]});
  launch.work = m * n * k;
  return launch;
}

ProblemRule quantised_rule() {
  ProblemRule rule;
  rule.launch = quantised_launch;
  rule.epilogue = rule.any_result_strides = true;
  return rule;
}

// aten._weight_int8pack_mm(x, weights [n, k], scales [n])
std::vector<Value*> import_int8_product(AtenCall& c) {
  Graph& g = c.graph();
  if (!is_narrow_float(c.result().dtype)) return {};
  Value* scales = unsqueeze(g, c.tensor(2), 1);
  return one(quantised_matmul(g, c.tensor(0), c.tensor(1), scales, nullptr, {}));
}

// Operands are made of indices, which are integers in samples of every dtype.
std::function<OpSample()> quantised_sample(QuantisedMatmul attrs) {
  const Dim columns = Dim(attrs.bits == 4 ? 3 : 6);
  return [=] {
    return OpSample{{data({sample_size(), Dim(6)}), index_data({Dim(5), columns}),
                     index_data({Dim(5), Dim(attrs.group == 0 ? 1 : 3)})},
                    {},
                    [=](Graph& g, const std::vector<Value*>& v) {
                      Value* x = cast(g, v[0], DType::f32);
                      Value* q = cast(g, mul(g, v[1], 37), DType::u8);
                      Value* scale = add(g, cast(g, v[2], DType::f32), 1);
                      Value* offset = mul(g, scale, 0.5);
                      return std::vector<Value*>{quantised_matmul(g, x, q, scale, offset, attrs)};
                    }};
  };
}

}  // namespace

void register_quantised_products() {
  Definition("quantised_matmul",
             "Matrix product of x [m, k] with weights of few bits: x @ ((q - zero) * scale + "
             "offset)^T, with a scale and an offset for each row of q, or for each group of its "
             "numbers.")
      .in({"x", "q"})
      .optional_in({"scale", "offset"})
      .attrs<QuantisedMatmul>()
      .traits(Trait::pure | Trait::contraction)
      .infer_one(quantised_matmul_type)
      .expand(expand_quantised)
      .problem(quantised_rule())
      .aten("aten._weight_int8pack_mm.default", import_int8_product)
      .sample(quantised_sample({4, 2, 8, false}))
      .define();
}

}  // namespace gex::ops
