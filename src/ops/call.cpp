// Calls of the host program, and effects.

#include "ops/call.hpp"

#include <iostream>

#include "ops/core/define.hpp"
#include "ops/core/families.hpp"

namespace gex::ops {

namespace {

// Appends a list of optional strides to its flat form.
void pack(const std::optional<std::vector<Dim>>& strides, Ints& flags, Dims& flat) {
  flags.push_back(strides ? 1 : 0);
  if (strides) flat.insert(flat.end(), strides->begin(), strides->end());
}

// Reads the next `rank` entries of a flat list.
Dims take_next(const Dims& flat, std::size_t& at, std::int64_t rank, const char* what) {
  const auto n = static_cast<std::size_t>(rank);
  if (rank < 0 || at + n > flat.size()) {
    fail(ErrorCode::invalid_argument, "call: `", what, "` has ", flat.size(),
         " entries, too few for `ranks`");
  }
  Dims part(flat.begin() + static_cast<std::ptrdiff_t>(at),
            flat.begin() + static_cast<std::ptrdiff_t>(at + n));
  at += n;
  return part;
}

bool has_token(const Node& call) { return call.op().has(Trait::effect); }

Type token_checked(const InferContext& c) {
  if (!c.has(0) || !c.in(0).is_token()) {
    fail(ErrorCode::type_mismatch, c.op_name, ": input 0 must be a token");
  }
  return Type::token();
}

// A token has no contents: any tensor can represent it.
std::vector<HostTensor> token_reference(const ReferenceContext&) {
  return {HostTensor(DType::boolean, {})};
}

std::vector<HostTensor> print_reference(const ReferenceContext& c) {
  const HostTensor& x = *c.inputs[1];
  std::cout << std::get<std::string>(c.node.attr("label")) << ' ' << c.node.input(1)->type() << ':';
  for (std::int64_t i = 0; i < x.numel(); ++i) std::cout << ' ' << x.get(i);
  std::cout << '\n';
  return token_reference(c);
}

}  // namespace

bool is_call(const Node& node) { return node.op().step == StepKind::call; }

Call make_call(std::int64_t callee, std::string name, std::span<const Type> results,
               std::span<const Type> operands) {
  Call call;
  call.callee = callee;
  call.name = std::move(name);
  for (const Type& t : results) {
    call.dtypes.emplace_back(name_of(t.dtype));
    call.ranks.push_back(t.rank());
    call.shapes.insert(call.shapes.end(), t.shape.begin(), t.shape.end());
    pack(t.strides, call.strided, call.strides);
  }
  for (const Type& t : operands) pack(t.strides, call.operand_strided, call.operand_strides);
  return call;
}

std::vector<Type> result_types(const Call& call) {
  if (call.ranks.size() != call.dtypes.size() || call.strided.size() != call.dtypes.size()) {
    fail(ErrorCode::invalid_argument, "call: ", call.dtypes.size(), " dtypes, ", call.ranks.size(),
         " ranks and ", call.strided.size(), " strided flags; give one of each for every result");
  }
  std::vector<Type> types;
  std::size_t shape_at = 0, stride_at = 0;
  for (std::size_t k = 0; k < call.dtypes.size(); ++k) {
    const auto dtype = dtype_from_name(call.dtypes[k]);
    if (!dtype) fail(ErrorCode::invalid_argument, "call: unknown dtype '", call.dtypes[k], "'");
    Type t = Type::tensor(*dtype, take_next(call.shapes, shape_at, call.ranks[k], "shapes"));
    if (call.strided[k] != 0) {
      t.strides = take_next(call.strides, stride_at, call.ranks[k], "strides");
    }
    types.push_back(std::move(t));
  }
  return types;
}

std::span<Value* const> call_operands(const Node& call) {
  return call.inputs().subspan(has_token(call) ? 1 : 0);
}

std::vector<std::optional<Dims>> operand_strides(const Node& node) {
  const Call call = node.as<Call>();
  const auto operands = call_operands(node);
  std::vector<std::optional<Dims>> strides(operands.size());
  std::size_t at = 0;
  for (std::size_t k = 0; k < operands.size() && k < call.operand_strided.size(); ++k) {
    if (call.operand_strided[k] == 0) continue;
    strides[k] = take_next(call.operand_strides, at, operands[k]->type().rank(), "operand_strides");
  }
  return strides;
}

void register_call() {
  Definition("call", "A pure function of the host program.")
      .variadic_in("inputs")
      .attrs<Call>()
      .traits(Trait::pure)
      .step(StepKind::call)
      .infer([](const InferContext& c) { return result_types(c.as<Call>()); })
      .define();
  Definition("call_effect", "A function of the host program with effects, ordered by its token.")
      .in({"token"})
      .variadic_in("inputs")
      .attrs<Call>()
      .traits(Trait::effect)
      .step(StepKind::call)
      .infer([](const InferContext& c) {
        std::vector<Type> types{token_checked(c)};
        for (Type& t : result_types(c.as<Call>())) types.push_back(std::move(t));
        return types;
      })
      .define();

  struct Print {
    std::string label;
    static constexpr auto fields() { return std::tuple{field("label", &Print::label)}; }
  };
  Definition("token", "The start of a chain of effects.")
      .traits(Trait::effect)
      .step(StepKind::order)
      .infer_one([](const InferContext&) { return Type::token(); })
      .reference(token_reference)
      .define();
  Definition("print", "Prints x under a label when it runs.")
      .in({"token", "x"})
      .attrs<Print>()
      .traits(Trait::effect)
      .step(StepKind::order)
      .infer_one(token_checked)
      .reference(print_reference)
      .define();
}

}  // namespace gex::ops
