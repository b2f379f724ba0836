#include "lower/cluster.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>

#include "loop/body.hpp"
#include "lower/views.hpp"

namespace gex::lower {
namespace {

using loop::Indices;
using loop::Scalar;

// Thrown inside a lowering when the cluster can't be one kernel; never leaves lower_cluster.
struct NotLowerable {
  std::string reason;
};

// An index along an axis of one element is 0.
std::vector<Dim> without_unit_axes(std::span<const Dim> index) {
  std::vector<Dim> result;
  for (Dim e : index)
    result.push_back(e.substitute([](Dim symbol) -> std::optional<Dim> {
      const auto extent = symbol.extent();
      return extent && *extent == Dim(1) ? std::optional<Dim>(Dim(0)) : std::nullopt;
    }));
  return result;
}

bool is_same_point(std::span<const Dim> a, std::span<const Dim> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end()) ||
         without_unit_axes(a) == without_unit_axes(b);
}

class Lowering {
 public:
  Lowering(const Cluster& cluster, const std::vector<Value*>& escaping,
           const std::unordered_set<const Value*>& in_memory, const FuseOptions& options)
      : cluster_(cluster), escaping_(escaping), in_memory_(in_memory), options_(options) {
    for (const Node* node : cluster.nodes) members_.insert(node);
    vars_ = index_variables(cluster.space, "i");
    for (int axis : cluster.inner) inner_vars_.push_back(vars_[static_cast<std::size_t>(axis)]);
  }

  LoweredCluster run() {
    // Which rows are worth storing is known only while building; a second round then stores them.
    for (int round = 0; round < 4; ++round) {
      std::size_t before = kept_.size();
      build();
      if (kept_.size() == before) break;
    }
    LoweredCluster result;
    result.ok = true;
    result.inputs = inputs_;
    result.kernel = std::move(kernel_);
    return result;
  }

 private:
  class InlineContext : public loop::BodyContext {
   public:
    InlineContext(Lowering& lowering, const Node& op_node)
        : BodyContext(*lowering.builder_, op_node), lowering_(lowering) {}
    Scalar in(int k, Indices index) override {
      return lowering_.value_at(node.input(static_cast<std::size_t>(k)), index);
    }
    Scalar in(int k, Indices index, Scalar pred, Scalar fill) override {
      return lowering_.value_at_if(node.input(static_cast<std::size_t>(k)), index, pred, fill);
    }

   private:
    Lowering& lowering_;
  };

  // Read from memory rather than computed here.
  bool is_loaded(const Value* v) const {
    const Node* node = v->producer();
    if (node == nullptr) return true;
    return members_.count(node) == 0 && (!is_free(*node) || in_memory_.count(v) != 0);
  }

  // The stage at which a value can first be computed: one after the last reduction it depends on.
  int phase_of(const Value* v) {
    const Node* node = v->producer();
    if (is_loaded(v) || node == cluster_.anchor) return 0;
    auto found = phases_.find(node);
    if (found != phases_.end()) return found->second + (is_reduction(*node) ? 1 : 0);
    int phase = 0;
    for (Value* input : node->inputs()) {
      if (input != nullptr) phase = std::max(phase, phase_of(input));
    }
    phases_[node] = phase;
    return phase + (is_reduction(*node) ? 1 : 0);
  }

  static bool is_reduction(const Node& node) { return node.op().body && node.op().body->reduction; }

  // The position of a member's value in the iteration space: its index as a function of the loop
  // indices. Nothing if the value is always computed inline.
  std::optional<std::vector<Dim>> home_of(const Value* v) {
    const Node* node = v->producer();
    if (node != cluster_.anchor && is_reduction(*node) && !node->op().body->reduction->scan) {
      return node->op().body->reduction->out_index(*node, vars_);
    }
    const Shape& shape = v->type().shape;
    const Shape& space = cluster_.space;
    if (shape == space) return vars_;
    if (!cluster_.inner.empty()) {
      std::vector<Dim> kept_axes, unit_axes;
      Shape kept_shape, unit_shape;
      for (std::size_t d = 0; d < space.size(); ++d) {
        bool folded =
            std::count(cluster_.inner.begin(), cluster_.inner.end(), static_cast<int>(d)) > 0;
        if (!folded) {
          kept_axes.push_back(vars_[d]);
          kept_shape.push_back(space[d]);
        }
        unit_axes.push_back(folded ? Dim(0) : vars_[d]);
        unit_shape.push_back(folded ? Dim(1) : space[d]);
      }
      if (shape == unit_shape) return unit_axes;
      if (shape == kept_shape) return kept_axes;
      if (provably_eq(product(shape), product(kept_shape))) {
        std::vector<Dim> index = reindex(kept_shape, without_unit_axes(kept_axes), shape);
        if (is_clean(index)) return index;
      }
    }
    if (provably_eq(product(shape), product(space))) {
      std::vector<Dim> index = reindex(space, without_unit_axes(vars_), shape);
      if (is_clean(index)) return index;
    }
    return swapped_home(shape);
  }

  // Two axes exchanged (heads and positions): stores use other indices, the loops stay.
  std::optional<std::vector<Dim>> swapped_home(const Shape& shape) const {
    const Shape& space = cluster_.space;
    if (shape.size() != space.size()) return std::nullopt;
    for (std::size_t a = 0; a < shape.size(); ++a) {
      if (shape[a] == space[a]) continue;
      for (std::size_t b = a + 1; b < shape.size(); ++b) {
        Shape swapped = space;
        std::swap(swapped[a], swapped[b]);
        if (swapped != shape) continue;
        std::vector<Dim> index = vars_;
        std::swap(index[a], index[b]);
        return index;
      }
      return std::nullopt;
    }
    return std::nullopt;
  }

  bool mentions_inner(std::span<const Dim> index) const {
    for (Dim e : index) {
      for (Dim v : inner_vars_) {
        if (e.depends_on(v)) return true;
      }
    }
    return false;
  }

  int cost_of(const Value* v) {
    const Node* node = v->producer();
    if (is_loaded(v) || node == cluster_.anchor || is_reduction(*node)) return 0;
    auto found = costs_.find(node);
    if (found != costs_.end()) return found->second;
    int cost = weight_of(*node);
    for (Value* input : node->inputs()) {
      if (input != nullptr) cost += cost_of(input);
    }
    costs_[node] = cost;
    return cost;
  }

  bool worth_keeping(const Value* v) {
    constexpr int kRecomputeLimit = 8;
    if (cost_of(v) < kRecomputeLimit) return false;
    Dim elements = 1;
    for (Dim i : inner_vars_) elements *= *i.extent();
    // Rows are measured as if they were f32.
    const std::int64_t most = options_.costs.max_row_bytes / 4;
    if (elements.is_const()) return elements.constant() <= most;
    if (!options_.costs.unbounded_locals) return elements.range().hi <= most;
    return inner_vars_.size() < vars_.size();
  }

  Scalar load_param(const Value* v, Indices index) {
    int buffer = input_buffer(v);
    std::vector<Dim> at(index.begin(), index.end());
    if (guard_.id == loop::kNoExpr) return builder_->load(buffer, v->type().dtype, std::move(at));
    return builder_->load(buffer, v->type().dtype, std::move(at), guard_,
                          builder_->constant(v->type().dtype, 0));
  }

  Scalar value_at_if(Value* v, Indices index, Scalar pred, Scalar fill) {
    if (builder_->is_true(pred)) return value_at(v, index);
    Scalar outer = guard_;
    guard_ = outer.id == loop::kNoExpr ? pred : builder_->logical_and(outer, pred);
    Scalar value = value_at(v, index);
    guard_ = outer;
    return builder_->select(pred, value, fill);
  }

  Scalar value_at(Value* v, Indices index) {
    auto key = std::make_tuple(v, std::vector<const DimNode*>(), guard_.id);
    for (Dim e : index) std::get<1>(key).push_back(e.node());
    auto found = memo_.find(key);
    if (found != memo_.end()) return found->second;
    Scalar result = compute(v, index);
    memo_.emplace(std::move(key), result);
    return result;
  }

  Scalar compute(Value* v, Indices index) {
    const Node* node = v->producer();
    if (is_loaded(v)) return load_param(v, index);
    bool member = members_.count(node) != 0;
    if (node == cluster_.anchor) return load_accumulator(v, index);
    if (is_reduction(*node)) return load_reduced(v, index);
    if (member && !inner_vars_.empty() && phase_of(v) < stage_ && worth_keeping(v)) {
      auto home = home_of(v);
      if (home && mentions_inner(*home) && is_same_point(index, *home)) {
        kept_.insert(v);
        auto local = locals_.find(v);
        if (local != locals_.end()) {
          // A stage after the reduction has no loops over the inner axes: `index` got here because
          // the axes that it leaves out have one element.
          return builder_->load(local->second, v->type().dtype, without_unit_axes(inner_vars_));
        }
      }
    }
    InlineContext context(*this, *node);
    return node->op().body->map(context, v->index(), index);
  }

  Scalar load_reduced(Value* v, Indices index) {
    auto home = home_of(v);
    if (!home || !is_same_point(index, *home)) {
      throw NotLowerable{str("the reduced result of ", v->producer()->op().name,
                             " is read at a row other than the current one")};
    }
    if (phase_of(v) > stage_) {
      throw NotLowerable{
          str("the result of ", v->producer()->op().name, " is needed before it is complete")};
    }
    return builder_->load(locals_.at(v), v->type().dtype, {});
  }

  Scalar load_accumulator(Value* v, Indices index) {
    Dim at = linearise(index, dense_strides(v->type().shape));
    if (!(at == linearise(vars_, dense_strides(cluster_.space)))) {
      throw NotLowerable{str("the result of ", v->producer()->op().name,
                             " is read in a different order than it is computed")};
    }
    const loop::Buffer& acc = kernel_.buffers[0];
    return builder_->cast(builder_->load(0, acc.dtype, vars_), v->type().dtype);
  }

  int input_buffer(const Value* v) {
    auto found = buffers_.find(v);
    if (found != buffers_.end()) return found->second;
    // Parameters are numbered once all inputs are known; until then inputs count from a large base.
    int id = kInputBase + static_cast<int>(inputs_.size());
    inputs_.push_back(const_cast<Value*>(v));
    buffers_[v] = id;
    return id;
  }

  loop::Stage& begin_stage(std::string name) {
    kernel_.stages.push_back({});
    loop::Stage& stage = kernel_.stages.back();
    stage.name = std::move(name);
    builder_.emplace(stage.exprs);
    memo_.clear();
    guard_ = Scalar{};
    return stage;
  }

  void store(loop::Stage& stage, int buffer, std::vector<Dim> index, Scalar value) {
    loop::Store s;
    s.buffer = buffer;
    s.index = std::move(index);
    s.value = value.id;
    stage.stores.push_back(std::move(s));
  }

  int add_local(const Value* v, std::vector<Dim> shape) {
    int id = kLocalBase + static_cast<int>(local_buffers_.size());
    local_buffers_.push_back({str("t", local_buffers_.size()),
                              loop::Buffer::Role::local,
                              v->type().dtype,
                              std::move(shape),
                              {}});
    locals_[v] = id;
    return id;
  }

  int output_buffer(const Value* v) const {
    for (std::size_t k = 0; k < escaping_.size(); ++k) {
      if (escaping_[k] == v) return kOutputBase + static_cast<int>(k);
    }
    return -1;
  }

  // Full-size values that are complete at this stage and must be stored in memory or in a local
  // row.
  void store_elements(loop::Stage& stage) {
    for (const Node* node : cluster_.nodes) {
      if (is_reduction(*node) && node != cluster_.anchor) continue;
      for (std::size_t k = 0; k < node->num_outputs(); ++k) {
        Value* v = node->output(k);
        if (phase_of(v) != stage_) continue;
        int out = output_buffer(v);
        bool keep = kept_.count(v) != 0;
        if (out < 0 && !keep) continue;
        auto home = home_of(v);
        if (!home)
          throw NotLowerable{
              str("the result of ", node->op().name, " has a shape that the loops do not cover")};
        if (!inner_vars_.empty() && !mentions_inner(*home)) continue;
        Scalar value = value_at(v, *home);
        if (out >= 0) store(stage, out, *home, value);
        if (keep) {
          std::vector<Dim> extents;
          for (Dim i : inner_vars_) extents.push_back(*i.extent());
          auto local = locals_.find(v);
          store(stage, local != locals_.end() ? local->second : add_local(v, extents), inner_vars_,
                value);
        }
      }
    }
  }

  bool has_element_stores() {
    for (const Node* node : cluster_.nodes) {
      if (is_reduction(*node) && node != cluster_.anchor) continue;
      for (std::size_t k = 0; k < node->num_outputs(); ++k) {
        Value* v = node->output(k);
        if (phase_of(v) != stage_ || (output_buffer(v) < 0 && kept_.count(v) == 0)) continue;
        auto home = home_of(v);
        if (!home || inner_vars_.empty() || mentions_inner(*home)) return true;
      }
    }
    return false;
  }

  void store_rows() {
    if (inner_vars_.empty()) return;
    std::vector<Value*> rows;
    for (Value* v : escaping_) {
      const Node* node = v->producer();
      if (is_reduction(*node) || phase_of(v) != stage_) continue;
      if (product(v->type().shape) == Dim(0)) continue;  // no elements, whatever the rows are
      auto home = home_of(v);
      if (home && !mentions_inner(*home)) rows.push_back(v);
    }
    if (rows.empty()) return;
    loop::Stage& stage = begin_stage(str("rows", stage_));
    for (Value* v : rows) {
      std::vector<Dim> home = *home_of(v);
      store(stage, output_buffer(v), home, value_at(v, home));
    }
  }

  // Appends the node's accumulators, elements and combine body to the reduction of a stage. Returns
  // the expressions of its accumulators.
  std::vector<Scalar> add_reduction(loop::Reduction& reduction, loop::ScalarBuilder& combiner,
                                    const Node& node) {
    const loop::ReductionBody& body = *node.op().body->reduction;
    InlineContext context(*this, node);
    std::vector<Scalar> lhs, rhs, acc;
    for (const loop::Accumulator& accumulator : body.accumulators(node)) {
      const auto slot = static_cast<int>(reduction.accumulators.size());
      lhs.push_back(combiner.lhs(slot, accumulator.dtype));
      rhs.push_back(combiner.rhs(slot, accumulator.dtype));
      acc.push_back(builder_->acc(slot, accumulator.dtype));
      reduction.accumulators.push_back(accumulator);
    }
    for (Scalar element : body.elements(context, vars_)) reduction.elements.push_back(element.id);
    for (Scalar s : body.combine(combiner, node, lhs, rhs))
      reduction.combine.results.push_back(s.id);
    return acc;
  }

  // One stage for some reductions: each element is read once for all of them.
  void reduce(std::span<const Node* const> nodes, bool with_elements) {
    loop::Stage& stage = begin_stage(str(nodes.front()->op().name, stage_));
    for (Dim i : inner_vars_) stage.reduce.push_back({i});
    loop::Reduction reduction;
    reduction.scan = nodes.front()->op().body->reduction->scan;
    loop::ScalarBuilder combiner(reduction.combine.exprs);
    std::vector<std::vector<Scalar>> accumulators;
    for (const Node* node : nodes)
      accumulators.push_back(add_reduction(reduction, combiner, *node));
    stage.reduction = std::move(reduction);
    for (std::size_t n = 0; n < nodes.size(); ++n) store_reduced(stage, *nodes[n], accumulators[n]);
    if (with_elements) store_elements(stage);
  }

  void store_reduced(loop::Stage& stage, const Node& node, std::span<const Scalar> accumulators) {
    const loop::ReductionBody& body = *node.op().body->reduction;
    InlineContext context(*this, node);
    for (std::size_t k = 0; k < node.num_outputs(); ++k) {
      Value* v = node.output(k);
      int out = output_buffer(v);
      if (v->uses().empty() && out < 0) continue;
      Scalar value = body.finish(context, static_cast<int>(k), vars_, accumulators);
      std::vector<Dim> home = body.out_index(node, vars_);
      if (out >= 0) store(stage, out, home, value);
      if (!body.scan) store(stage, add_local(v, {}), {}, value);
    }
  }

  // The reductions of this stage, in groups that share a pass over the elements: those with a
  // single accumulator, as many as registers hold.
  std::vector<std::vector<const Node*>> reductions_of_stage() {
    constexpr std::size_t kMost = 4;
    std::vector<std::vector<const Node*>> groups;
    std::size_t shared = 0;  // one more than the position of the group that is being filled
    for (const Node* node : cluster_.nodes) {
      if (node == cluster_.anchor || !is_reduction(*node) || phases_.at(node) != stage_) continue;
      const loop::ReductionBody& body = *node->op().body->reduction;
      const bool joins = !body.scan && body.accumulators(*node).size() == 1;
      if (joins && shared != 0 && groups[shared - 1].size() < kMost) {
        groups[shared - 1].push_back(node);
        continue;
      }
      groups.push_back({node});
      if (joins) shared = groups.size();
    }
    return groups;
  }

  void build() {
    kernel_ = {};
    inputs_.clear();
    buffers_.clear();
    locals_.clear();
    local_buffers_.clear();
    for (std::size_t d = 0; d < vars_.size(); ++d) {
      if (std::count(cluster_.inner.begin(), cluster_.inner.end(), static_cast<int>(d)) == 0) {
        kernel_.grid.push_back({vars_[d]});
      }
    }
    if (cluster_.kind == Unit::Kind::problem) {
      // The kernel passes only its own elements to the epilogue: not the other parts of a cat.
      if (!provably_eq(product(cluster_.space), product(cluster_.anchor->output()->type().shape))) {
        throw NotLowerable{
            str("the loops cover different elements than ", cluster_.anchor->op().name, " makes")};
      }
      DType dtype = cluster_.anchor->output()->type().dtype;
      if (dtype != DType::f64 && dtype != DType::i32) dtype = DType::f32;
      kernel_.buffers.push_back({"acc", loop::Buffer::Role::in, dtype, cluster_.space, {}});
    }
    int last = 0;
    for (const Node* node : cluster_.nodes) {
      for (std::size_t k = 0; k < node->num_outputs(); ++k)
        last = std::max(last, phase_of(node->output(k)));
    }
    for (stage_ = 0; stage_ <= last; ++stage_) {
      bool elements = has_element_stores();
      for (const std::vector<const Node*>& nodes : reductions_of_stage()) {
        reduce(nodes, elements);
        elements = false;
      }
      if (elements) {
        loop::Stage& stage = begin_stage(str("map", stage_));
        for (Dim i : inner_vars_) stage.domain.push_back({i});
        store_elements(stage);
      }
      store_rows();
    }
    number_buffers();
  }

  // Assigns parameters their final numbers: accumulator, inputs, outputs, then locals.
  void number_buffers() {
    int first_input = static_cast<int>(kernel_.buffers.size());
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      const Type& type = inputs_[k]->type();
      kernel_.buffers.push_back({str("in", k), loop::Buffer::Role::in, type.dtype, type.shape,
                                 type.strides.value_or(std::vector<Dim>{})});
    }
    int first_output = static_cast<int>(kernel_.buffers.size());
    for (std::size_t k = 0; k < escaping_.size(); ++k) {
      const Type& type = escaping_[k]->type();
      kernel_.buffers.push_back({str("out", k), loop::Buffer::Role::out, type.dtype, type.shape,
                                 type.strides.value_or(std::vector<Dim>{})});
    }
    int first_local = static_cast<int>(kernel_.buffers.size());
    for (loop::Buffer& local : local_buffers_) kernel_.buffers.push_back(std::move(local));
    auto number = [&](int& id) {
      if (id >= kLocalBase) {
        id += first_local - kLocalBase;
      } else if (id >= kOutputBase) {
        id += first_output - kOutputBase;
      } else if (id >= kInputBase) {
        id += first_input - kInputBase;
      }
    };
    for (loop::Stage& stage : kernel_.stages) {
      for (loop::Expr& e : stage.exprs) {
        if (e.kind == loop::Expr::Kind::load) number(e.buffer);
      }
      for (loop::Store& s : stage.stores) number(s.buffer);
    }
  }

  static constexpr int kInputBase = 1 << 20;
  static constexpr int kOutputBase = 2 << 20;
  static constexpr int kLocalBase = 3 << 20;

  const Cluster& cluster_;
  const std::vector<Value*>& escaping_;
  const std::unordered_set<const Value*>& in_memory_;
  const FuseOptions& options_;
  std::unordered_set<const Node*> members_;
  std::vector<Dim> vars_, inner_vars_;

  loop::Kernel kernel_;
  std::vector<Value*> inputs_;
  std::vector<loop::Buffer> local_buffers_;
  std::unordered_map<const Value*, int> buffers_, locals_;
  std::unordered_set<const Value*> kept_;
  std::unordered_map<const Node*, int> phases_, costs_;

  int stage_ = 0;
  std::optional<loop::ScalarBuilder> builder_;
  std::map<std::tuple<const Value*, std::vector<const DimNode*>, loop::ExprId>, Scalar> memo_;
  Scalar guard_;
};

}  // namespace

LoweredCluster lower_cluster(const Cluster& cluster, const std::vector<Value*>& escaping,
                             const std::unordered_set<const Value*>& in_memory,
                             const FuseOptions& options) {
  try {
    LoweredCluster result = Lowering(cluster, escaping, in_memory, options).run();
    const std::int64_t most = options.costs.max_local_bytes;
    if (result.ok && most > 0 && cluster.nodes.size() > 1 &&
        result.kernel.scratch_bytes().range().hi > most) {
      result.ok = false;
      result.reason = str("its rows need more than the ", most, " bytes of local memory that the ",
                          "target has");
    }
    return result;
  } catch (const NotLowerable& e) {
    LoweredCluster result;
    result.reason = e.reason;
    return result;
  }
}

}  // namespace gex::lower
