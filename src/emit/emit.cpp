#include "emit/emit.hpp"

#include "base/thread_pool.hpp"

#include "emit/boundary.hpp"
#include "emit/concatenations.hpp"
#include "emit/frozen_inputs.hpp"
#include "emit/launches.hpp"
#include "emit/overwrites.hpp"
#include "emit/problem_launches.hpp"
#include "emit/steps.hpp"
#include "emit/ties.hpp"
#include "plan/merge_launches.hpp"
#include "plan/overlap.hpp"
#include "plan/streams.hpp"
#include "plan/super_kernels.hpp"

namespace gex::emit {

namespace {

// Runs the parts of an emission in order.
class Emitter {
 public:
  Emitter(Graph& graph, const Signature& signature, const CompileOptions& options,
          const Target& target)
      : state_(graph, signature, options, target) {}
  Emitted run();

 private:
  void choose_streams();
  void merge_launches();
  void make_super_kernels();
  std::function<bool(const program::Launch&, std::size_t)> can_exchange() const;
  void emit_graph(Graph& graph, int segment);
  void emit_units(const Units& units, int segment);
  void place(const Node& node, const RunLabels& outer);

  State state_;
  Memory memory_{state_};
  Launches launches_{state_, memory_};
  FrozenInputs frozen_{state_, memory_};
  Boundary boundary_{state_, memory_, launches_, frozen_};
  Ties ties_{state_, memory_, launches_};
  Concatenations concatenations_{state_, memory_, launches_};
  Overwrites overwrites_{state_, memory_, launches_, boundary_, ties_, concatenations_};
  ProblemLaunches problems_{state_, memory_, launches_, frozen_};
  Steps steps_{state_, memory_, launches_,
               [this](Graph& graph, int segment) { emit_graph(graph, segment); }};
};

Emitted Emitter::run() {
  state_.program.name = state_.graph.name();
  state_.program.target = state_.target.text();
  state_.program.segments.push_back({state_.graph.name(), {}});
  state_.program.main.push_back(0);
  ties_.lay_out();
  boundary_.define_inputs();
  lower::FuseOptions fuse_options;
  fuse_options.enabled = state_.options.fuse;
  fuse_options.prologues = state_.options.prologues;
  fuse_options.costs = state_.target.costs;
  fuse_options.views = boundary_.choose_views();
  concatenations_.choose(fuse_options);
  lower::FusedGraph fused = lower::fuse(state_.graph, fuse_options);
  state_.out.kernel_text += lower::print(fused);
  state_.out.remarks = fused.remarks;
  ties_.place(fused.units);
  boundary_.define_outputs(fused.units);
  overwrites_.place_written(fused.units);
  concatenations_.place();
  emit_units(fused.units, 0);
  state_.segment = state_.program.main.back();
  ties_.emit_copies();
  boundary_.finish_outputs();
  choose_streams();
  plan::synchronise_streams(state_.program);
  merge_launches();
  make_super_kernels();
  launches_.find_units_of_steps();
  state_.program.counters.push_back({"operators", state_.out.operators});
  if (state_.in_place > 0) state_.program.counters.push_back({"in_place", state_.in_place});
  state_.program.counters.push_back(
      {"kernels", static_cast<std::int64_t>(state_.program.codes.size())});
  return std::move(state_.out);
}

void Emitter::choose_streams() {
  if (state_.options.streams > 1) plan::spread_over_streams(state_.program, state_.options.streams);
  if (state_.options.streams != 0 || !state_.target.is_cpu()) return;
  const plan::Overlap overlap =
      plan::overlap_branches(state_.program, ThreadPool::global().threads());
  if (overlap.runs == 0) return;
  state_.out.overlap = str(
      overlap.overlapped > 0 ? "branches overlap" : "branches run one after the other",
      ": estimated work ", overlap.with_streams, " with streams, ", overlap.in_order, " without");
}

std::function<bool(const program::Launch&, std::size_t)> Emitter::can_exchange() const {
  return [this](const program::Launch& launch, std::size_t buffer) {
    return launches_.can_exchange(launch.code, buffer);
  };
}

void Emitter::merge_launches() {
  if (!launches_.can_group() || !state_.options.fuse) return;
  plan::merge_launches(
      state_.program,
      {.can_be_merged =
           [&](const program::Launch& launch) { return launches_.is_mergeable(launch.code); },
       .is_library =
           [&](const program::Launch& launch) { return launches_.is_library(launch.code); },
       .multiprocessors = state_.target.multiprocessors,
       .small_grid = 2 * state_.target.multiprocessors,
       .most_parts = backend::kMostMergedParts,
       .can_read_repeated = repeats_launches(state_.options) ? can_exchange() : nullptr});
}

void Emitter::make_super_kernels() {
  if (!launches_.has_phases() || !state_.options.fuse || !makes_super_kernels(state_.options))
    return;
  const int count = plan::make_super_kernels(
      state_.program,
      {.can_be_phase =
           [&](const program::Launch& launch) { return launches_.can_be_phase(launch.code); },
       .can_exchange = can_exchange()});
  if (count > 0) state_.program.counters.push_back({"super_kernels", count});
}

void Emitter::emit_units(const Units& units, int segment) {
  int saved = std::exchange(state_.segment, segment);
  const RunLabels outer = state_.run_labels;
  const int outer_unit = state_.current_unit;
  const auto first_unit = static_cast<int>(state_.out.units.size());
  for (const lower::Unit& unit : units)
    state_.out.units.push_back({unit.kind, unit.label(), unit.nodes});
  for (std::size_t u = 0; u < units.size(); ++u) {
    const lower::Unit& unit = units[u];
    state_.current_unit = first_unit + static_cast<int>(u);
    state_.current = unit.anchor ? unit.anchor : unit.nodes.back();
    place(*state_.current, outer);
    ties_.emit_copies_before(unit);
    state_.out.operators += static_cast<std::int64_t>(unit.nodes.size());
    switch (unit.kind) {
      case lower::Unit::Kind::loop:
        launches_.emit_loop(unit);
        break;
      case lower::Unit::Kind::problem:
        problems_.emit(unit);
        break;
      case lower::Unit::Kind::scatter:
        overwrites_.emit_scatter(unit, units, u);
        break;
      case lower::Unit::Kind::step:
        if (concatenations_.is_placed(unit.anchor)) {
          concatenations_.emit(*unit.anchor);
        } else {
          steps_.emit(*unit.anchor);
        }
        break;
    }
  }
  state_.segment = saved;
  state_.current = nullptr;
  state_.current_unit = outer_unit;
  state_.run_labels = outer;
}

// Settings that a region does not have are inherited from the step that runs it.
void Emitter::place(const Node& node, const RunLabels& outer) {
  state_.run_labels = run_labels_of(node);
  if (state_.run_labels.stream == 0) state_.run_labels.stream = outer.stream;
  state_.run_labels.any_batch |= outer.any_batch;
  if (state_.run_labels.same_limits({})) {
    state_.run_labels.matrix_cores = outer.matrix_cores;
    state_.run_labels.vector_cores = outer.vector_cores;
  }
}

void Emitter::emit_graph(Graph& graph, int segment) {
  lower::FuseOptions fuse_options;
  fuse_options.enabled = state_.options.fuse;
  fuse_options.prologues = state_.options.prologues;
  fuse_options.costs = state_.target.costs;
  fuse_options.cats_alone = !state_.options.place_cats;
  lower::FusedGraph fused = lower::fuse(graph, fuse_options);
  state_.out.kernel_text += str("// region ", graph.name(), "\n", lower::print(fused));
  state_.out.remarks.insert(state_.out.remarks.end(), fused.remarks.begin(), fused.remarks.end());
  emit_units(fused.units, segment);
}

}  // namespace

Emitted emit(Graph& graph, const Signature& signature, const CompileOptions& options,
             const Target& target) {
  return Emitter(graph, signature, options, target).run();
}

}  // namespace gex::emit
