#include "emit/launches.hpp"

#include <algorithm>

#include "loop/builder.hpp"
#include "lower/grid_order.hpp"

namespace gex::emit {

using program::BufferDesc;
using program::BufferId;

namespace {

// The extent of a loop, or 1 where it depends on other loops: the cost is over sizes.
Dim size_only(Dim extent) {
  std::vector<Dim> symbols;
  extent.collect_symbols(symbols);
  const bool is_size = std::ranges::none_of(symbols, [](Dim s) { return s.extent().has_value(); });
  return is_size ? extent : Dim(1);
}

}  // namespace

Dim work_of(const loop::Kernel& kernel) {
  Dim per_point = 0;
  for (const loop::Stage& stage : kernel.stages) {
    Dim points = static_cast<std::int64_t>(stage.exprs.size());
    for (const loop::Range& r : stage.domain) points *= size_only(r.extent());
    for (const loop::Range& r : stage.reduce) points *= size_only(r.extent());
    per_point += points;
  }
  return kernel.grid_size() * per_point;
}

void Launches::emit_loop(const lower::Unit& unit) {
  std::vector<BufferId> buffers;
  std::vector<bool> writes;
  for (Value* v : unit.inputs) {
    buffers.push_back(materialised(v));
    writes.push_back(false);
  }
  for (Value* v : unit.outputs) {
    buffers.push_back(memory_.of(v));
    writes.push_back(true);
  }
  launch(unit.kernel, unit.label(), std::move(buffers), std::move(writes));
}

void Launches::launch(const loop::Kernel& kernel, const std::string& name,
                      std::vector<BufferId> buffers, std::vector<bool> writes) {
  program::Launch launch;
  launch.name = name;
  program::Code code;
  code.name = name;
  code.kernel = codes_.add_kernel(kernel, launch.dims);
  launch.code = codes_.add_code(std::move(code));
  launch.buffers = std::move(buffers);
  launch.writes = std::move(writes);
  const backend::LaunchPlan plan = state_.backend.plan(kernel, state_.target);
  apply(plan, launch);
  launch.ordered = kernel.ordered();
  launch.work = work_of(kernel);
  add_step({std::move(launch), 0, {}});
}

void Launches::copy(BufferId dst, const std::vector<Dim>& dst_strides, BufferId src,
                    const std::vector<Dim>& src_strides, Dim src_offset, const Type& type,
                    const char* why) {
  state_.program.counters.push_back({str("copies.", why), 1});
  if (auto bytes = type.bytes().as_const())
    state_.program.counters.push_back({str("copied_bytes.", why), *bytes});
  loop::Kernel kernel;
  kernel.name = "copy";
  std::vector<Dim> index = lower::index_variables(type.shape, "i");
  for (Dim i : index) kernel.grid.push_back({i});
  kernel.buffers.push_back({"from", loop::Buffer::Role::in, type.dtype, type.shape, src_strides});
  kernel.buffers.push_back({"to", loop::Buffer::Role::out, type.dtype, type.shape, dst_strides});
  loop::Stage stage;
  stage.name = "map";
  loop::ScalarBuilder builder(stage.exprs);
  loop::Store store;
  store.buffer = 1;
  store.index = index;
  store.value = builder.load(0, type.dtype, index).id;
  stage.stores.push_back(std::move(store));
  kernel.stages.push_back(std::move(stage));
  lower::order_grid(kernel);
  launch(kernel, "copy", {memory_.window(src, src_offset), dst}, {false, true});
}

void Launches::apply(const backend::LaunchPlan& plan, program::Launch& launch) {
  launch.grid = plan.grid;
  launch.scratch_bytes = plan.scratch_bytes;
  launch.block = plan.block;
  if (plan.mergeable) mergeable_codes_.insert(launch.code);
  if (plan.library) library_codes_.insert(launch.code);
  if (plan.phase) phases_.emplace(launch.code, plan.exchangeable);
  if (plan.workspace_bytes == Dim(0)) return;
  BufferDesc desc = describe(Type::tensor(DType::u8, {plan.workspace_bytes}),
                             BufferDesc::Kind::temp, "workspace");
  launch.buffers.push_back(memory_.add(std::move(desc)));
  launch.writes.push_back(true);
}

namespace {

// Equal for equal steps of a segment; only the planner adds records and waits.
std::vector<int> identity_of(const program::Step& step, int segment) {
  std::vector<int> identity = {segment, static_cast<int>(step.op.index())};
  if (const auto* launch = std::get_if<program::Launch>(&step.op)) identity.push_back(launch->code);
  for (BufferId id : program::reads_of(step)) identity.push_back(id);
  identity.push_back(-1);
  for (BufferId id : program::writes_of(step)) identity.push_back(id);
  return identity;
}

}  // namespace

void Launches::add_step(program::Step step) {
  if (state_.current != nullptr) step.location = state_.current->location();
  if (const auto* launch = std::get_if<program::Launch>(&step.op)) {
    step.threads = launch->matrix ? state_.run_labels.matrix_cores : state_.run_labels.vector_cores;
    step.stream = state_.run_labels.stream;
    state_.program.num_streams = std::max(state_.program.num_streams, state_.run_labels.stream + 1);
  }
  units_by_step_[identity_of(step, state_.segment)].push_back(state_.current_unit);
  state_.program.segments[static_cast<std::size_t>(state_.segment)].steps.push_back(
      std::move(step));
}

void Launches::find_units_of_steps() {
  const std::vector<program::Segment>& segments = state_.program.segments;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    std::vector<int>& units = state_.out.unit_of_step.emplace_back();
    for (const program::Step& step : segments[s].steps) {
      const auto found = units_by_step_.find(identity_of(step, static_cast<int>(s)));
      const bool known = found != units_by_step_.end() && !found->second.empty();
      units.push_back(known ? found->second.front() : -1);
      if (known) found->second.pop_front();
    }
  }
}

BufferId Launches::materialised(Value* value) {
  auto own = state_.buffers.find(value);
  if (own != state_.buffers.end()) return own->second;
  Operand from = memory_.operand(value);
  BufferId made = memory_.add_temp(value->type(), "copy");
  copy(made, lower::memory_strides(*value), from.buffer, from.strides, from.offset, value->type(),
       "layout");
  state_.buffers[value] = made;
  return made;
}

Operand Launches::placed(Value* value) {
  return {materialised(value), lower::memory_strides(*value), Dim(0)};
}

}  // namespace gex::emit
