// Control flow: subgraphs take everything they use as inputs.

#include "ops/control.hpp"
#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"

namespace gex::ops {

namespace {

void require_subgraphs(const InferContext& c, std::size_t count) {
  if (c.subgraphs.size() != count) {
    fail(ErrorCode::invalid_graph, c.op_name, ": ", c.subgraphs.size(), " subgraphs, expected ",
         count);
  }
}

// The subgraph takes these inputs of the node, from `first` on.
void require_inputs(const InferContext& c, const Graph& sub, std::size_t first) {
  if (sub.inputs().size() != c.inputs.size() - first) {
    fail(ErrorCode::invalid_graph, c.op_name, ": subgraph '", sub.name(), "' takes ",
         sub.inputs().size(), " inputs, given ", c.inputs.size() - first);
  }
  for (std::size_t k = 0; k < sub.inputs().size(); ++k) {
    const Type& wants = sub.inputs()[k]->type();
    const Type& has = c.in(first + k);
    if (wants.kind != has.kind || wants.dtype != has.dtype || wants.shape != has.shape) {
      fail(ErrorCode::type_mismatch, c.op_name, ": input ", k, " of subgraph '", sub.name(),
           "' is ", wants, ", given ", has);
    }
  }
}

std::vector<Type> output_types(const Graph& sub) {
  std::vector<Type> types;
  for (const Value* v : sub.outputs()) types.push_back(v->type());
  return types;
}

void require_flag(const InferContext& c, const Type& t, const char* what) {
  if (t.is_token() || t.dtype != DType::boolean || t.rank() != 0) {
    fail(ErrorCode::type_mismatch, c.op_name, ": ", what, " is ", t, ", expected bool[]");
  }
}

std::vector<Type> if_types(const InferContext& c) {
  require_flag(c, c.in(0), "the condition");
  require_subgraphs(c, 2);
  const Graph &yes = *c.subgraphs[0], &no = *c.subgraphs[1];
  require_inputs(c, yes, 1);
  require_inputs(c, no, 1);
  const auto types = output_types(yes);
  if (types != output_types(no)) {
    fail(ErrorCode::type_mismatch, "if: the branches return different types");
  }
  return types;
}

std::vector<Type> while_types(const InferContext& c) {
  require_subgraphs(c, 2);
  const auto carried = static_cast<std::size_t>(c.as<While>().carried);
  const Graph &condition = *c.subgraphs[0], &body = *c.subgraphs[1];
  require_inputs(c, condition, 0);
  require_inputs(c, body, 0);
  if (condition.outputs().size() != 1) {
    fail(ErrorCode::invalid_graph, "while: the condition returns ", condition.outputs().size(),
         " values, expected one");
  }
  require_flag(c, condition.outputs()[0]->type(), "the condition's result");
  const auto types = output_types(body);
  if (types.size() != carried || carried > c.inputs.size()) {
    fail(ErrorCode::invalid_graph, "while: the body returns ", types.size(),
         " values, but carried is ", carried);
  }
  for (std::size_t k = 0; k < carried; ++k) {
    if (types[k].dtype != c.in(k).dtype || types[k].shape != c.in(k).shape) {
      fail(ErrorCode::type_mismatch, "while: carried value ", k, " starts as ", c.in(k),
           " but the body returns ", types[k]);
    }
  }
  return types;
}

std::vector<Type> for_types(const InferContext& c) {
  require_subgraphs(c, 1);
  for (std::size_t k = 0; k < 3; ++k)
    if (c.in(k).is_token() || c.in(k).dtype != DType::i64 || c.in(k).rank() != 0)
      fail(ErrorCode::type_mismatch, "for: start, limit and delta are i64[], got ", c.in(k));
  const auto carried = static_cast<std::size_t>(c.as<For>().carried);
  const Graph& body = *c.subgraphs[0];
  if (body.inputs().size() != c.inputs.size() - 2)
    fail(ErrorCode::invalid_graph, "for: the body takes ", body.inputs().size(),
         " inputs, given the index and ", c.inputs.size() - 3);
  for (std::size_t k = 0; k < body.inputs().size(); ++k) {
    const Type& wants = body.inputs()[k]->type();
    const Type& has = c.in(k == 0 ? 0 : k + 2);
    if (wants.kind != has.kind || wants.dtype != has.dtype || wants.shape != has.shape)
      fail(ErrorCode::type_mismatch, "for: input ", k, " of the body is ", wants, ", given ", has);
  }
  const auto types = output_types(body);
  if (types.size() != carried || carried + 3 > c.inputs.size())
    fail(ErrorCode::invalid_graph, "for: the body returns ", types.size(),
         " values, but carried is ", carried);
  for (std::size_t k = 0; k < carried; ++k)
    if (types[k].dtype != c.in(k + 3).dtype || types[k].shape != c.in(k + 3).shape)
      fail(ErrorCode::type_mismatch, "for: carried value ", k, " starts as ", c.in(k + 3),
           " but the body returns ", types[k]);
  return types;
}

// while over (index, carried..., limit, delta, others...).
std::vector<Value*> for_as_while(Graph& g, const Node& node) {
  const auto carried = node.as<For>().carried;
  const auto last = node.inputs().begin() + 3 + carried;
  std::vector<Value*> operands = {node.input(0)};
  operands.insert(operands.end(), node.inputs().begin() + 3, last);
  operands.push_back(node.input(1));
  operands.push_back(node.input(2));
  operands.insert(operands.end(), last, node.inputs().end());

  auto condition = std::make_unique<Graph>("condition"), body = std::make_unique<Graph>("body");
  std::vector<Value*> seen, given;
  for (Value* operand : operands) {
    seen.push_back(condition->add_input(operand->type()));
    given.push_back(body->add_input(operand->type()));
  }
  const auto limit_at = static_cast<std::size_t>(carried) + 1, delta_at = limit_at + 1;
  {
    Graph& c = *condition;
    Value* zero = scalar_int(c, DType::i64, 0);
    Value* up = bit_and(c, gt(c, seen[delta_at], zero), lt(c, seen[0], seen[limit_at]));
    Value* down = bit_and(c, lt(c, seen[delta_at], zero), gt(c, seen[0], seen[limit_at]));
    c.set_outputs({bit_or(c, up, down)});
  }
  std::vector<Value*> arguments = given;
  arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(limit_at),
                  arguments.begin() + static_cast<std::ptrdiff_t>(limit_at) + 2);
  std::vector<Value*> results = body->inline_graph(*node.subgraphs()[0], arguments);
  results.insert(results.begin(), add(*body, given[0], given[delta_at]));
  body->set_outputs(results);

  std::vector<std::unique_ptr<Graph>> subgraphs;
  subgraphs.push_back(std::move(condition));
  subgraphs.push_back(std::move(body));
  const Node* loop =
      g.add(op("while"), operands, to_attr_list(While{carried + 1}), std::move(subgraphs));
  std::vector<Value*> values;
  for (std::size_t k = 1; k < loop->num_outputs(); ++k) values.push_back(loop->output(k));
  return values;
}

// Iterations that change nothing: start, limit and delta may be anything.
std::vector<Value*> counted_loop(Graph& g, const std::vector<Value*>& v) {
  auto body = std::make_unique<Graph>("body");
  body->add_input(v[0]->type());
  Value* x = body->add_input(v[3]->type());
  body->set_outputs({maximum(*body, x, x)});
  std::vector<std::unique_ptr<Graph>> subgraphs;
  subgraphs.push_back(std::move(body));
  return {g.add("for", v, {{"carried", std::int64_t{1}}}, std::move(subgraphs))->output()};
}

}  // namespace

void register_control() {
  Definition("if", "The results of the first subgraph if the condition holds, else the second's.")
      .in({"condition"})
      .variadic_in("inputs")
      .traits(Trait::control)
      .step(StepKind::branch)
      .infer(if_types)
      .define();
  Definition(
      "while",
      "While the first subgraph returns true, replaces the carried inputs by the results of the "
      "second. Inputs after the carried ones do not change.")
      .variadic_in("inputs")
      .attrs<While>()
      .traits(Trait::control)
      .step(StepKind::loop)
      .infer(while_types)
      .define();
  Definition("for",
             "Counts from start by delta, limit excluded, and replaces the carried inputs by the "
             "results of the subgraph, which takes the index and then the inputs. A delta that "
             "leads away from the limit, or of 0, runs zero iterations.")
      .in({"start", "limit", "delta"})
      .variadic_in("inputs")
      .attrs<For>()
      .traits(Trait::control)
      .infer(for_types)
      .expand(for_as_while)
      .sample([] {
        return OpSample{
            {key_data(), key_data(), key_data(), data(sample_matrix())}, {}, counted_loop};
      })
      .define();
  Definition("bind", "Makes a size symbol equal to the only element of x.")
      .in({"x"})
      .attrs<Bind>()
      .traits(Trait::effect)
      .step(StepKind::bind)
      .infer_one([](const InferContext& c) {
        require_dtype(c, 0, [](DType d) { return is_int(d); });
        if (!c.as<Bind>().symbol.is_symbol() || known_eq(c.in(0).numel(), 1) == false) {
          fail(ErrorCode::invalid_argument, "bind: needs a symbol and one element, got ",
               c.as<Bind>().symbol, " and ", c.in(0));
        }
        return Type::tensor(DType::i64, {});
      })
      .define();
}

}  // namespace gex::ops
