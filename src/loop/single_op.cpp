#include "loop/single_op.hpp"

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "loop/body.hpp"

namespace gex::loop {
namespace {

// Turns operands into loads of their buffers.
class LoadContext : public BodyContext {
 public:
  LoadContext(ScalarBuilder& s, const Node& node, std::vector<int> buffers, bool in_place)
      : BodyContext(s, node), buffers_(std::move(buffers)), in_place_(in_place) {}

  Scalar in(int k, Indices index) override {
    return s.load(buffer(k), in_type(k).dtype, {index.begin(), index.end()});
  }
  Scalar in(int k, Indices index, Scalar pred, Scalar fill) override {
    return s.load(buffer(k), in_type(k).dtype, {index.begin(), index.end()}, pred, fill);
  }

 private:
  int buffer(int k) const {
    int b = buffers_[static_cast<std::size_t>(k)];
    GEX_CHECK(b >= 0, node.op().name, ": the body reads absent input ", k);
    GEX_CHECK(!in_place_ || k != 0, node.op().name,
              ": the updates read the input that they overwrite");
    return b;
  }
  std::vector<int> buffers_;
  bool in_place_;
};

std::vector<Range> loops_over(std::span<const Dim> shape, const char* prefix) {
  std::vector<Range> loops;
  for (std::size_t d = 0; d < shape.size(); ++d)
    loops.push_back({Dim::index(str(prefix, d), shape[d])});
  return loops;
}

std::vector<Dim> indices_of(std::span<const Range> loops) {
  std::vector<Dim> indices;
  for (const Range& r : loops) indices.push_back(r.index);
  return indices;
}

Buffer buffer_of(std::string name, Buffer::Role role, const Type& type) {
  return {std::move(name), role, type.dtype, type.shape, type.strides.value_or(std::vector<Dim>{})};
}

class Lowering {
 public:
  Lowering(const Node& node, bool in_place) : node_(node), in_place_(in_place) {
    kernel_.name = node.op().name;
    for (char& c : kernel_.name)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      bool tensor = node.has_input(i) && !node.input(i)->type().is_token();
      inputs_.push_back(tensor ? static_cast<int>(kernel_.buffers.size()) : -1);
      if (!tensor) continue;
      auto role = in_place && i == 0 ? Buffer::Role::inout : Buffer::Role::in;
      kernel_.buffers.push_back(buffer_of(str("in", i), role, node.input(i)->type()));
    }
    first_output_ = static_cast<int>(kernel_.buffers.size());
    for (std::size_t k = 0; k < node.num_outputs() && !in_place; ++k)
      kernel_.buffers.push_back(
          buffer_of(str("out", k), Buffer::Role::out, node.output(k)->type()));
  }

  Kernel run() {
    const OpBody& body = *node_.op().body;
    if (body.map)
      map(body.map);
    else if (body.reduction)
      reduction(*body.reduction);
    else if (in_place_)
      scatter_in_place(*body.scatter);
    else
      scatter(*body.scatter);
    return std::move(kernel_);
  }

 private:
  Store store(int buffer, std::vector<Dim> index, Scalar value) const {
    DType dtype = kernel_.buffers[static_cast<std::size_t>(buffer)].dtype;
    GEX_CHECK(value.dtype == dtype, node_.op().name, ": the body gives ", value.dtype, " for a ",
              dtype, " output");
    Store s;
    s.buffer = buffer;
    s.index = std::move(index);
    s.value = value.id;
    return s;
  }

  void map(const MapBody& body) {
    auto outputs = node_.num_outputs();
    const Shape& shape = node_.output(0)->type().shape;
    bool one_grid = true;
    for (std::size_t k = 1; k < outputs; ++k) one_grid &= node_.output(k)->type().shape == shape;
    if (one_grid) {
      kernel_.grid = loops_over(shape, "i");
      kernel_.stages.emplace_back();
    }
    for (std::size_t k = 0; k < outputs; ++k) {
      if (!one_grid) {
        kernel_.stages.emplace_back();
        kernel_.stages.back().domain = loops_over(node_.output(k)->type().shape, "i");
      }
      Stage& stage = kernel_.stages.back();
      auto point = indices_of(one_grid ? kernel_.grid : stage.domain);
      ScalarBuilder s(stage.exprs);
      LoadContext context(s, node_, inputs_, in_place_);
      Scalar value = body(context, static_cast<int>(k), point);
      stage.stores.push_back(store(first_output_ + static_cast<int>(k), point, value));
    }
  }

  void reduction(const ReductionBody& body) {
    Shape shape = body.shape(node_);
    std::vector<int> axes = body.axes(node_);
    Stage& stage = kernel_.stages.emplace_back();
    std::vector<Dim> point;
    for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
      bool folded = std::find(axes.begin(), axes.end(), d) != axes.end();
      auto& loops = folded ? stage.reduce : kernel_.grid;
      const char* prefix = folded ? "r" : "i";
      Dim index = Dim::index(str(prefix, loops.size()), shape[static_cast<std::size_t>(d)]);
      loops.push_back({index});
      point.push_back(index);
    }
    // Nothing to reduce (a reduction of a 0-d value): one element.
    if (stage.reduce.empty()) stage.reduce.push_back({Dim::index("r0", 1)});

    ScalarBuilder s(stage.exprs);
    LoadContext context(s, node_, inputs_, in_place_);
    Reduction& r = stage.reduction.emplace();
    r.scan = body.scan;
    r.accumulators = body.accumulators(node_);
    for (std::size_t i = 0; i < r.accumulators.size(); ++i)
      if (r.accumulators[i].name.empty()) r.accumulators[i].name = str("a", i);
    for (Scalar e : body.elements(context, point)) r.elements.push_back(e.id);

    ScalarBuilder c(r.combine.exprs);
    std::vector<Scalar> a, b, acc;
    for (std::size_t i = 0; i < r.accumulators.size(); ++i) {
      DType dtype = r.accumulators[i].dtype;
      a.push_back(c.lhs(static_cast<int>(i), dtype));
      b.push_back(c.rhs(static_cast<int>(i), dtype));
      acc.push_back(s.acc(static_cast<int>(i), dtype));
    }
    for (Scalar result : body.combine(c, node_, a, b)) r.combine.results.push_back(result.id);
    auto index = body.out_index(node_, point);
    for (int k = 0; k < static_cast<int>(node_.num_outputs()); ++k)
      stage.stores.push_back(store(first_output_ + k, index, body.finish(context, k, point, acc)));
  }

  void scatter(const ScatterBody& body) {
    Stage& copy = kernel_.stages.emplace_back();
    copy.name = "copy";
    copy.domain = loops_over(node_.output(0)->type().shape, "i");
    auto point = indices_of(copy.domain);
    ScalarBuilder s(copy.exprs);
    LoadContext context(s, node_, inputs_, in_place_);
    copy.stores.push_back(store(first_output_, point, context.in(0, point)));

    Stage& update = kernel_.stages.emplace_back();
    update.name = "update";
    update.domain = loops_over(body.shape(node_), "u");
    updates(body, update, indices_of(update.domain), first_output_);
    update.stores.back().ordered = true;
  }

  void scatter_in_place(const ScatterBody& body) {
    auto all = loops_over(body.shape(node_), "u");
    auto point = indices_of(all);
    Stage& update = kernel_.stages.emplace_back();
    updates(body, update, point, 0);
    const auto& index = update.stores.back().index;
    for (const Range& r : all) {
      bool separates = std::find(index.begin(), index.end(), r.index) != index.end();
      (separates ? kernel_.grid : update.domain).push_back(r);
    }
    update.stores.back().ordered = !update.domain.empty();
  }

  void updates(const ScatterBody& body, Stage& stage, std::span<const Dim> point, int buffer) {
    ScalarBuilder s(stage.exprs);
    LoadContext context(s, node_, inputs_, in_place_);
    ScatterBody::Update u = body.update(context, point);
    const Shape& shape = node_.output(0)->type().shape;
    Scalar pred = u.pred.id == kNoExpr ? s.constant_int(DType::boolean, 1) : u.pred;
    for (std::size_t d = 0; d < shape.size(); ++d)
      pred = s.logical_and(pred, s.in_bounds(u.index[d], 0, shape[d]));
    Store st = store(buffer, u.index, u.value);
    st.mode = body.mode(node_);
    if (!s.is_true(pred)) st.pred = pred.id;
    stage.stores.push_back(std::move(st));
  }

  const Node& node_;
  bool in_place_;
  Kernel kernel_;
  std::vector<int> inputs_;
  int first_output_ = 0;
};

void require_body(const Node& node) {
  if (!node.op().body)
    fail(ErrorCode::unsupported, "op '", node.op().name,
         "' has no loop body; expand it or run it as a step of its own");
}

}  // namespace

Kernel kernel_of(const Node& node) {
  require_body(node);
  return Lowering(node, false).run();
}

Kernel kernel_of_scatter_inplace(const Node& node) {
  require_body(node);
  if (!node.op().body->scatter)
    fail(ErrorCode::unsupported, "op '", node.op().name,
         "' is not a scatter, so it has no in-place form");
  return Lowering(node, true).run();
}

}  // namespace gex::loop
