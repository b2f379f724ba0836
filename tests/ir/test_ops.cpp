#include "test_ops.hpp"

namespace gex::test {
namespace {

using Arity = InputSpec::Arity;

void define(std::string name, std::vector<InputSpec> inputs, AttrSchema attrs, std::uint32_t traits,
            std::function<std::vector<Type>(const InferContext&)> infer) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = std::move(inputs);
  def.attrs = std::move(attrs);
  def.traits = traits;
  def.infer = std::move(infer);
  register_op(std::move(def));
}

std::vector<Type> infer_binary(const InferContext& c) {
  return {Type::tensor(promote(c.in(0).dtype, c.in(1).dtype),
                       broadcast_shapes(c.in(0).shape, c.in(1).shape, c.op_name))};
}

std::vector<Type> infer_same(const InferContext& c) {
  return {Type::tensor(c.in(0).dtype, c.in(0).shape)};
}

std::size_t checked_axis(const InferContext& c, std::int64_t axis) {
  std::int64_t rank = c.in(0).rank();
  if (axis < -rank || axis >= rank)
    fail(ErrorCode::invalid_argument, c.op_name, ": axis ", axis, " of ", c.in(0));
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

std::vector<Type> infer_sum(const InferContext& c) {
  auto attrs = c.as<ReduceAttrs>();
  Shape shape = c.in(0).shape;
  std::size_t axis = checked_axis(c, attrs.axis);
  if (attrs.keepdim)
    shape[axis] = 1;
  else
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return {Type::tensor(c.in(0).dtype, shape)};
}

std::vector<Type> infer_topk(const InferContext& c) {
  Shape shape = c.in(0).shape;
  shape[checked_axis(c, -1)] = c.as<TopkAttrs>().k;
  return {Type::tensor(c.in(0).dtype, shape), Type::tensor(DType::i64, shape)};
}

std::vector<Type> infer_cat(const InferContext& c) {
  if (c.inputs.empty()) fail(ErrorCode::invalid_argument, c.op_name, ": nothing to join");
  Shape shape = c.in(0).shape;
  for (std::size_t i = 1; i < c.inputs.size(); ++i) shape[0] += c.in(i).shape[0];
  return {Type::tensor(c.in(0).dtype, shape)};
}

std::vector<Type> infer_constant(const InferContext& c) {
  auto value = c.as<ConstantAttrs>().value;
  if (!value) fail(ErrorCode::invalid_argument, c.op_name, ": value is missing");
  return {Type::tensor(value->dtype(), Shape(value->shape().begin(), value->shape().end()))};
}

std::vector<Type> infer_if(const InferContext& c) {
  if (c.subgraphs.size() != 2)
    fail(ErrorCode::invalid_argument, c.op_name, ": expected 2 subgraphs, got ",
         c.subgraphs.size());
  std::vector<Type> types;
  for (const Value* value : c.subgraphs[0]->outputs()) types.push_back(value->type());
  return types;
}

bool register_all() {
  InputSpec x{"x"};
  std::uint32_t pure = static_cast<std::uint32_t>(Trait::pure);
  define("test.add", {{"a"}, {"b"}}, {}, Trait::pure | Trait::commutative | Trait::elementwise,
         infer_binary);
  define("test.mul", {{"a"}, {"b"}}, {}, Trait::pure | Trait::commutative | Trait::elementwise,
         infer_binary);
  define("test.sub", {{"a"}, {"b"}}, {}, pure, infer_binary);
  define("test.neg", {x}, {}, pure, infer_same);
  define("test.sum", {x}, schema_of<ReduceAttrs>(), pure, infer_sum);
  define("test.topk", {x}, schema_of<TopkAttrs>(), pure, infer_topk);
  define("test.cat", {{"xs", Arity::variadic}}, {}, pure, infer_cat);
  define("test.clamp", {x, {"low", Arity::optional}, {"high", Arity::optional}}, {}, pure,
         infer_same);
  define("test.constant", {}, schema_of<ConstantAttrs>(), Trait::pure | Trait::constant,
         infer_constant);
  define("test.every", {x}, schema_of<EveryAttrs>(), pure, infer_same);
  define("test.if", {{"condition"}, {"operands", Arity::variadic}}, {},
         Trait::pure | Trait::control, infer_if);
  define("test.start", {}, {}, pure,
         [](const InferContext&) { return std::vector{Type::token()}; });
  define("test.log", {{"after"}, x}, {}, static_cast<std::uint32_t>(Trait::effect),
         [](const InferContext&) { return std::vector{Type::token()}; });
  define("test.drop", {x}, {}, static_cast<std::uint32_t>(Trait::effect),
         [](const InferContext&) { return std::vector<Type>{}; });
  return true;
}

}  // namespace

void register_test_ops() {
  static bool done = register_all();
  (void)done;
}

}  // namespace gex::test
