#include "loop/single_op.hpp"

#include <memory>

#include "kernel_test.hpp"
#include "loop/body.hpp"
#include "loop/combines.hpp"

namespace gex::loop {
namespace {

using Floats = std::vector<float>;

// Registers a test op with one body; its outputs have the types that `infer` gives.
const OpDef& define(const std::string& name, std::vector<InputSpec> inputs,
                    std::function<std::vector<Type>(const InferContext&)> infer,
                    std::shared_ptr<const OpBody> body) {
  if (const OpDef* known = find_op(name)) return *known;
  OpDef def;
  def.name = name;
  def.doc = "for tests";
  def.inputs = std::move(inputs);
  def.traits = static_cast<std::uint32_t>(Trait::pure);
  def.infer = std::move(infer);
  def.body = std::move(body);
  return register_op(std::move(def));
}

std::vector<Type> like_first(const InferContext& c) {
  return {Type::tensor(c.in(0).dtype, c.in(0).shape)};
}

std::vector<Dim> dims(Indices index) { return {index.begin(), index.end()}; }

TEST(SingleOp, MapUsesStridesOfInputsAndSkipsAbsentOnes) {
  auto body = std::make_shared<OpBody>();
  body->map = [](BodyContext& c, int, Indices i) {
    Scalar x = c.in(0, i);
    if (c.node.has_input(1)) x = c.s.add(x, c.in(1, i));
    return c.node.has_input(2) ? c.s.mul(x, c.in(2, i)) : x;
  };
  const OpDef& op =
      define("test.fma", {{"x"}, {"y", InputSpec::Arity::optional}, {"z"}}, like_first, body);
  Graph graph;
  Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  Type transposed = Type::tensor(DType::f32, {n, m});
  transposed.strides = std::vector<Dim>{1, n};
  Value* x = graph.add_input(transposed);
  Value* z = graph.add_input(Type::tensor(DType::f32, {n, m}));
  Kernel k = kernel_of(*graph.add(op, {x, nullptr, z}));
  verify(k);
  EXPECT_EQ(parse_kernel(print(k)), k);
  EXPECT_EQ(k.num_params(), 3);
  Floats xs = {1, 2, 3, 4, 5, 6}, zs = {10, 10, 10, 1, 1, 1}, y(6);
  run(k, {xs.data(), zs.data(), y.data()}, {2, 3});
  EXPECT_EQ(y, (Floats{10, 30, 50, 2, 4, 6}));
}

TEST(SingleOp, OutputsOfDifferentShapesGetAStageEach) {
  auto body = std::make_shared<OpBody>();
  body->map = [](BodyContext& c, int output, Indices i) {
    std::vector<Dim> at = dims(i);
    if (output == 1) at[0] = at[0] + 2;
    return c.in(0, at);
  };
  const OpDef& op = define(
      "test.split", {{"x"}},
      [](const InferContext&) {
        return std::vector<Type>{Type::tensor(DType::f32, {2}), Type::tensor(DType::f32, {3})};
      },
      body);
  Graph graph;
  Kernel k = kernel_of(*graph.add(op, {graph.add_input(Type::tensor(DType::f32, {5}))}));
  verify(k);
  EXPECT_EQ(k.stages.size(), 2u);
  Floats x = {1, 2, 3, 4, 5}, a(2), b(3);
  run(k, {x.data(), a.data(), b.data()}, {});
  EXPECT_EQ(a, (Floats{1, 2}));
  EXPECT_EQ(b, (Floats{3, 4, 5}));
}

std::shared_ptr<OpBody> sum_body(bool scan) {
  ReductionBody r;
  r.scan = scan;
  r.shape = [](const Node& n) { return n.input(0)->type().shape; };
  r.axes = [](const Node& n) {
    return n.input(0)->type().rank() == 0 ? std::vector<int>{} : std::vector<int>{0};
  };
  r.out_index = [scan](const Node&, Indices p) {
    return scan || p.empty() ? dims(p) : dims(p.subspan(1));
  };
  r.accumulators = [](const Node&) { return std::vector<Accumulator>{{"", DType::f32, 0, 0}}; };
  r.elements = [](BodyContext& c, Indices p) { return std::vector<Scalar>{c.in(0, p)}; };
  r.combine = [](ScalarBuilder& s, const Node&, std::span<const Scalar> a,
                 std::span<const Scalar> b) { return std::vector<Scalar>{s.add(a[0], b[0])}; };
  r.finish = [](BodyContext& c, int, Indices, std::span<const Scalar> acc) {
    return c.s.mul(acc[0], c.s.constant(DType::f32, 2));
  };
  auto body = std::make_shared<OpBody>();
  body->reduction = std::make_unique<ReductionBody>(std::move(r));
  return body;
}

std::vector<Type> without_first_axis(const InferContext& c) {
  Shape shape = c.in(0).shape;
  if (!shape.empty()) shape.erase(shape.begin());
  return {Type::tensor(c.in(0).dtype, shape)};
}

TEST(SingleOp, ReductionFoldsItsAxesAndKeepsTheOthersAsGrid) {
  const OpDef& op = define("test.twice_sum", {{"x"}}, without_first_axis, sum_body(false));
  Graph graph;
  Dim n = Dim::symbol("n");
  Kernel k = kernel_of(*graph.add(op, {graph.add_input(Type::tensor(DType::f32, {n, 3}))}));
  verify(k);
  EXPECT_EQ(k.grid_size(), Dim(3));
  EXPECT_NE(print(k).find("combine sum"), std::string::npos) << print(k);
  Floats x = {1, 2, 3, 4, 5, 6}, y(3);
  run(k, {x.data(), y.data()}, {2});
  EXPECT_EQ(y, (Floats{10, 14, 18}));
}

TEST(SingleOp, ReductionOfAScalarFoldsOneElement) {
  const OpDef& op = define("test.twice_sum", {{"x"}}, without_first_axis, sum_body(false));
  Graph graph;
  Kernel k = kernel_of(*graph.add(op, {graph.add_input(Type::tensor(DType::f32, {}))}));
  verify(k);
  Floats x = {4}, y(1);
  run(k, {x.data(), y.data()}, {});
  EXPECT_EQ(y[0], 8);
}

TEST(SingleOp, ScanStoresAtEveryElement) {
  const OpDef& op = define("test.twice_cumsum", {{"x"}}, like_first, sum_body(true));
  Graph graph;
  Kernel k = kernel_of(*graph.add(op, {graph.add_input(Type::tensor(DType::f32, {3, 2}))}));
  verify(k);
  Floats x = {1, 2, 3, 4, 5, 6}, y(6);
  run(k, {x.data(), y.data()}, {});
  EXPECT_EQ(y, (Floats{2, 4, 8, 12, 18, 24}));
}

// out[ids[p0], p1] += updates[p0, p1]
const OpDef& scatter_add() {
  ScatterBody s;
  s.shape = [](const Node& n) { return n.input(2)->type().shape; };
  s.update = [](BodyContext& c, Indices p) {
    Dim row = c.s.as_dim(c.in(1, p.subspan(0, 1)));
    return ScatterBody::Update{{row, p[1]}, c.in(2, p), {}};
  };
  s.mode = [](const Node&) { return Store::Mode::add; };
  auto body = std::make_shared<OpBody>();
  body->scatter = std::make_unique<ScatterBody>(std::move(s));
  return define("test.scatter_add", {{"x"}, {"ids"}, {"updates"}}, like_first, body);
}

Node* scatter_node(Graph& graph) {
  Dim rows = Dim::symbol("rows"), width = Dim::symbol("width"), n = Dim::symbol("n");
  Value* x = graph.add_input(Type::tensor(DType::f32, {rows, width}));
  Value* ids = graph.add_input(Type::tensor(DType::i64, {n}));
  Value* updates = graph.add_input(Type::tensor(DType::f32, {n, width}));
  return graph.add(scatter_add(), {x, ids, updates});
}

TEST(SingleOp, ScatterCopiesThenStoresInOrderAndSkipsIndicesOutOfRange) {
  Graph graph;
  Kernel k = kernel_of(*scatter_node(graph));
  verify(k);
  EXPECT_EQ(parse_kernel(print(k)), k);
  EXPECT_TRUE(k.grid.empty());
  Floats x = {1, 1, 1, 1}, u = {10, 20, 30, 40, 50, 60, 70, 80}, y(4);
  std::vector<std::int64_t> ids = {1, 1, -1, 2};
  run(k, {x.data(), ids.data(), u.data(), y.data()}, {2, 2, 4});
  EXPECT_EQ(y, (Floats{1, 1, 41, 61}));
  EXPECT_EQ(x, (Floats{1, 1, 1, 1}));
}

TEST(SingleOp, ScatterInPlaceCopiesNothingAndRunsColumnsSideBySide) {
  Graph graph;
  Kernel k = kernel_of_scatter_inplace(*scatter_node(graph));
  verify(k);
  EXPECT_EQ(k.num_params(), 3);
  EXPECT_EQ(k.buffers[0].role, Buffer::Role::inout);
  ASSERT_EQ(k.grid.size(), 1u);
  EXPECT_EQ(k.grid[0].extent().name(), "width");
  EXPECT_TRUE(k.stages[0].stores[0].ordered);
  EXPECT_FALSE(k.ordered());  // workers may share the grid: no two of its points meet
  Floats x = {1, 1, 1, 1}, u = {10, 20, 30, 40};
  std::vector<std::int64_t> ids = {1, 1};
  run(k, {x.data(), ids.data(), u.data()}, {2, 2, 2});
  EXPECT_EQ(x, (Floats{1, 1, 41, 61}));
}

TEST(SingleOp, NotForOpsWithoutABody) {
  const OpDef& op = define("test.no_body", {{"x"}}, like_first, nullptr);
  Graph graph;
  Node* node = graph.add(op, {graph.add_input(Type::tensor(DType::f32, {}))});
  EXPECT_THROW(kernel_of(*node), UserError);
  const OpDef& sum = define("test.twice_sum", {{"x"}}, without_first_axis, sum_body(false));
  EXPECT_THROW(kernel_of_scatter_inplace(*graph.add(sum, {graph.inputs()[0].get()})), UserError);
}

}  // namespace
}  // namespace gex::loop
