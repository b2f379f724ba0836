#include "ops/core/define.hpp"

#include <algorithm>

#include "ops/core/build.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

Definition::Definition(std::string name, std::string doc) {
  def_.name = std::move(name);
  def_.doc = std::move(doc);
}

Definition& Definition::in(std::initializer_list<const char*> names) {
  for (const char* name : names) def_.inputs.push_back({name, InputSpec::Arity::one});
  return *this;
}
Definition& Definition::optional_in(std::initializer_list<const char*> names) {
  for (const char* name : names) def_.inputs.push_back({name, InputSpec::Arity::optional});
  return *this;
}
Definition& Definition::variadic_in(const char* name) {
  def_.inputs.push_back({name, InputSpec::Arity::variadic});
  return *this;
}
Definition& Definition::traits(Trait t) {
  def_.traits = def_.traits | t;
  return *this;
}
Definition& Definition::traits(std::uint32_t t) {
  def_.traits |= t;
  return *this;
}
Definition& Definition::infer(std::function<std::vector<Type>(const InferContext&)> rule) {
  def_.infer = std::move(rule);
  return *this;
}
Definition& Definition::out(std::initializer_list<const char*> names) {
  def_.outputs.assign(names.begin(), names.end());
  return *this;
}
Definition& Definition::infer_one(std::function<Type(const InferContext&)> rule) {
  def_.outputs = {"result"};
  def_.infer = [rule = std::move(rule)](const InferContext& c) {
    return std::vector<Type>{rule(c)};
  };
  return *this;
}
Definition& Definition::map(loop::MapBody body) {
  auto op_body = std::make_shared<loop::OpBody>();
  op_body->map = std::move(body);
  def_.body = std::move(op_body);
  return *this;
}
Definition& Definition::reduction(loop::ReductionBody body) {
  auto op_body = std::make_shared<loop::OpBody>();
  op_body->reduction = std::make_unique<const loop::ReductionBody>(std::move(body));
  def_.body = std::move(op_body);
  return *this;
}
Definition& Definition::scatter(loop::ScatterBody body) {
  auto op_body = std::make_shared<loop::OpBody>();
  op_body->scatter = std::make_unique<const loop::ScatterBody>(std::move(body));
  def_.body = std::move(op_body);
  return *this;
}
Definition& Definition::expand(std::function<std::vector<Value*>(Graph&, const Node&)> expansion) {
  def_.expand = std::move(expansion);
  return traits(Trait::composite);
}
Definition& Definition::step(StepKind kind) {
  def_.step = kind;
  return *this;
}
Definition& Definition::problem(ProblemRule rule) {
  def_.problem = std::make_shared<const ProblemRule>(std::move(rule));
  return *this;
}
Definition& Definition::reference(std::vector<HostTensor> (*function)(const ReferenceContext&)) {
  def_.reference = function;
  return *this;
}
Definition& Definition::indices(std::vector<IndexInput> (*function)(const Node&)) {
  def_.indices = function;
  return *this;
}
Definition& Definition::bounds(std::optional<ElementBounds> (*function)(const Node&)) {
  def_.bounds = function;
  return *this;
}
Definition& Definition::on_sizes(std::optional<Dim> (*function)(Dim, Dim)) {
  def_.on_sizes = function;
  return *this;
}
Definition& Definition::aten(const char* overload, AtenImport import) {
  def_.aten.push_back({overload, std::move(import)});
  return *this;
}
Definition& Definition::aten(std::initializer_list<const char*> overloads) {
  GEX_CHECK(usual_import_, def_.name, " has no usual import");
  for (const char* overload : overloads) def_.aten.push_back({overload, usual_import_});
  return *this;
}
Definition& Definition::usual_import(AtenImport import) {
  usual_import_ = std::move(import);
  return *this;
}
Definition& Definition::tested(double low, double high, double ulp_f32) {
  def_.test.low = low;
  def_.test.high = high;
  def_.test.ulp_f32 = ulp_f32;
  return *this;
}
Definition& Definition::tested_on(std::vector<DType> dtypes) {
  def_.test.dtypes = std::move(dtypes);
  return *this;
}
Definition& Definition::sample(std::function<OpSample()> make) {
  def_.sample = std::move(make);
  return *this;
}
const OpDef& Definition::define() { return register_op(std::move(def_)); }

bool any_dtype(DType) { return true; }
bool numeric(DType d) { return d != DType::boolean; }
bool floating(DType d) { return is_float(d); }
bool integral(DType d) { return !is_float(d); }
bool numeric_only_signed(DType d) { return d != DType::boolean && d != DType::u8; }

void require_dtype(const InferContext& c, std::size_t input, DTypeSet accepts) {
  if (c.in(input).is_token() || !accepts(c.in(input).dtype)) {
    std::string accepted;
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      if (accepts(dtype)) accepted += str(accepted.empty() ? "" : ", ", dtype);
    }
    fail(ErrorCode::type_mismatch, c.op_name, ": input ", input, " is ", c.in(input),
         "; accepted are ", accepted, ". Cast it first.");
  }
}

void require_same_dtype(const InferContext& c, std::size_t a, std::size_t b) {
  if (c.in(a).dtype != c.in(b).dtype) {
    fail(ErrorCode::type_mismatch, c.op_name, ": inputs ", a, " and ", b, " are ", c.in(a), " and ",
         c.in(b), "; they must have the same dtype. Cast one of them.");
  }
}

void require_rank(const InferContext& c, std::size_t input, int rank) {
  if (c.in(input).rank() != rank) {
    fail(ErrorCode::shape_mismatch, c.op_name, ": input ", input, " is ", c.in(input),
         ", expected ", rank, " axes");
  }
}

void require_at_least(const InferContext& c, const char* attribute, const Ints& values,
                      std::int64_t least) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;  // products of two stay countable
  for (std::int64_t value : values) {
    if (value < least || value > kMost) {
      fail(ErrorCode::invalid_argument, c.op_name, ": ", attribute, " has the entry ", value,
           "; entries must be from ", least, " to ", kMost);
    }
  }
}

Shape broadcast_inputs(const InferContext& c, std::size_t first) {
  Shape shape = c.in(first).shape;
  for (std::size_t i = first + 1; i < c.inputs.size(); ++i) {
    if (c.has(i)) shape = broadcast_shapes(shape, c.in(i).shape, c.op_name);
  }
  return shape;
}

bool broadcasts_to(const Shape& operand, const Shape& shape, std::string_view op_name) {
  const Shape joined = broadcast_shapes(operand, shape, op_name);
  bool same = joined.size() == shape.size();
  for (std::size_t d = 0; same && d < shape.size(); ++d) same = assume_eq(joined[d], shape[d]);
  return same;
}

std::vector<Dim> broadcast_index(const Shape& operand, const Shape& result, Indices index) {
  const std::size_t skip = result.size() - operand.size();
  std::vector<Dim> at(operand.size());
  for (std::size_t i = 0; i < operand.size(); ++i) {
    const bool stretched = operand[i] == Dim(1) && !(result[skip + i] == Dim(1));
    at[i] = stretched ? Dim(0) : index[skip + i];
  }
  return at;
}

Scalar in_broadcast(BodyContext& c, int k, Indices index) {
  return c.in(k, broadcast_index(c.in_type(k).shape, c.out_type().shape, index));
}

namespace {

Definition elementwise(const char* name, const char* doc) {
  Definition d(name, doc);
  d.traits(Trait::pure | Trait::elementwise);
  return d;
}

// The common rule: same dtype in and out, inputs broadcast.
std::function<Type(const InferContext&)> same_dtype_rule(DTypeSet accepts) {
  return [accepts](const InferContext& c) {
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      require_dtype(c, i, accepts);
      require_same_dtype(c, 0, i);
    }
    return Type::tensor(c.in(0).dtype, broadcast_inputs(c));
  };
}

}  // namespace

Definition unary(const char* name, Prim prim, const char* doc, DTypeSet accepts) {
  Definition d = elementwise(name, doc);
  d.in({"x"})
      .infer_one(same_dtype_rule(accepts))
      .map([prim](BodyContext& c, int, Indices i) { return c.s.unary(prim, c.in(0, i)); })
      .usual_import(import_unary(name));
  return d;
}

Definition unary_body(const char* name, const char* doc, UnaryBody body, DTypeSet accepts) {
  Definition d = elementwise(name, doc);
  d.in({"x"})
      .infer_one(same_dtype_rule(accepts))
      .map([body = std::move(body)](BodyContext& c, int, Indices i) {
        const DType dtype = c.in_type(0).dtype;
        return c.s.cast(body(c.s, c.node, c.s.cast(c.in(0, i), compute_type(dtype))), dtype);
      })
      .usual_import(import_unary(name));
  return d;
}

namespace {

using OnSizes = std::optional<Dim> (*)(Dim, Dim);

bool can_divide(Dim a) { return known_eq(a, 0) == false; }
// If nothing is negative, rounding towards zero is rounding down.
bool rounds_alike(Dim a, Dim b) {
  return can_divide(b) && provably_nonnegative(a) && provably_nonnegative(b);
}
std::optional<Dim> as_size(std::optional<bool> truth) {
  if (!truth) return std::nullopt;
  return Dim(*truth ? 1 : 0);
}

// The primitive on integers that are known as sizes; null if it has no such form.
OnSizes on_sizes_of(Prim prim) {
  using Result = std::optional<Dim>;
  switch (prim) {
    case Prim::add:
      return [](Dim a, Dim b) { return Result(a + b); };
    case Prim::sub:
      return [](Dim a, Dim b) { return Result(a - b); };
    case Prim::mul:
      return [](Dim a, Dim b) { return Result(a * b); };
    case Prim::min:
      return [](Dim a, Dim b) { return Result(min(a, b)); };
    case Prim::max:
      return [](Dim a, Dim b) { return Result(max(a, b)); };
    case Prim::floordiv:
      return [](Dim a, Dim b) { return can_divide(b) ? Result(floordiv(a, b)) : std::nullopt; };
    case Prim::mod:
      return [](Dim a, Dim b) { return can_divide(b) ? Result(mod(a, b)) : std::nullopt; };
    case Prim::truncdiv:
      return
          [](Dim a, Dim b) { return rounds_alike(a, b) ? Result(floordiv(a, b)) : std::nullopt; };
    case Prim::fmod:
      return [](Dim a, Dim b) { return rounds_alike(a, b) ? Result(mod(a, b)) : std::nullopt; };
    case Prim::eq:
      return [](Dim a, Dim b) { return as_size(known_eq(a, b)); };
    case Prim::ne:
      return [](Dim a, Dim b) {
        const std::optional<bool> equal = known_eq(a, b);
        return equal ? as_size(!*equal) : std::nullopt;
      };
    case Prim::lt:
      return [](Dim a, Dim b) { return as_size(known_lt(a, b)); };
    case Prim::le:
      return [](Dim a, Dim b) { return as_size(known_le(a, b)); };
    case Prim::gt:
      return [](Dim a, Dim b) { return as_size(known_lt(b, a)); };
    case Prim::ge:
      return [](Dim a, Dim b) { return as_size(known_le(b, a)); };
    default:
      return nullptr;
  }
}

}  // namespace

Definition binary(const char* name, Prim prim, const char* doc, DTypeSet accepts) {
  Definition d = elementwise(name, doc);
  d.in({"a", "b"})
      .on_sizes(on_sizes_of(prim))
      .infer_one(same_dtype_rule(accepts))
      .map([prim](BodyContext& c, int, Indices i) {
        return c.s.binary(prim, in_broadcast(c, 0, i), in_broadcast(c, 1, i));
      })
      .usual_import(import_binary(name));
  return d;
}

Definition binary_body(const char* name, const char* doc, BinaryBody body, DTypeSet accepts) {
  Definition d = elementwise(name, doc);
  d.in({"a", "b"})
      .infer_one(same_dtype_rule(accepts))
      .map([body = std::move(body)](BodyContext& c, int, Indices i) {
        const DType dtype = c.in_type(0).dtype;
        const DType wide = compute_type(dtype);
        return c.s.cast(body(c.s, c.node, c.s.cast(in_broadcast(c, 0, i), wide),
                             c.s.cast(in_broadcast(c, 1, i), wide)),
                        dtype);
      })
      .usual_import(import_binary(name));
  return d;
}

Definition comparison(const char* name, Prim prim, const char* doc) {
  Definition d = elementwise(name, doc);
  d.in({"a", "b"})
      .traits(Trait::cheap)
      .on_sizes(on_sizes_of(prim))
      .infer_one([](const InferContext& c) {
        require_same_dtype(c, 0, 1);
        return Type::tensor(DType::boolean, broadcast_inputs(c));
      })
      .map([prim](BodyContext& c, int, Indices i) {
        return c.s.binary(prim, in_broadcast(c, 0, i), in_broadcast(c, 1, i));
      })
      .usual_import(import_comparison(name));
  return d;
}

Dim linearise(Indices index, const Shape& shape) {
  Dim linear = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) linear = linear * shape[i] + index[i];
  return linear;
}

std::vector<Dim> delinearise(Dim linear, const Shape& shape) {
  std::vector<Dim> index(shape.size());
  // Nothing is read from an empty shape; zeros avoid a division by its size in the map.
  if (std::find(shape.begin(), shape.end(), Dim(0)) != shape.end()) return index;
  Dim rest = linear;
  for (std::size_t i = shape.size(); i-- > 1;) {
    index[i] = mod(rest, shape[i]);
    rest = floordiv(rest, shape[i]);
  }
  if (!shape.empty()) index[0] = rest;
  return index;
}

std::vector<Dim> reshape_index(const Shape& from, const Shape& to, Indices index) {
  // Axes are matched in groups with equal products, so that unchanged axes stay separate.
  std::vector<Dim> result;
  result.reserve(from.size());
  std::size_t f = 0, t = 0;
  while (f < from.size() || t < to.size()) {
    const std::size_t f0 = f, t0 = t;
    Dim from_product = 1, to_product = 1;
    if (f < from.size()) from_product = from[f++];
    if (t < to.size()) to_product = to[t++];
    while (!(from_product == to_product)) {
      const bool from_may_grow = f < from.size(), to_may_grow = t < to.size();
      if (!from_may_grow && !to_may_grow) break;
      const bool grow_from =
          from_may_grow && (!to_may_grow || known_lt(from_product, to_product).value_or(false) ||
                            !known_lt(to_product, from_product).value_or(false));
      if (grow_from) {
        from_product *= from[f++];
      } else {
        to_product *= to[t++];
      }
    }
    // Trailing unit axes belong to the last group.
    if (f == from.size()) t = to.size();
    if (t == to.size()) f = from.size();
    const Shape from_group(from.begin() + static_cast<std::ptrdiff_t>(f0),
                           from.begin() + static_cast<std::ptrdiff_t>(f));
    const Shape to_group(to.begin() + static_cast<std::ptrdiff_t>(t0),
                         to.begin() + static_cast<std::ptrdiff_t>(t));
    const Dim linear = linearise(index.subspan(t0, t - t0), to_group);
    for (Dim d : delinearise(linear, from_group)) result.push_back(d);
  }
  return result;
}

bool fits_into(Dim start, Dim size, std::int64_t step, Dim axis) {
  if (size == Dim(0)) return true;
  const Dim last = start + (size - 1) * Dim(step);
  // The extent of an empty slice does not matter: multiplied by 0 or 1.
  const Dim any = min(size, 1);
  const auto inside = [&](Dim at) {
    if (known_le(0, at) == true && known_lt(at, axis) == true) return true;
    return assume_le(0, any * at) && assume_le(any * (at + 1), axis);
  };
  return assume_le(0, size) && inside(start) && inside(last);
}

void require_axes(const InferContext& c, const Ints& axes) {
  std::int64_t last = -1;
  for (std::int64_t axis : axes) {
    if (axis <= last || axis >= c.in(0).rank()) {
      fail(ErrorCode::invalid_argument, c.op_name,
           ": axes must be ascending and inside the input's ", c.in(0).rank(), " axes; got axis ",
           axis);
    }
    last = axis;
  }
}

Shape reduced_shape(const Shape& shape, const Ints& axes, bool keepdim) {
  Shape out;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!contains(axes, static_cast<std::int64_t>(i))) {
      out.push_back(shape[i]);
    } else if (keepdim) {
      out.push_back(1);
    }
  }
  return out;
}

bool contains(const Ints& axes, std::int64_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

Ints all_axes(int rank) {
  Ints axes(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i) axes[static_cast<std::size_t>(i)] = i;
  return axes;
}

}  // namespace gex::ops
