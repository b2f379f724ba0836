#include <gtest/gtest.h>

#include "ops/call.hpp"
#include "ops/control.hpp"
#include "ops/sort.hpp"
#include "run.hpp"

namespace gex {
namespace {

using namespace test;
using Values = std::vector<double>;

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Interp, BindsSymbolsFromInputShapes) {
  Graph g;
  const Dim s = Dim::symbol("s0");
  Value* x = g.add_input(Type::tensor(DType::f32, {s, s + 1}), "x");
  g.set_outputs({ops::reduce_sum(g, x, {1}), ops::dim_value(g, s * 10)});
  const Tensors in{f32({2, 3}, {1, 2, 3, 4, 5, 6})};
  const auto r = interp::interpret(g, in);
  EXPECT_EQ(values(r[0]), (Values{6, 15}));
  EXPECT_EQ(values(r[1]), (Values{20}));
}

TEST(Interp, SolvesSymbolsThatAppearOnlyInExpressions) {
  Graph g;
  const Dim s = Dim::symbol("s0");
  g.add_input(Type::tensor(DType::f32, {s * 2 + 1}));
  g.set_outputs({ops::dim_value(g, s)});
  const Tensors in{f32({7}, Values(7))};
  EXPECT_EQ(values(interp::interpret(g, in)[0]), (Values{3}));
}

TEST(Interp, NamesTheMismatchedInput) {
  Graph g;
  const Dim s = Dim::symbol("s0");
  g.add_input(Type::tensor(DType::f32, {s}), "x");
  Value* y = g.add_input(Type::tensor(DType::f32, {s, Dim(4)}), "y");
  g.set_outputs({y});
  const Tensors wrong{f32({3}, Values(3)), f32({2, 4}, Values(8))};
  const std::string shape = error_of([&] { interp::interpret(g, wrong); });
  EXPECT_NE(shape.find("input 1 ('y')"), std::string::npos) << shape;
  EXPECT_NE(shape.find("axis 0"), std::string::npos) << shape;
  const Tensors wrong_type{f32({3}, Values(3)), i64({3, 4}, Values(12))};
  const std::string type = error_of([&] { interp::interpret(g, wrong_type); });
  EXPECT_NE(type.find("i64"), std::string::npos) << type;
  const std::string count = error_of([&] { interp::interpret(g, {}); });
  EXPECT_NE(count.find("takes 2 inputs, got 0"), std::string::npos) << count;
}

TEST(Interp, ReadsInputsWithStridesByTheirLogicalOrder) {
  Graph g;
  Type t = Type::tensor(DType::f32, {Dim(2), Dim(3)});
  t.strides = std::vector<Dim>{Dim(1), Dim(2)};
  Value* x = g.add_input(t);
  g.set_outputs({ops::neg(g, x)});
  const Tensors in{f32({2, 3}, {1, 2, 3, 4, 5, 6})};
  EXPECT_EQ(values(interp::interpret(g, in)[0]), (Values{-1, -2, -3, -4, -5, -6}));
}

std::unique_ptr<Graph> subgraph(const char* name, const std::vector<Type>& inputs,
                                const Builder& build) {
  auto g = std::make_unique<Graph>(name);
  std::vector<Value*> values;
  for (const Type& t : inputs) values.push_back(g->add_input(t));
  g->set_outputs(build(*g, values));
  return g;
}

TEST(Interp, IfRunsOneBranch) {
  const Type x_type = Type::tensor(DType::f32, {Dim(2)});
  for (double condition : {0.0, 1.0}) {
    Graph g;
    Value* c = g.add_input(Type::tensor(DType::boolean, {}));
    Value* x = g.add_input(x_type);
    std::vector<std::unique_ptr<Graph>> branches;
    branches.push_back(subgraph("yes", {x_type},
                                [](Graph& s, auto& v) { return std::vector{ops::neg(s, v[0])}; }));
    branches.push_back(subgraph(
        "no", {x_type}, [](Graph& s, auto& v) { return std::vector{ops::add(s, v[0], 10.0)}; }));
    Node* n = g.add("if", {c, x}, {}, std::move(branches));
    g.set_outputs({n->output()});
    verify(g);
    const Tensors in{tensor(DType::boolean, {}, {condition}), f32({2}, {1, 2})};
    EXPECT_EQ(values(interp::interpret(g, in)[0]),
              condition != 0 ? (Values{-1, -2}) : (Values{11, 12}));
  }
}

TEST(Interp, WhileCarriesValuesAndKeepsInvariants) {
  // while (i < n) { i += 1; x *= 2 }
  const Type number = Type::tensor(DType::i64, {});
  const std::vector<Type> types{number, number, number};
  Graph g;
  Value* i = g.add_input(number);
  Value* x = g.add_input(number);
  Value* n = g.add_input(number);
  std::vector<std::unique_ptr<Graph>> subs;
  subs.push_back(subgraph("condition", types,
                          [](Graph& s, auto& v) { return std::vector{ops::lt(s, v[0], v[2])}; }));
  subs.push_back(subgraph("body", types, [](Graph& s, auto& v) {
    return std::vector{ops::add(s, v[0], 1.0), ops::mul(s, v[1], 2.0)};
  }));
  Node* loop = g.add(op("while"), {i, x, n}, to_attr_list(ops::While{2}), std::move(subs));
  g.set_outputs({loop->output(0), loop->output(1)});
  verify(g);
  const Tensors in{i64({}, {0}), i64({}, {1}), i64({}, {5})};
  const auto r = interp::interpret(g, in);
  EXPECT_EQ(r[0].get_int(0), 5);
  EXPECT_EQ(r[1].get_int(0), 32);
}

TEST(Interp, CallsGoToTheHostWithEvaluatedIntegers) {
  Graph g;
  const Dim s = Dim::symbol("s0");
  Value* x = g.add_input(Type::tensor(DType::f32, {s}));
  Type result = Type::tensor(DType::f32, {s, Dim(2)});
  result.strides = std::vector<Dim>{Dim(1), s};
  ops::Call attrs = ops::make_call(7, "host.fn", std::vector{result});
  attrs.integers = {s * 3};
  Node* call = g.add(op("call"), {x}, attrs);
  EXPECT_EQ(call->output()->type(), result);
  g.set_outputs({call->output()});
  verify(g);
  interp::InterpOptions options;
  std::vector<std::int64_t> seen;
  options.call = [&](const Node& n, std::span<const HostTensor> in,
                     std::span<const std::int64_t> integers) {
    seen.assign(integers.begin(), integers.end());
    EXPECT_EQ(n.as<ops::Call>().callee, 7);
    return Tensors{f32({in[0].numel(), 2}, Values(static_cast<std::size_t>(in[0].numel()) * 2, 5))};
  };
  const Tensors in{f32({2}, {1, 2})};
  EXPECT_EQ(values(interp::interpret(g, in, options)[0]), (Values{5, 5, 5, 5}));
  EXPECT_EQ(seen, (std::vector<std::int64_t>{6}));
  EXPECT_NE(error_of([&] { interp::interpret(g, in); }).find("host.fn"), std::string::npos);
}

TEST(Interp, CallKeepsItsEncodingThroughText) {
  Graph g;
  Value* x = g.add_input(Type::tensor(DType::f32, {Dim(4)}), "x");
  Type strided = Type::tensor(DType::bf16, {Dim(2), Dim(3)});
  strided.strides = std::vector<Dim>{Dim(1), Dim(2)};
  const std::vector<Type> results{strided, Type::tensor(DType::i64, {})};
  Node* token = g.add("token", {});
  Node* call = g.add(op("call_effect"), {token->output(), x}, ops::make_call(1, "f", results));
  g.set_outputs({call->output(1), call->output(2)});
  verify(g);
  const auto copy = parse_graph(print(g));
  EXPECT_TRUE(structurally_equal(g, *copy));
  EXPECT_EQ(copy->outputs()[0]->type(), strided);
}

TEST(Interp, BindSetsTheValueOfASymbol) {
  Graph g;
  const Dim u = Dim::symbol("u0");
  Value* n = g.add_input(Type::tensor(DType::i64, {}));
  g.add(op("bind"), {n}, ops::Bind{u});
  g.set_outputs({ops::iota(g, u)});
  const Tensors in{i64({}, {3})};
  EXPECT_EQ(values(interp::interpret(g, in)[0]), (Values{0, 1, 2}));
}

// What the interpreter computes without comparing all pairs is what the definitions say.
TEST(Interp, SortsLikeItsExpansion) {
  const double nan = std::nan("");
  const Tensors rows{f32({2, 5, 2}, {3, nan, 1,    0, 3, nan, -1, 2,  nan, 2,  //
                                     0, 1,   -0.0, 1, 7, 7,   0,  -7, 2,   2}),
                     i64({2, 5, 2}, {3, 1, 1, 0, 3, 1, -1, 2, 0, 2, 5, 5, 5, 4, 4, 4, 9, 9, 8, 8})};
  for (const HostTensor& x : rows) {
    for (const bool flag : {false, true}) {
      for (const bool topk : {false, true}) {
        Graph direct, expanded;
        for (Graph* g : {&direct, &expanded}) {
          Value* in = g->add_input(type_of(x));
          Node* n = topk ? g->add(op("topk"), {in}, ops::TopK{Dim(3), 1, flag})
                         : g->add(op("sort"), {in}, ops::Sort{1, flag});
          g->set_outputs({n->output(0), n->output(1)});
        }
        // Twice: topk is a sort first.
        for (int round = 0; round < 2; ++round) {
          for (Node& n : expanded.nodes()) {
            if (!n.is("sort") && !n.is("topk")) continue;
            InsertBefore here(expanded, &n);
            const auto results = ops::expand_node(expanded, n);
            for (std::size_t k = 0; k < 2; ++k) expanded.replace_all_uses(n.output(k), results[k]);
          }
          for (Node& n : expanded.nodes())
            if (n.output()->uses().empty() && n.output(n.num_outputs() - 1)->uses().empty())
              expanded.erase(&n);
        }
        for (const Node& n : expanded.nodes()) ASSERT_FALSE(n.is("sort") || n.is("topk"));
        const Tensors in{x};
        const Tensors got = interp::interpret(direct, in), want = interp::interpret(expanded, in);
        EXPECT_EQ(got[1], want[1]) << "descending " << flag << " topk " << topk;
        EXPECT_EQ(got[0], want[0]);
      }
    }
  }
}

TEST(Interp, SortsALongRow) {
  const std::int64_t size = 200000;  // all pairs would take hours
  HostTensor x(DType::i32, {size});
  for (std::int64_t k = 0; k < size; ++k) x.set_int(k, (k * 7919) % size);
  Graph g;
  Value* in = g.add_input(type_of(x));
  g.set_outputs({g.add(op("sort"), {in}, ops::Sort{0, false})->output(0)});
  const Tensors inputs{x};
  const HostTensor sorted = interp::interpret(g, inputs)[0];
  for (std::int64_t k = 0; k < size; ++k) ASSERT_EQ(sorted.get_int(k), k);
}

TEST(Interp, ObserverSeesEveryNode) {
  Graph g;
  Value* x = g.add_input(Type::tensor(DType::f32, {Dim(2)}));
  g.set_outputs({ops::softmax(g, ops::neg(g, x), 0)});
  interp::InterpOptions options;
  std::vector<std::string> names;
  options.observe = [&](const Node& n, auto) { names.push_back(n.op().name); };
  const Tensors in{f32({2}, {1, 2})};
  interp::interpret(g, in, options);
  EXPECT_EQ(names, (std::vector<std::string>{"neg", "softmax"}));
}

}  // namespace
}  // namespace gex
