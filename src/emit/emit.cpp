#include "emit/emit.hpp"

#include <algorithm>

#include "emit/emitter.hpp"
#include "loop/body.hpp"
#include "loop/single_op.hpp"
#include "lower/cluster.hpp"
#include "ops/call.hpp"
#include "plan/merge_launches.hpp"
#include "plan/streams.hpp"

namespace gex::emit {

using program::BufferDesc;
using program::BufferId;

Emitted emit(Graph& graph, const Signature& signature, const CompileOptions& options,
             const Target& target) {
  return Emitter(graph, signature, options, target).run();
}

Emitter::Emitter(Graph& graph, const Signature& signature, const CompileOptions& options,
                 const Target& target)
    : graph_(graph),
      signature_(signature),
      options_(options),
      target_(target),
      backend_(backend::backend_for(target.kind)),
      program_(out_.program),
      codes_(out_.program) {}

Emitted Emitter::run() {
  program_.name = graph_.name();
  program_.target = target_.text();
  program_.segments.push_back({graph_.name(), {}});
  program_.main.push_back(0);
  lay_out_ties();
  define_inputs();
  lower::FuseOptions fuse_options;
  fuse_options.enabled = options_.fuse;
  fuse_options.prologues = options_.prologues;
  fuse_options.costs = target_.costs;
  fuse_options.views = choose_views();
  choose_cats(fuse_options);
  lower::FusedGraph fused = lower::fuse(graph_, fuse_options);
  out_.kernel_text += lower::print(fused);
  out_.remarks = fused.remarks;
  place_ties(fused.units);
  define_outputs(fused.units);
  place_written(fused.units);
  place_cats();
  emit_units(fused.units, 0);
  finish_outputs();
  if (options_.streams > 1) plan::spread_over_streams(program_, options_.streams);
  plan::synchronise_streams(program_);
  if (!mergeable_codes_.empty() && options_.fuse)
    plan::merge_launches(program_, {.can_be_merged =
                                        [&](const program::Launch& launch) {
                                          return mergeable_codes_.contains(launch.code);
                                        },
                                    .small_grid = 2 * target_.multiprocessors});
  program_.counters.push_back({"operators", out_.operators});
  if (in_place_ > 0) program_.counters.push_back({"in_place", in_place_});
  program_.counters.push_back({"kernels", static_cast<std::int64_t>(program_.codes.size())});
  return std::move(out_);
}

BufferId Emitter::add_buffer(BufferDesc desc) {
  program_.buffers.push_back(std::move(desc));
  return static_cast<BufferId>(program_.buffers.size()) - 1;
}

namespace {

// Bytes from the first to the last element, for any strides.
Dim extent_bytes(const Type& type) {
  if (!type.strides) return type.bytes();
  Dim last = 0;
  for (std::size_t d = 0; d < type.shape.size(); ++d)
    last += (type.shape[d] - Dim(1)) * (*type.strides)[d];
  return (last + Dim(1)) * Dim(static_cast<std::int64_t>(size_of(type.dtype)));
}

}  // namespace

BufferDesc describe(const Type& type, BufferDesc::Kind kind, std::string name) {
  BufferDesc desc;
  desc.name = std::move(name);
  desc.kind = kind;
  desc.dtype = type.dtype;
  desc.shape = type.shape;
  desc.strides = type.strides.value_or(std::vector<Dim>{});
  desc.bytes = extent_bytes(type);
  return desc;
}

BufferId Emitter::add_temp(const Type& type, std::string name) {
  return add_buffer(describe(type, BufferDesc::Kind::temp, std::move(name)));
}

void Emitter::define_inputs() {
  std::vector<Dim> known;
  auto learn = [&](Dim d) {
    std::vector<Dim> symbols;
    d.collect_symbols(symbols);
    for (Dim s : symbols) {
      if (std::find(known.begin(), known.end(), s) == known.end()) known.push_back(s);
    }
  };
  for (const Signature::Input& slot : signature_.inputs) {
    program::InputDesc input;
    input.name = slot.name;
    if (slot.graph_input < 0) {
      input.kind = program::InputDesc::Kind::integer;
      input.dtype = DType::i64;
      input.value = slot.integer;
      learn(slot.integer);
    } else {
      Value* value = graph_.inputs()[static_cast<std::size_t>(slot.graph_input)].get();
      if (is_frozen(value)) continue;
      const Type& type = value->type();
      BufferDesc desc = describe(type, BufferDesc::Kind::input, value->name());
      desc.slot = static_cast<int>(program_.inputs.size());
      input.dtype = type.dtype;
      input.shape = type.shape;
      input.strides = desc.strides;
      input.released = slot.released;
      if (input.name.empty()) input.name = value->name();
      input.buffer = add_buffer(std::move(desc));
      buffers_[value] = input.buffer;
      for (Dim d : type.shape) learn(d);
      for (Dim d : type.strides.value_or(std::vector<Dim>{})) learn(d);
    }
    program_.inputs.push_back(std::move(input));
  }
  program_.symbols = known;
  define_frozen();
}

// Outputs that are nothing but a window of an input that nobody writes are handed out as that
// window.
std::unordered_set<const Value*> Emitter::choose_views() {
  std::unordered_set<const Value*> computed, views;
  for (const Signature::Output& slot : signature_.outputs) {
    if (slot.own_memory)
      computed.insert(graph_.outputs()[static_cast<std::size_t>(slot.graph_output)]);
  }
  for (const Tie& tie : graph_.ties()) {
    Value* value = graph_.outputs()[static_cast<std::size_t>(tie.output)];
    const Node* scatter = scatter_under(graph_, tie);
    // What a scatter has left in its input's memory needs no computing; copied if it has not.
    if (scatter != nullptr && scatter->output() != value && !computed.contains(value))
      views.insert(value);
    computed.insert(value);
  }
  for (Value* value : graph_.outputs()) {
    if (value->is_input() || computed.count(value) != 0) continue;
    auto view = lower::resolve_view(value);
    if (view && view->base->is_input() && !is_frozen(view->base) && !is_written(view->base) &&
        view->strides == lower::memory_strides(*value))
      views.insert(value);
  }
  return views;
}

// Whether a tie gives the input new contents: what was promised as its old ones needs a copy.
bool Emitter::is_written(const Value* input) const {
  return std::any_of(graph_.ties().begin(), graph_.ties().end(), [&](const Tie& tie) {
    return tie.input == input->index() &&
           graph_.outputs()[static_cast<std::size_t>(tie.output)] != input;
  });
}

void Emitter::define_outputs(const std::vector<lower::Unit>& units) {
  std::unordered_set<const Value*> from_calls;
  for (const lower::Unit& unit : units) {
    if (unit.kind != lower::Unit::Kind::step || !ops::is_call(*unit.anchor)) continue;
    for (std::size_t k = 0; k < unit.anchor->num_outputs(); ++k)
      if (written_operand(unit.anchor->output(k)) == nullptr)
        from_calls.insert(unit.anchor->output(k));
  }
  std::unordered_map<const Value*, int> given;
  std::unordered_map<const Value*, int> tied_to;
  for (const Tie& tie : graph_.ties()) {
    const Value* value = graph_.outputs()[static_cast<std::size_t>(tie.output)];
    const Value& input = *graph_.inputs()[static_cast<std::size_t>(tie.input)];
    if (lower::memory_strides(*value) == lower::memory_strides(input))
      tied_to.emplace(value, tie.input);
  }
  auto slot_of_input = [&](int graph_input) {
    for (std::size_t k = 0; k < program_.inputs.size(); ++k) {
      const Value* value = graph_.inputs()[static_cast<std::size_t>(graph_input)].get();
      if (program_.inputs[k].buffer == buffers_.at(value)) return static_cast<int>(k);
    }
    GEX_CHECK(false, "graph input ", graph_input, " is not in the signature");
    return -1;
  };
  for (const Signature::Output& slot : signature_.outputs) {
    program::OutputDesc output;
    int number = static_cast<int>(program_.outputs.size());
    if (slot.kind != Signature::Output::Kind::tensor) {
      bool integer = slot.kind == Signature::Output::Kind::integer;
      output.kind = integer ? program::OutputDesc::Kind::integer : program::OutputDesc::Kind::none;
      output.value = slot.integer;
      program_.outputs.push_back(std::move(output));
      continue;
    }
    Value* value = graph_.outputs()[static_cast<std::size_t>(slot.graph_output)];
    const Type& type = value->type();
    output.name = value->name();
    output.dtype = type.dtype;
    output.shape = type.shape;
    output.strides = type.strides.value_or(std::vector<Dim>{});
    auto view = lower::resolve_view(value);
    bool is_window = view && view->base->is_input() && !is_frozen(view->base) &&
                     view->strides == lower::memory_strides(*value);
    const bool shared = buffers_.contains(value) || given.contains(value);
    const bool old_contents = view && view->base->is_input() && is_written(view->base);
    const bool own_memory = slot.own_memory || is_frozen(value) ||
                            (old_contents && tied_to.count(value) == 0) ||
                            (value->is_input() && is_written(value));
    if (own_memory && (shared || from_calls.count(value) == 0)) {
      BufferDesc desc = describe(type, BufferDesc::Kind::output, value->name());
      desc.slot = number;
      output.buffer = add_buffer(std::move(desc));
      if (value->is_input()) {
        copy_to_output(value, output.buffer);  // before anything may overwrite the input
      } else if (shared) {
        output_copies_.push_back({value, output.buffer});
      } else {
        buffers_[value] = output.buffer;
      }
    } else if (auto tied = tied_to.find(value); tied != tied_to.end()) {
      output.kind = program::OutputDesc::Kind::input_view;
      output.input = slot_of_input(tied->second);
    } else if (is_window) {
      output.kind = program::OutputDesc::Kind::input_view;
      output.input = slot_of_input(view->base->index());
      output.offset = view->offset;
    } else if (auto earlier = given.find(value); earlier != given.end()) {
      output.kind = program::OutputDesc::Kind::output_view;
      output.input = earlier->second;
    } else if (from_calls.count(value) != 0) {
      output.kind = program::OutputDesc::Kind::external;
    } else {
      BufferDesc desc = describe(type, BufferDesc::Kind::output, value->name());
      desc.slot = number;
      output.buffer = add_buffer(std::move(desc));
      buffers_[value] = output.buffer;
    }
    given.emplace(value, number);
    program_.outputs.push_back(std::move(output));
  }
}

void Emitter::copy_to_output(Value* value, BufferId output) {
  Operand from = operand(value);
  emit_copy(output, lower::memory_strides(*value), from.buffer, from.strides, from.offset,
            value->type(), "output");
}

void Emitter::finish_outputs() {
  segment_ = program_.main.back();
  emit_tie_copies();
  for (const OutputCopy& copy : output_copies_) copy_to_output(copy.value, copy.output);
  for (std::size_t k = 0; k < program_.outputs.size(); ++k) {
    program::OutputDesc& output = program_.outputs[k];
    if (output.kind != program::OutputDesc::Kind::external) continue;
    output.buffer =
        buffers_.at(graph_.outputs()[static_cast<std::size_t>(signature_.outputs[k].graph_output)]);
  }
}

BufferId Emitter::buffer_of(Value* value) {
  auto found = buffers_.find(value);
  if (found != buffers_.end()) return found->second;
  GEX_CHECK(value->producer() != nullptr, "an input without a buffer");
  BufferId id =
      add_temp(value->type(), value->name().empty() ? value->producer()->op().name : value->name());
  buffers_[value] = id;
  return id;
}

Operand Emitter::operand(Value* value) {
  auto own = buffers_.find(value);
  if (own != buffers_.end()) return {own->second, lower::memory_strides(*value), Dim(0)};
  auto view = lower::resolve_view(value);
  GEX_CHECK(view && buffers_.count(view->base) != 0, "operand ", value->type(), " of ",
            current_ ? current_->op().name : "?", " is not in memory");
  return {buffers_.at(view->base), view->strides, view->offset};
}

BufferId Emitter::materialised(Value* value) {
  auto own = buffers_.find(value);
  if (own != buffers_.end()) return own->second;
  Operand from = operand(value);
  BufferId copy = add_temp(value->type(), "copy");
  emit_copy(copy, lower::memory_strides(*value), from.buffer, from.strides, from.offset,
            value->type(), "layout");
  buffers_[value] = copy;
  return copy;
}

Operand Emitter::placed(Value* value) {
  return {materialised(value), lower::memory_strides(*value), Dim(0)};
}

BufferId Emitter::window(BufferId base, Dim offset_elements) {
  if (offset_elements == Dim(0)) return base;
  BufferDesc desc = program_.buffers[static_cast<std::size_t>(base)];
  desc.alias_of = base;
  desc.alias_offset = offset_elements * Dim(static_cast<std::int64_t>(size_of(desc.dtype)));
  desc.bytes = desc.bytes - desc.alias_offset;
  desc.kind = BufferDesc::Kind::temp;
  desc.slot = -1;
  desc.shape.clear();
  desc.strides.clear();
  desc.data = nullptr;
  return add_buffer(std::move(desc));
}

void Emitter::add_step(program::Step step) {
  if (current_ != nullptr) step.location = current_->location();
  if (const auto* launch = std::get_if<program::Launch>(&step.op)) {
    step.threads = launch->matrix ? placement_.matrix_cores : placement_.vector_cores;
    step.stream = placement_.lane;
    program_.num_streams = std::max(program_.num_streams, placement_.lane + 1);
  }
  program_.segments[static_cast<std::size_t>(segment_)].steps.push_back(std::move(step));
}

void Emitter::apply(const backend::LaunchPlan& plan, program::Launch& launch) {
  launch.grid = plan.grid;
  launch.scratch_bytes = plan.scratch_bytes;
  launch.block = plan.block;
  if (plan.mergeable) mergeable_codes_.insert(launch.code);
  if (plan.workspace_bytes == Dim(0)) return;
  BufferDesc desc = describe(Type::tensor(DType::u8, {plan.workspace_bytes}),
                             BufferDesc::Kind::temp, "workspace");
  launch.buffers.push_back(add_buffer(std::move(desc)));
  launch.writes.push_back(true);
}

void Emitter::launch(const loop::Kernel& kernel, const std::string& name,
                     std::vector<BufferId> buffers, std::vector<bool> writes) {
  program::Launch launch;
  launch.name = name;
  program::Code code;
  code.name = name;
  code.kernel = codes_.add_kernel(kernel, launch.dims);
  launch.code = codes_.add_code(std::move(code));
  launch.buffers = std::move(buffers);
  launch.writes = std::move(writes);
  const backend::LaunchPlan plan = backend_.plan(kernel, target_);
  apply(plan, launch);
  launch.ordered = kernel.ordered();
  Dim per_point = 0;
  for (const loop::Stage& stage : kernel.stages) {
    Dim points = static_cast<std::int64_t>(stage.exprs.size());
    for (const loop::Range& r : stage.domain) points *= r.extent();
    for (const loop::Range& r : stage.reduce) points *= r.extent();
    per_point += points;
  }
  launch.work = kernel.grid_size() * per_point;
  add_step({std::move(launch), 0, {}});
}

void Emitter::emit_copy(BufferId dst, const std::vector<Dim>& dst_strides, BufferId src,
                        const std::vector<Dim>& src_strides, Dim src_offset, const Type& type,
                        const char* why) {
  program_.counters.push_back({str("copies.", why), 1});
  if (auto bytes = type.bytes().as_const())
    program_.counters.push_back({str("copied_bytes.", why), *bytes});
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
  launch(kernel, "copy", {window(src, src_offset), dst}, {false, true});
}

void Emitter::emit_loop(const lower::Unit& unit) {
  std::vector<BufferId> buffers;
  std::vector<bool> writes;
  for (Value* v : unit.inputs) {
    buffers.push_back(materialised(v));
    writes.push_back(false);
  }
  for (Value* v : unit.outputs) {
    buffers.push_back(buffer_of(v));
    writes.push_back(true);
  }
  launch(unit.kernel, unit.label(), std::move(buffers), std::move(writes));
}

void Emitter::emit_units(const std::vector<lower::Unit>& units, int segment) {
  int saved = std::exchange(segment_, segment);
  const Placement outer = placement_;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const lower::Unit& unit = units[u];
    current_ = unit.anchor ? unit.anchor : unit.nodes.back();
    place(*current_, outer);
    if (auto copies = copies_before_.find(&unit); copies != copies_before_.end())
      for (const TieCopy& copy : copies->second) emit_tie_copy(copy, operand(copy.value));
    out_.operators += static_cast<std::int64_t>(unit.nodes.size());
    switch (unit.kind) {
      case lower::Unit::Kind::loop:
        emit_loop(unit);
        break;
      case lower::Unit::Kind::contraction:
        emit_contraction(unit);
        break;
      case lower::Unit::Kind::scatter:
        emit_scatter(unit, units, u);
        break;
      case lower::Unit::Kind::step:
        if (placed_cats_.contains(unit.anchor)) {
          emit_cat(*unit.anchor);
        } else {
          emit_step(*unit.anchor);
        }
        break;
    }
  }
  segment_ = saved;
  current_ = nullptr;
  placement_ = outer;
}

// What a region does not say itself is as for the step that runs it.
void Emitter::place(const Node& node, const Placement& outer) {
  placement_ = placement_of(node);
  if (placement_.lane == 0) placement_.lane = outer.lane;
  placement_.any_batch |= outer.any_batch;
  if (placement_.same_limits({})) {
    placement_.matrix_cores = outer.matrix_cores;
    placement_.vector_cores = outer.vector_cores;
  }
}

void Emitter::emit_graph(Graph& graph, int segment) {
  lower::FuseOptions fuse_options;
  fuse_options.enabled = options_.fuse;
  fuse_options.prologues = options_.prologues;
  fuse_options.costs = target_.costs;
  fuse_options.cats_alone = !options_.place_cats;
  lower::FusedGraph fused = lower::fuse(graph, fuse_options);
  out_.kernel_text += str("// region ", graph.name(), "\n", lower::print(fused));
  out_.remarks.insert(out_.remarks.end(), fused.remarks.begin(), fused.remarks.end());
  emit_units(fused.units, segment);
}

}  // namespace gex::emit
