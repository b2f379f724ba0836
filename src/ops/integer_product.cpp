// Products of 8-bit integers, summed in 32 bits.

#include "ops/conv.hpp"
#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/integer_products.hpp"
#include "ops/core/samples.hpp"
#include "ops/problem_rules.hpp"

namespace gex::ops {

namespace {

Type integer_matmul_type(const InferContext& c) {
  require_dtype(c, 0, is_byte);
  require_dtype(c, 1, is_byte);
  const Shape &a = c.in(0).shape, &b = c.in(1).shape;
  if (a.size() < 2 || b.size() < 2 || !assume_eq(a.back(), b[b.size() - 2])) {
    fail(ErrorCode::shape_mismatch, "integer_matmul: ", c.in(0), " times ", c.in(1),
         "; matrices need as many columns on the left as rows on the right");
  }
  Shape shape = broadcast_shapes({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}, c.op_name);
  shape.push_back(a[a.size() - 2]);
  shape.push_back(b.back());
  return Type::tensor(DType::i32, shape);
}

std::vector<Value*> expand_matmul(Graph& g, const Node& n) {
  return {matmul(g, cast(g, n.input(0), DType::i32), cast(g, n.input(1), DType::i32))};
}

Type integer_conv_type(const InferContext& c) {
  const auto a = c.as<IntegerConv>();
  require_dtype(c, 0, is_byte);
  require_dtype(c, 1, is_byte);
  require_rank(c, 0, 4);
  require_rank(c, 1, 4);
  if (a.stride.size() != 2 || a.dilation.size() != 2 || a.low.size() != 2 || a.high.size() != 2)
    fail(ErrorCode::invalid_argument, c.op_name, ": stride, dilation, low and high need 2 entries");
  require_at_least(c, "stride", a.stride, 1);
  require_at_least(c, "dilation", a.dilation, 1);
  require_at_least(c, "low", a.low, 0);
  require_at_least(c, "high", a.high, 0);
  const bool is_signed = c.in(0).dtype == DType::i8;
  if (a.border < (is_signed ? -128 : 0) || a.border > (is_signed ? 127 : 255))
    fail(ErrorCode::invalid_argument, c.op_name, ": the border ", a.border, " is no ",
         c.in(0).dtype);
  const Shape &x = c.in(0).shape, &w = c.in(1).shape;
  if (a.groups < 1 || !assume_eq(x[1], w[1] * Dim(a.groups)))
    fail(ErrorCode::shape_mismatch, c.op_name, ": ", c.in(0), " with weights ", c.in(1), " in ",
         a.groups, " groups: the numbers of channels differ");
  if (!assume_eq(mod(w[0], Dim(a.groups)), 0))
    fail(ErrorCode::shape_mismatch, c.op_name, ": ", w[0],
         " output channels are no multiple of the ", a.groups, " groups");
  Shape shape{x[0], w[0]};
  for (std::size_t k = 0; k < 2; ++k)
    shape.push_back(conv_output_size(x[k + 2] + Dim(a.low[k] + a.high[k]), w[k + 2], a.stride[k], 0,
                                     a.dilation[k]));
  return Type::tensor(DType::i32, shape);
}

// Sums of products of bytes are exact in f64.
std::vector<Value*> expand_conv(Graph& g, const Node& n) {
  const auto a = n.as<IntegerConv>();
  Conv attrs;
  attrs.stride = a.stride;
  attrs.dilation = a.dilation;
  attrs.groups = a.groups;
  Value* x = n.input(0);
  if (a.low != Ints{0, 0} || a.high != Ints{0, 0})
    x = pad(g, x, {Dim(0), Dim(0), Dim(a.low[0]), Dim(a.low[1])},
            {Dim(0), Dim(0), Dim(a.high[0]), Dim(a.high[1])}, static_cast<double>(a.border));
  Value* y = conv2d(g, cast(g, x, DType::f64), cast(g, n.input(1), DType::f64), attrs);
  return {cast(g, y, DType::i32)};
}

using Product = std::function<Value*(Graph&, Value*, Value*)>;

// Operands are made of indices, which are integers in samples of every dtype.
std::function<OpSample()> byte_sample(Shape a, Shape b, const Product& product) {
  return [=] {
    return OpSample{
        {index_data(a), index_data(b)}, {}, [product](Graph& g, const std::vector<Value*>& v) {
          Value* left = cast(g, mul(g, v[0], 70), DType::u8);
          Value* right = cast(g, mul(g, sub(g, v[1], 1), 60), DType::i8);
          return std::vector<Value*>{product(g, left, right)};
        }};
  };
}

Value* sample_matmul(Graph& g, Value* a, Value* b) { return apply(g, "integer_matmul", {a, b}); }

Product sample_conv(const IntegerConv& attrs) {
  return [=](Graph& g, Value* x, Value* w) { return apply(g, "integer_conv2d", {x, w}, attrs); };
}

}  // namespace

void register_integer_products() {
  Definition("integer_matmul",
             "Matrix product of 8-bit integers over the last two axes, in 32 bits; leading axes "
             "broadcast.")
      .in({"a", "b"})
      .traits(Trait::pure | Trait::contraction)
      .infer_one(integer_matmul_type)
      .expand(expand_matmul)
      .problem(integer_matmul_rule())
      .sample(byte_sample({Dim(2), sample_size(), Dim(5)}, {Dim(5), Dim(3)}, sample_matmul))
      .define();
  Definition("integer_conv2d",
             "Cross-correlation of 8-bit integers [N, C, H, W] with weights [O, C/groups, KH, KW], "
             "in 32 bits.")
      .in({"x", "weight"})
      .attrs<IntegerConv>()
      .traits(Trait::pure | Trait::contraction)
      .infer_one(integer_conv_type)
      .expand(expand_conv)
      .problem(integer_conv2d_rule())
      .sample(byte_sample({Dim(2), Dim(4), sample_size() + 3, Dim(5)},
                          {Dim(6), Dim(4), Dim(3), Dim(3)}, sample_conv({})))
      .sample(byte_sample({Dim(2), Dim(4), sample_size() + 3, Dim(5)},
                          {Dim(6), Dim(2), Dim(3), Dim(3)},
                          sample_conv({.stride = {2, 1},
                                       .dilation = {1, 1},
                                       .low = {1, 0},
                                       .high = {1, 2},
                                       .border = 9,
                                       .groups = 2})))
      .define();
}

}  // namespace gex::ops
