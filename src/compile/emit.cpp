#include "compile/emit.hpp"

#include <algorithm>

#include "codegen/lower/cluster.hpp"
#include "compile/emitter.hpp"
#include "loop/body.hpp"
#include "loop/single_op.hpp"
#include "ops/call.hpp"

namespace gex::compile_detail {

using program::BufferDesc;
using program::BufferId;

Emitted emit(Graph& graph, const Signature& signature, const CompileOptions& options,
             KernelTable& kernels) {
  return Emitter(graph, signature, options, kernels).run();
}

Emitter::Emitter(Graph& graph, const Signature& signature, const CompileOptions& options,
                 KernelTable& kernels)
    : graph_(graph),
      signature_(signature),
      options_(options),
      kernels_(kernels),
      program_(out_.program) {}

Emitted Emitter::run() {
  program_.name = graph_.name();
  program_.segments.push_back({graph_.name(), {}});
  program_.main.push_back(0);
  // A tied value takes its input's layout, so that it can be written there by whoever computes it.
  for (const Tie& tie : graph_.ties()) {
    Value* value = graph_.outputs()[static_cast<std::size_t>(tie.output)];
    const Value& input = *graph_.inputs()[static_cast<std::size_t>(tie.input)];
    if (value->is_input() || value->type().strides == input.type().strides) continue;
    Type type = value->type();
    type.strides = input.type().strides;
    value->set_type(std::move(type));
  }
  define_inputs();
  lower::FuseOptions fuse_options;
  fuse_options.enabled = options_.fuse;
  fuse_options.views = choose_views();
  lower::FusedGraph fused = lower::fuse(graph_, fuse_options);
  out_.kernel_text += lower::print(fused);
  out_.remarks = fused.remarks;
  place_ties(fused.units);
  define_outputs(fused.units);
  emit_units(fused.units, 0);
  finish_outputs();
  for (const KernelTable::CodeSpec& spec : kernels_.codes()) {
    program::Code code;
    code.name = spec.name;
    code.target = "cpu";
    if (spec.kernel >= 0)
      code.source = loop::print(kernels_.kernels()[static_cast<std::size_t>(spec.kernel)]);
    program_.codes.push_back(std::move(code));
  }
  program_.counters.push_back({"operators", out_.operators});
  program_.counters.push_back({"kernels", static_cast<std::int64_t>(kernels_.codes().size())});
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
  std::unordered_set<const Value*> computed;
  for (const Tie& tie : graph_.ties()) {
    computed.insert(graph_.outputs()[static_cast<std::size_t>(tie.output)]);
  }
  for (const Signature::Output& slot : signature_.outputs) {
    if (slot.own_memory)
      computed.insert(graph_.outputs()[static_cast<std::size_t>(slot.graph_output)]);
  }
  std::unordered_set<const Value*> views;
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

bool Emitter::can_write_in_place(const std::vector<lower::Unit>& units, Value* value,
                                 Value* input) const {
  auto reads_input = [&](const lower::Unit& unit) {
    if (std::find(unit.inputs.begin(), unit.inputs.end(), input) != unit.inputs.end()) return true;
    if (unit.anchor == nullptr) return false;
    for (Value* operand : unit.anchor->inputs()) {
      if (operand == nullptr) continue;
      auto view = lower::resolve_view(operand);
      if ((view ? view->base : operand) == input) return true;
    }
    return false;
  };
  std::size_t writer = units.size();
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (std::find(units[u].outputs.begin(), units[u].outputs.end(), value) !=
        units[u].outputs.end())
      writer = u;
  }
  if (writer == units.size()) return false;
  for (std::size_t u = writer + 1; u < units.size(); ++u) {
    if (reads_input(units[u])) return false;
  }
  const lower::Unit& unit = units[writer];
  if (unit.kind == lower::Unit::Kind::scatter) {
    if (unit.anchor->input(0) != input) return false;
    for (std::size_t k = 1; k < unit.anchor->inputs().size(); ++k) {
      Value* operand = unit.anchor->input(k);
      if (operand == nullptr) continue;
      auto view = lower::resolve_view(operand);
      if ((view ? view->base : operand) == input) return false;
    }
    return true;
  }
  if (unit.kind == lower::Unit::Kind::step) return false;
  if (unit.kind == lower::Unit::Kind::contraction) {
    for (Value* operand : unit.anchor->inputs()) {
      if (operand == nullptr) continue;
      auto view = lower::resolve_view(operand);
      if ((view ? view->base : operand) == input) return false;
    }
  }
  auto at = std::find(unit.inputs.begin(), unit.inputs.end(), input);
  if (at == unit.inputs.end()) return true;
  // The kernel reads the old value itself: only at the very element it writes, and never after
  // that.
  int first = unit.kind == lower::Unit::Kind::contraction ? 1 : 0;
  int read = first + static_cast<int>(at - unit.inputs.begin());
  int written = first + static_cast<int>(unit.inputs.size()) +
                static_cast<int>(std::find(unit.outputs.begin(), unit.outputs.end(), value) -
                                 unit.outputs.begin());
  const loop::Store* store = nullptr;
  for (const loop::Stage& stage : unit.kernel.stages) {
    for (const loop::Expr& e : stage.exprs) {
      if (e.kind != loop::Expr::Kind::load || e.buffer != read) continue;
      if (store != nullptr) return false;
    }
    for (const loop::Store& s : stage.stores) {
      if (s.buffer == written) store = &s;
    }
    if (store == nullptr) continue;
    for (const loop::Stage& earlier : unit.kernel.stages) {
      for (const loop::Expr& e : earlier.exprs) {
        if (e.kind == loop::Expr::Kind::load && e.buffer == read && e.index != store->index)
          return false;
      }
      if (&earlier == &stage) break;
    }
  }
  return store != nullptr;
}

void Emitter::place_ties(const std::vector<lower::Unit>& units) {
  for (const Tie& tie : graph_.ties()) {
    Value* value = graph_.outputs()[static_cast<std::size_t>(tie.output)];
    Value* input = graph_.inputs()[static_cast<std::size_t>(tie.input)].get();
    if (value == input) continue;
    if (!value->is_input() && buffers_.count(value) == 0 &&
        can_write_in_place(units, value, input)) {
      buffers_[value] = buffers_.at(input);
    } else {
      tie_copies_.push_back({value, input});
    }
  }
}

void Emitter::define_outputs(const std::vector<lower::Unit>& units) {
  std::unordered_set<const Value*> from_calls;
  for (const lower::Unit& unit : units) {
    if (unit.kind != lower::Unit::Kind::step || !ops::is_call(*unit.anchor)) continue;
    for (std::size_t k = 0; k < unit.anchor->num_outputs(); ++k)
      from_calls.insert(unit.anchor->output(k));
  }
  std::unordered_map<const Value*, int> given;
  std::unordered_map<const Value*, int> tied_to;
  for (const Tie& tie : graph_.ties()) {
    tied_to.emplace(graph_.outputs()[static_cast<std::size_t>(tie.output)], tie.input);
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
  for (const TieCopy& copy : tie_copies_) {
    Operand from = operand(copy.value);
    emit_copy(buffers_.at(copy.input), lower::memory_strides(*copy.input), from.buffer,
              from.strides, from.offset, copy.input->type(), "tie");
  }
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
  program_.segments[static_cast<std::size_t>(segment_)].steps.push_back(std::move(step));
}

void Emitter::launch(const loop::Kernel& kernel, const std::string& name,
                     std::vector<BufferId> buffers, std::vector<bool> writes) {
  program::Launch launch;
  launch.name = name;
  int id = kernels_.add(kernel, launch.dims);
  launch.code = kernels_.add_loop_code(name, id);
  launch.buffers = std::move(buffers);
  launch.writes = std::move(writes);
  launch.grid = kernel.grid_size();
  launch.scratch_bytes = kernel.scratch_bytes();
  launch.ordered = kernel.ordered();
  Dim per_point = 0;
  for (const loop::Stage& stage : kernel.stages) {
    Dim points = static_cast<std::int64_t>(stage.exprs.size());
    for (const loop::Range& r : stage.domain) points *= r.extent();
    for (const loop::Range& r : stage.reduce) points *= r.extent();
    per_point += points;
  }
  launch.work = launch.grid * per_point;
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

void Emitter::emit_scatter(const lower::Unit& unit, const std::vector<lower::Unit>& units,
                           std::size_t position) {
  const Node& node = *unit.anchor;
  Value* base = node.input(0);
  Value* result = node.output();
  BufferId base_buffer = materialised(base);
  bool in_place = buffers_.count(result) != 0 && buffers_.at(result) == base_buffer;
  // A temporary that dies here may be overwritten as well.
  if (!in_place && buffers_.count(result) == 0 &&
      program_.buffers[static_cast<std::size_t>(base_buffer)].kind == BufferDesc::Kind::temp &&
      program_.buffers[static_cast<std::size_t>(base_buffer)].alias_of < 0 &&
      base->producer() != nullptr && base->type() == result->type()) {
    // Copies that end the program read it last; its own other operands are read while it writes.
    const auto ends_as = [&](Value* value) {
      auto view = lower::resolve_view(value);
      return (view ? view->base : value) == base;
    };
    bool read_later = false;
    for (const TieCopy& copy : tie_copies_) read_later |= ends_as(copy.value);
    for (const OutputCopy& copy : output_copies_) read_later |= ends_as(copy.value);
    for (std::size_t k = 1; k < node.inputs().size(); ++k) {
      if (!node.has_input(k)) continue;
      auto view = lower::resolve_view(node.input(k));
      read_later |= (view ? view->base : node.input(k)) == base;
    }
    for (std::size_t u = position + 1; u < units.size(); ++u) {
      read_later |=
          std::find(units[u].inputs.begin(), units[u].inputs.end(), base) != units[u].inputs.end();
      if (units[u].anchor == nullptr) continue;
      for (Value* v : units[u].anchor->inputs()) {
        if (v == nullptr) continue;
        auto view = lower::resolve_view(v);
        read_later |= (view ? view->base : v) == base;
      }
    }
    if (!read_later) {
      buffers_[result] = base_buffer;
      in_place = true;
    }
  }
  std::vector<BufferId> buffers;
  std::vector<bool> writes;
  for (Value* v : node.inputs()) {
    if (v == nullptr) continue;
    buffers.push_back(materialised(v));
    writes.push_back(in_place && v == base);
  }
  if (!in_place) {
    buffers.push_back(buffer_of(result));
    writes.push_back(true);
    program_.counters.push_back({"copies.scatter", 1});
  }
  loop::Kernel kernel = in_place ? loop::kernel_of_scatter_inplace(node) : loop::kernel_of(node);
  launch(kernel, unit.label(), std::move(buffers), std::move(writes));
}

void Emitter::emit_units(const std::vector<lower::Unit>& units, int segment) {
  int saved = std::exchange(segment_, segment);
  for (std::size_t u = 0; u < units.size(); ++u) {
    const lower::Unit& unit = units[u];
    current_ = unit.anchor ? unit.anchor : unit.nodes.back();
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
        emit_step(*unit.anchor);
        break;
    }
  }
  segment_ = saved;
  current_ = nullptr;
}

void Emitter::emit_graph(Graph& graph, int segment) {
  lower::FuseOptions fuse_options;
  fuse_options.enabled = options_.fuse;
  lower::FusedGraph fused = lower::fuse(graph, fuse_options);
  out_.kernel_text += str("// region ", graph.name(), "\n", lower::print(fused));
  out_.remarks.insert(out_.remarks.end(), fused.remarks.begin(), fused.remarks.end());
  emit_units(fused.units, segment);
}

}  // namespace gex::compile_detail
