#include "program/program.hpp"

#include "base/error.hpp"
#include "program/solve_size.hpp"

namespace gex::program {

BufferId root_of(const Program& program, BufferId id) {
  // A chain longer than the buffer list is a cycle.
  for (std::size_t hops = 0; hops <= program.buffers.size(); ++hops) {
    const BufferId next = program.buffers[static_cast<std::size_t>(id)].alias_of;
    if (next < 0) return id;
    id = next;
  }
  fail(ErrorCode::invalid_graph, "program ", program.name, ": buffer %", id,
       " is an alias of itself through other aliases; break the cycle");
}

Dim offset_from_root(const Program& program, BufferId id) {
  Dim offset = 0;
  for (std::size_t hops = 0; hops <= program.buffers.size(); ++hops) {
    const BufferDesc& buffer = program.buffers[static_cast<std::size_t>(id)];
    if (buffer.alias_of < 0) return offset;
    offset += buffer.alias_offset;
    id = buffer.alias_of;
  }
  fail(ErrorCode::invalid_graph, "program ", program.name, ": buffer %", id,
       " is an alias of itself through other aliases; break the cycle");
}

namespace {

struct Reads {
  std::vector<BufferId> operator()(const Launch& launch) const {
    std::vector<BufferId> out;
    for (std::size_t i = 0; i < launch.buffers.size(); ++i)
      if (!launch.writes[i]) out.push_back(launch.buffers[i]);
    return out;
  }
  std::vector<BufferId> operator()(const Copy& copy) const { return {copy.src}; }
  std::vector<BufferId> operator()(const Fill&) const { return {}; }
  std::vector<BufferId> operator()(const Call& call) const {
    std::vector<BufferId> out;
    for (const TensorView& view : call.inputs) out.push_back(view.buffer);
    return out;
  }
  std::vector<BufferId> operator()(const Bind& bind) const { return {bind.buffer}; }
  std::vector<BufferId> operator()(const If& branch) const { return {branch.condition}; }
  std::vector<BufferId> operator()(const While& loop) const { return {loop.condition}; }
  std::vector<BufferId> operator()(const Record&) const { return {}; }
  std::vector<BufferId> operator()(const Wait&) const { return {}; }
};

struct Writes {
  std::vector<BufferId> operator()(const Launch& launch) const {
    std::vector<BufferId> out;
    for (std::size_t i = 0; i < launch.buffers.size(); ++i)
      if (launch.writes[i]) out.push_back(launch.buffers[i]);
    return out;
  }
  std::vector<BufferId> operator()(const Copy& copy) const { return {copy.dst}; }
  std::vector<BufferId> operator()(const Fill& fill) const { return {fill.dst}; }
  std::vector<BufferId> operator()(const Call& call) const {
    std::vector<BufferId> out = call.outputs;
    for (int i : call.written_inputs)
      out.push_back(call.inputs[static_cast<std::size_t>(i)].buffer);
    return out;
  }
  template <class Other>
  std::vector<BufferId> operator()(const Other&) const {
    return {};
  }
};

}  // namespace

std::vector<BufferId> reads_of(const Step& step) { return std::visit(Reads{}, step.op); }
std::vector<BufferId> writes_of(const Step& step) { return std::visit(Writes{}, step.op); }

std::string_view name_of(BufferDesc::Kind kind) {
  switch (kind) {
    case BufferDesc::Kind::input:
      return "input";
    case BufferDesc::Kind::output:
      return "output";
    case BufferDesc::Kind::temp:
      return "temp";
    case BufferDesc::Kind::constant:
      return "constant";
    case BufferDesc::Kind::external:
      return "external";
  }
  return "?";
}

std::string_view symbol_of(Guard::Relation relation) {
  switch (relation) {
    case Guard::Relation::eq:
      return "==";
    case Guard::Relation::ne:
      return "!=";
    case Guard::Relation::lt:
      return "<";
    case Guard::Relation::le:
      return "<=";
  }
  return "?";
}

bool holds(Guard::Relation relation, std::int64_t lhs, std::int64_t rhs) {
  switch (relation) {
    case Guard::Relation::eq:
      return lhs == rhs;
    case Guard::Relation::ne:
      return lhs != rhs;
    case Guard::Relation::lt:
      return lhs < rhs;
    case Guard::Relation::le:
      return lhs <= rhs;
  }
  return false;
}

std::string_view name_of(OutputDesc::Kind kind) {
  switch (kind) {
    case OutputDesc::Kind::fresh:
      return "fresh";
    case OutputDesc::Kind::input_view:
      return "view_of_input";
    case OutputDesc::Kind::output_view:
      return "view_of_output";
    case OutputDesc::Kind::external:
      return "external";
    case OutputDesc::Kind::integer:
      return "integer";
    case OutputDesc::Kind::none:
      return "none";
  }
  return "?";
}

std::vector<Dim> bound_symbols(const Program& program, const Step& step) {
  if (const auto* bind = std::get_if<Bind>(&step.op)) return {bind->symbol};
  std::vector<Dim> out;
  const auto* call = std::get_if<Call>(&step.op);
  if (call == nullptr) return out;
  for (BufferId id : call->outputs) {
    for (Dim d : program.buffers[static_cast<std::size_t>(id)].shape) {
      if (!d.is_symbol() || !is_bound_symbol(program, d)) continue;
      bool seen = false;
      for (Dim known : out) seen = seen || known == d;
      if (!seen) out.push_back(d);
    }
  }
  return out;
}

bool is_bound_symbol(const Program& program, Dim symbol) {
  for (const InputDesc& input : program.inputs) {
    for (Dim d : input.shape)
      if (const auto solved = solve_size(d); solved && solved->symbol == symbol) return false;
    for (Dim d : input.strides)
      if (d == symbol) return false;
    if (input.kind == InputDesc::Kind::integer && input.value == symbol) return false;
  }
  return true;
}

}  // namespace gex::program
