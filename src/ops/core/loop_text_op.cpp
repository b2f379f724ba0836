#include "ops/core/loop_text_op.hpp"

#include <map>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "ir/op_def.hpp"
#include "loop/body.hpp"
#include "loop/kernel.hpp"
#include "ops/core/define.hpp"

namespace gex::ops {

namespace {

using loop::Buffer;
using loop::Expr;
using loop::ExprId;
using loop::Kernel;

template <class... Args>
[[noreturn]] void refuse(const std::string& name, Args&&... args) {
  fail(ErrorCode::invalid_argument, "the loop text of op ", name, " ", std::forward<Args>(args)...);
}

// With sizes and indices of the text replaced by those of a node.
Dim replaced(Dim dim, const std::map<std::string, Dim>& values) {
  return dim.substitute([&](Dim symbol) -> std::optional<Dim> {
    const auto at = values.find(symbol.name());
    return at == values.end() ? std::nullopt : std::optional<Dim>(at->second);
  });
}

// A kernel as the body of an op.
class LoopText {
 public:
  LoopText(std::string name, Kernel kernel) : name_(std::move(name)), kernel_(std::move(kernel)) {
    check_form();
    for (int b = 0; b < static_cast<int>(kernel_.buffers.size()); ++b)
      (buffer(b).role == Buffer::Role::in ? inputs_ : outputs_).push_back(b);
    if (outputs_.empty()) refuse(name_, "has no output");
    check_stores();
    check_loads();
    check_sizes();
  }

  std::vector<InputSpec> input_specs() const {
    std::vector<InputSpec> specs;
    for (int b : inputs_) specs.push_back({buffer(b).name});
    return specs;
  }
  std::vector<std::string> output_names() const {
    std::vector<std::string> names;
    for (int b : outputs_) names.push_back(buffer(b).name);
    return names;
  }
  std::vector<Type> infer(const InferContext& c) const {
    const std::map<std::string, Dim> sizes = bound_sizes(c.inputs);
    std::vector<Type> types;
    for (int b : outputs_) {
      Shape shape;
      for (Dim size : buffer(b).shape) shape.push_back(replaced(size, sizes));
      types.push_back(Type::tensor(buffer(b).dtype, shape));
    }
    return types;
  }
  Scalar evaluate(BodyContext& c, int output, Indices index) const {
    std::vector<const Type*> types;
    for (std::size_t k = 0; k < inputs_.size(); ++k)
      types.push_back(&c.in_type(static_cast<int>(k)));
    std::map<std::string, Dim> values = bound_sizes(types);
    for (std::size_t k = 0; k < kernel_.grid.size(); ++k) values[kernel_.grid[k].name()] = index[k];
    const ExprId result = store_of(outputs_[static_cast<std::size_t>(output)]).value;
    std::vector<std::optional<Scalar>> made(stage().exprs.size());
    return evaluate(c, result, values, made);
  }

 private:
  const loop::Stage& stage() const { return kernel_.stages.front(); }
  const Buffer& buffer(int b) const { return kernel_.buffers[static_cast<std::size_t>(b)]; }
  const Expr& expr(ExprId id) const { return stage().exprs[static_cast<std::size_t>(id)]; }

  void check_form() const {
    if (kernel_.stages.size() != 1 || stage().reduction || !stage().domain.empty())
      refuse(name_, "must have one stage, without domain and reduction");
    for (const Buffer& buffer : kernel_.buffers)
      if (buffer.role != Buffer::Role::in && buffer.role != Buffer::Role::out)
        refuse(name_, "may have buffers of kind in and out only; '", buffer.name, "' is another");
      else if (!buffer.strides.empty())
        refuse(name_, "must have dense buffers; '", buffer.name, "' has strides");
  }
  void check_stores() const {
    if (stage().stores.size() != outputs_.size()) refuse(name_, "must store each output once");
    for (int b : outputs_) {
      const loop::Store& store = store_of(b);
      bool plain = store.mode == loop::Store::Mode::set && store.pred == loop::kNoExpr &&
                   store.index.size() == kernel_.grid.size() &&
                   buffer(b).shape.size() == kernel_.grid.size();
      for (std::size_t k = 0; plain && k < store.index.size(); ++k)
        plain = store.index[k] == kernel_.grid[k].index &&
                buffer(b).shape[k] == kernel_.grid[k].extent();
      if (!plain)
        refuse(name_, "must store '", buffer(b).name,
               "' without condition at the indices of the grid, whose sizes are its own");
    }
  }
  void check_loads() const {
    std::vector<Expr> scratch;
    ScalarBuilder builder(scratch);
    for (const Expr& load : stage().exprs) {
      if (load.kind != Expr::Kind::load) continue;
      if (buffer(load.buffer).role != Buffer::Role::in)
        refuse(name_, "loads from its output '", buffer(load.buffer).name, "'");
      for (std::size_t k = 0; k < load.index.size(); ++k)
        if (!builder.is_true(
                builder.in_bounds(load.index[k], Dim(0), buffer(load.buffer).shape[k])))
          refuse(name_, "loads '", buffer(load.buffer).name, "' at ", load.index[k].text(),
                 ", which can't be proven to be less than ", buffer(load.buffer).shape[k].text());
    }
  }
  // Every size is that of an axis of an input.
  void check_sizes() const {
    std::map<std::string, bool> known;
    for (int b : inputs_)
      for (Dim size : buffer(b).shape)
        if (size.is_symbol()) known[size.name()] = true;
    for (Dim size : kernel_.symbols())
      if (!known[size.name()])
        refuse(name_, "has a size ", size.name(), " that is not the size of an axis of an input");
  }

  const loop::Store& store_of(int b) const {
    for (const loop::Store& store : stage().stores)
      if (store.buffer == b) return store;
    refuse(name_, "does not store its output '", buffer(b).name, "'");
  }

  std::map<std::string, Dim> bound_sizes(std::span<const Type* const> types) const {
    std::map<std::string, Dim> sizes;
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      const Buffer& wanted = buffer(inputs_[k]);
      const Type& type = *types[k];
      if (type.dtype != wanted.dtype || type.shape.size() != wanted.shape.size())
        fail(ErrorCode::type_mismatch, name_, ": input '", wanted.name, "' is ", type,
             ", its loop text has ", name_of(wanted.dtype), " with ", wanted.shape.size(), " axes");
      for (std::size_t axis = 0; axis < type.shape.size(); ++axis) {
        const Dim size = type.shape[axis];
        Dim expected = wanted.shape[axis];
        if (expected.is_symbol()) expected = sizes.try_emplace(expected.name(), size).first->second;
        if (expected != size)
          fail(ErrorCode::shape_mismatch, name_, ": input '", wanted.name, "' is ", type, ", axis ",
               axis, " must have the size ", expected.text());
      }
    }
    return sizes;
  }

  Scalar evaluate(BodyContext& c, ExprId id, const std::map<std::string, Dim>& values,
                  std::vector<std::optional<Scalar>>& made) const {
    std::optional<Scalar>& known = made[static_cast<std::size_t>(id)];
    if (known) return *known;
    const Expr& e = expr(id);
    const auto argument = [&](std::size_t k) { return evaluate(c, e.args[k], values, made); };
    Scalar result;
    switch (e.kind) {
      case Expr::Kind::constant:
        result = is_float(e.dtype) || e.dtype == DType::boolean
                     ? c.s.constant(e.dtype, e.imm)
                     : c.s.constant_int(e.dtype, e.imm_int);
        break;
      case Expr::Kind::index:
        result = c.s.index(replaced(e.dim, values));
        break;
      case Expr::Kind::load: {
        std::vector<Dim> index;
        for (Dim part : e.index) index.push_back(replaced(part, values));
        int operand = 0;
        while (inputs_[static_cast<std::size_t>(operand)] != e.buffer) ++operand;
        result = e.pred == loop::kNoExpr ? c.in(operand, index)
                                         : c.in(operand, index, evaluate(c, e.pred, values, made),
                                                evaluate(c, e.fill, values, made));
        break;
      }
      case Expr::Kind::prim: {
        std::vector<Scalar> arguments;
        for (std::size_t k = 0; k < e.args.size(); ++k) arguments.push_back(argument(k));
        result = c.s.prim(e.prim, arguments);
        break;
      }
      case Expr::Kind::cast:
        result = c.s.cast(argument(0), e.dtype);
        break;
      default:
        GEX_CHECK(false, "an accumulator without a reduction");
    }
    made[static_cast<std::size_t>(id)] = result;
    return result;
  }

  std::string name_;
  Kernel kernel_;
  std::vector<int> inputs_, outputs_;  // numbers of buffers
};

}  // namespace

void register_loop_text_op(const std::string& name, const std::string& doc, std::string_view text) {
  Kernel kernel = loop::parse_kernel(text);
  loop::verify(kernel);
  const auto body = std::make_shared<const LoopText>(name, std::move(kernel));
  OpDef def;
  def.name = name;
  def.doc = doc;
  def.inputs = body->input_specs();
  def.outputs = body->output_names();
  def.traits = static_cast<std::uint32_t>(Trait::pure);
  def.infer = [body](const InferContext& c) { return body->infer(c); };
  auto op_body = std::make_shared<loop::OpBody>();
  op_body->map = [body](BodyContext& c, int output, Indices index) {
    return body->evaluate(c, output, index);
  };
  def.body = std::move(op_body);
  register_op(std::move(def));
}

}  // namespace gex::ops
