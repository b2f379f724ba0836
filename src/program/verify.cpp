// The rules that every Program must satisfy before it is planned or run.

#include <unordered_set>

#include "base/error.hpp"
#include "program/program.hpp"

namespace gex::program {

namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  void run() {
    symbols();
    buffers();
    inputs();
    outputs();
    for (const Code& code : program_.codes) check(code);
    for (const Guard& guard : program_.guards) {
      known(guard.lhs, "a guard");
      known(guard.rhs, "a guard");
    }
    segments();
  }

 private:
  template <class... Args>
  [[noreturn]] void complain(const Args&... args) const {
    fail(ErrorCode::invalid_graph, "program \"", program_.name, "\": ", args...);
  }

  void known(Dim dim, const std::string& where) const {
    std::vector<Dim> symbols;
    dim.collect_symbols(symbols);
    for (Dim symbol : symbols) {
      if (!symbols_.contains(symbol))
        complain(where, " uses the size symbol ", symbol,
                 ", which the program does not declare; add it to `symbols`");
    }
  }
  void known(const std::vector<Dim>& dims, const std::string& where) const {
    for (Dim dim : dims) known(dim, where);
  }

  void symbols() {
    std::unordered_set<std::string> names;
    bool bound_seen = false;
    for (Dim symbol : program_.symbols) {
      if (!symbol.is_symbol()) complain("`symbols` holds ", symbol, ", which is not a bare symbol");
      if (!names.insert(symbol.name()).second)
        complain("two symbols are named ", symbol.name(), "; names must differ");
      symbols_.insert(symbol);
      const bool bound = is_bound_symbol(program_, symbol);
      if (bound_seen && !bound)
        complain("symbol ", symbol,
                 " comes from an input but is listed after a bound one; list the ",
                 "symbols of inputs first");
      bound_seen = bound_seen || bound;
      if (bound) unbound_.insert(symbol);
    }
  }

  void buffers() const {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const BufferDesc& buffer = program_.buffers[i];
      const std::string where = str("buffer %", i, " \"", buffer.name, "\"");
      known(buffer.shape, where);
      known(buffer.strides, where);
      known(buffer.bytes, where);
      known(buffer.alias_offset, where);
      if (!buffer.strides.empty() && buffer.strides.size() != buffer.shape.size())
        complain(where, " has ", buffer.shape.size(), " dims but ", buffer.strides.size(),
                 " strides");
      if (buffer.alias_of >= static_cast<BufferId>(program_.buffers.size()))
        complain(where, " aliases %", buffer.alias_of, ", which does not exist");
      if (buffer.kind == BufferDesc::Kind::constant && buffer.alias_of < 0 &&
          (buffer.data == nullptr) != (buffer.slot >= 0))
        complain(where, " is a constant and needs either data or a frozen memory slot");
      if (buffer.kind == BufferDesc::Kind::constant && buffer.slot >= 0 && !buffer.bytes.is_const())
        complain(where, " is frozen memory, but its size is not constant: ", buffer.bytes);
      if (buffer.alias_of >= 0 && buffer.kind != BufferDesc::Kind::temp)
        complain(where, " aliases %", buffer.alias_of, " but is ", name_of(buffer.kind),
                 "; only temp buffers may be aliases");
      const BufferId root = root_of(program_, static_cast<BufferId>(i));
      if (root != static_cast<BufferId>(i) &&
          known_lt(program_.buffers[static_cast<std::size_t>(root)].bytes,
                   offset_from_root(program_, static_cast<BufferId>(i)) + buffer.bytes)
              .value_or(false))
        complain(where, " reaches past the end of %", root, ", whose memory it shares");
      if (buffer.kind == BufferDesc::Kind::input &&
          (buffer.slot < 0 || buffer.slot >= static_cast<int>(program_.inputs.size()) ||
           program_.inputs[static_cast<std::size_t>(buffer.slot)].buffer != static_cast<int>(i)))
        complain(where, " is input ", buffer.slot, ", but that input does not name it");
      if (buffer.kind == BufferDesc::Kind::output &&
          (buffer.slot < 0 || buffer.slot >= static_cast<int>(program_.outputs.size()) ||
           program_.outputs[static_cast<std::size_t>(buffer.slot)].buffer != static_cast<int>(i)))
        complain(where, " is output ", buffer.slot, ", but that output does not name it");
    }
  }

  void inputs() const {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const InputDesc& input = program_.inputs[i];
      const std::string where = str("input ", i, " \"", input.name, "\"");
      known(input.shape, where);
      known(input.strides, where);
      known(input.value, where);
      if (!input.strides.empty() && input.strides.size() != input.shape.size())
        complain(where, " has ", input.shape.size(), " dims but ", input.strides.size(),
                 " strides");
      for (const auto* list : {&input.shape, &input.strides})
        for (Dim dim : *list) not_bound(dim, where);
      not_bound(input.value, where);
      if (input.buffer >= 0 && buffer(input.buffer, where).kind != BufferDesc::Kind::input)
        complain(where, " names %", input.buffer, ", which is not an input buffer");
    }
  }

  void not_bound(Dim dim, const std::string& where) const {
    std::vector<Dim> symbols;
    dim.collect_symbols(symbols);
    for (Dim symbol : symbols)
      if (unbound_.contains(symbol))
        complain(where, " uses ", symbol,
                 ", but no input has it as a size (alone or as in 2*s + 1), stride or "
                 "value, so it can't be determined");
  }

  void outputs() const {
    using Kind = OutputDesc::Kind;
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      const OutputDesc& output = program_.outputs[i];
      const std::string where = str("output ", i, " \"", output.name, "\"");
      known(output.shape, where);
      known(output.strides, where);
      known(output.offset, where);
      known(output.value, where);
      if (!output.strides.empty() && output.strides.size() != output.shape.size())
        complain(where, " has ", output.shape.size(), " dims but ", output.strides.size(),
                 " strides");
      if (output.kind == Kind::fresh) {
        const BufferDesc& desc = buffer(output.buffer, where);
        if (desc.kind != BufferDesc::Kind::output || desc.slot != static_cast<int>(i))
          complain(where, " is fresh, so its buffer %", output.buffer,
                   " must be of kind output with its number");
      }
      if (output.kind == Kind::external &&
          buffer(output.buffer, where).kind != BufferDesc::Kind::external)
        complain(where, " names %", output.buffer, ", which no call returns");
      if (output.kind == Kind::input_view && !in_range(output.input, program_.inputs.size()))
        complain(where, " views input ", output.input, ", which does not exist");
      if (output.kind == Kind::input_view &&
          program_.inputs[static_cast<std::size_t>(output.input)].released)
        complain(where, " views input ", output.input, ", which is released at its last use");
      if (output.kind == Kind::output_view &&
          (!in_range(output.input, program_.outputs.size()) || output.input == static_cast<int>(i)))
        complain(where, " views output ", output.input, ", which does not exist");
    }
  }

  static bool in_range(int i, std::size_t size) { return i >= 0 && i < static_cast<int>(size); }

  const BufferDesc& buffer(BufferId id, const std::string& where) const {
    if (!in_range(id, program_.buffers.size()))
      complain(where, " names buffer %", id, ", which does not exist");
    return program_.buffers[static_cast<std::size_t>(id)];
  }

  void segments() {
    visits_.assign(program_.segments.size(), 0);
    for (int segment : program_.main) visit_segment(segment, true, "`main`");
    for (std::size_t i = 0; i < visits_.size(); ++i)
      if (visits_[i] == 0)
        complain("segment ", i, " \"", program_.segments[i].name, "\" is never run; remove it");
    for (Dim symbol : unbound_)
      complain("symbol ", symbol, " is neither a size of an input nor bound by a step");
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      const OutputDesc& output = program_.outputs[i];
      if (output.kind == OutputDesc::Kind::external && !written_.contains(output.buffer))
        complain("output ", i, " \"", output.name, "\" is never produced");
    }
  }

  void visit_segment(int id, bool top_level, const std::string& from) {
    if (!in_range(id, program_.segments.size()))
      complain(from, " runs segment ", id, ", which does not exist");
    if (visits_[static_cast<std::size_t>(id)]++ > 0)
      complain("segment ", id, " is run from two places; a segment belongs to one");
    const Segment& segment = program_.segments[static_cast<std::size_t>(id)];
    for (std::size_t i = 0; i < segment.steps.size(); ++i) {
      const std::string where = str("step ", i, " of segment ", id, " \"", segment.name, "\"");
      const auto* launch = std::get_if<Launch>(&segment.steps[i].op);
      const bool after_launch = i > 0 && std::holds_alternative<Launch>(segment.steps[i - 1].op);
      if (launch != nullptr && launch->with_previous && !after_launch)
        complain(where, " is marked with_previous, but no launch precedes it");
      if (launch != nullptr && launch->after_phase >= launch->phase && launch->after_phase >= 0)
        complain(where, " is phase ", launch->phase, ", but waits for phase ", launch->after_phase);
      if (launch != nullptr && launch->phase > 0 && !after_launch)
        complain(where, " is phase ", launch->phase, " of a kernel, but no launch precedes it");
      visit_step(segment.steps[i], where, top_level, i + 1 == segment.steps.size());
    }
  }

  void visit_step(const Step& step, const std::string& where, bool top_level, bool last) {
    if (!in_range(step.stream, static_cast<std::size_t>(program_.num_streams)))
      complain(where, " runs on stream ", step.stream, " of ", program_.num_streams);
    if (step.threads < 0) complain(where, " may use ", step.threads, " threads");
    if (const auto* launch = std::get_if<Launch>(&step.op)) check(*launch, where);
    if (const auto* call = std::get_if<Call>(&step.op)) check(*call, where);
    if (const auto* copy = std::get_if<Copy>(&step.op)) {
      for (Dim dim : {copy->bytes, copy->dst_offset, copy->src_offset}) usable(dim, where);
    }
    if (const auto* fill = std::get_if<Fill>(&step.op)) {
      usable(fill->bytes, where);
      const int width = fill->pattern_bytes;
      if (width != 1 && width != 2 && width != 4 && width != 8)
        complain(where, " fills with ", width, " bytes; use 1, 2, 4 or 8");
    }
    for (BufferId id : reads_of(step)) {
      // The condition of a while is computed by its own segment, which runs after this check.
      if (!std::holds_alternative<While>(step.op)) readable(id, where);
    }
    for (BufferId id : writes_of(step)) writable(id, step, where);
    for (Dim symbol : bound_symbols(program_, step)) {
      if (!top_level)
        complain(where, " binds ", symbol, " inside an if or while; bind in a main segment");
      unbound_.erase(symbol);
    }
    if (const auto* bind = std::get_if<Bind>(&step.op)) check(*bind, where, last);
    if (const auto* branch = std::get_if<If>(&step.op)) {
      if (buffer(branch->condition, where).dtype != DType::boolean)
        complain(where, ": the condition %", branch->condition, " must be bool");
      visit_segment(branch->then_segment, false, where);
      visit_segment(branch->else_segment, false, where);
    }
    if (const auto* loop = std::get_if<While>(&step.op)) {
      if (buffer(loop->condition, where).dtype != DType::boolean)
        complain(where, ": the condition %", loop->condition, " must be bool");
      visit_segment(loop->condition_segment, false, where);
      readable(loop->condition, where);
      visit_segment(loop->body_segment, false, where);
    }
    const auto event = [&](int id) {
      if (!in_range(id, static_cast<std::size_t>(program_.num_events)))
        complain(where, " names event ", id, " of ", program_.num_events);
    };
    if (const auto* record = std::get_if<Record>(&step.op)) event(record->event);
    if (const auto* wait = std::get_if<Wait>(&step.op)) event(wait->event);
  }

  void check(const Code& code) const {
    const bool has_kernel = in_range(code.kernel, program_.kernels.size());
    if (!has_kernel && (code.problem.empty() ? !program_.kernels.empty() : code.kernel != -1))
      complain("code \"", code.name, "\" names kernel ", code.kernel, " of ",
               program_.kernels.size());
    if (code.extra_buffers < 0)
      complain("code \"", code.name, "\" has ", code.extra_buffers, " extra buffers");
    for (const Code::Prologue& p : code.prologues)
      if (!in_range(p.kernel, program_.kernels.size()) || p.operand < 0 || p.first_buffer < 0 ||
          p.input_buffers < 0 || p.dims_begin < 0)
        complain("code \"", code.name, "\" has a prologue with a number out of range");
  }

  void check(const Launch& launch, const std::string& where) const {
    if (!in_range(launch.code, program_.codes.size()))
      complain(where, " launches code ", launch.code, ", which does not exist");
    const Code& code = program_.codes[static_cast<std::size_t>(launch.code)];
    const auto buffers = static_cast<int>(launch.buffers.size());
    const auto dims = static_cast<int>(launch.dims.size());
    for (const Code::Prologue& p : code.prologues)
      if (p.first_buffer > buffers - p.input_buffers || p.dims_begin > dims)
        complain(where, " has fewer buffers or dims than the prologues of its code read");
    if (launch.writes.size() != launch.buffers.size())
      complain(where, " has ", launch.buffers.size(), " buffers but ", launch.writes.size(),
               " write flags");
    for (BufferId id : launch.buffers) buffer(id, where);
    for (Dim dim : launch.dims) usable(dim, where);
    for (Dim dim : {launch.grid, launch.scratch_bytes, launch.work}) usable(dim, where);
  }

  void check(const Call& call, const std::string& where) const {
    for (const TensorView& view : call.inputs) {
      buffer(view.buffer, where);
      if (view.strides.size() != view.shape.size())
        complain(where, " passes %", view.buffer, " with ", view.shape.size(), " dims but ",
                 view.strides.size(), " strides");
      for (Dim dim : view.shape) usable(dim, where);
      for (Dim dim : view.strides) usable(dim, where);
      usable(view.offset, where);
    }
    for (Dim dim : call.integers) usable(dim, where);
    for (int i : call.written_inputs)
      if (!in_range(i, call.inputs.size()))
        complain(where, " writes its input ", i, " of ", call.inputs.size());
    for (BufferId id : call.outputs)
      if (buffer(id, where).kind != BufferDesc::Kind::external)
        complain(where, " returns %", id, ", which is ", name_of(buffer(id, where).kind),
                 " and should be external");
  }

  void check(const Bind& bind, const std::string& where, bool last) const {
    if (!bind.symbol.is_symbol() || !symbols_.contains(bind.symbol))
      complain(where, " binds ", bind.symbol, ", which is not one of the program's symbols");
    if (!is_bound_symbol(program_, bind.symbol))
      complain(where, " binds ", bind.symbol, ", which an input already gives");
    if (!last) complain(where, " is a bind and must be the last of its segment");
    const DType dtype = buffer(bind.buffer, where).dtype;
    if (!is_int(dtype) && dtype != DType::boolean)
      complain(where, " binds a value of dtype ", dtype, "; it must be an integer");
  }

  // A size that a step uses must be known when the step runs.
  void usable(Dim dim, const std::string& where) const {
    known(dim, where);
    std::vector<Dim> symbols;
    dim.collect_symbols(symbols);
    for (Dim symbol : symbols)
      if (unbound_.contains(symbol)) complain(where, " uses ", symbol, ", which is bound later");
  }

  void readable(BufferId id, const std::string& where) const {
    const BufferDesc& root = buffer(root_of(program_, (buffer(id, where), id)), where);
    if (root.kind == BufferDesc::Kind::input || root.kind == BufferDesc::Kind::constant) return;
    if (!written_.contains(root_of(program_, id)))
      complain(where, " reads %", id, " \"", root.name, "\" before it is written");
  }

  void writable(BufferId id, const Step& step, const std::string& where) {
    buffer(id, where);
    const BufferId root_id = root_of(program_, id);
    const BufferDesc& root = buffer(root_id, where);
    if (root.kind == BufferDesc::Kind::constant)
      complain(where, " writes the constant %", root_id, " \"", root.name, "\"");
    const bool produced = std::holds_alternative<Call>(step.op);
    if (root.kind == BufferDesc::Kind::external && !produced && !written_.contains(root_id))
      complain(where, " writes %", root_id, " \"", root.name, "\" before a call returned it");
    if (root.kind != BufferDesc::Kind::external) usable(root.bytes, where);
    written_.insert(root_id);
  }

  const Program& program_;
  std::unordered_set<Dim> symbols_, unbound_;
  std::unordered_set<BufferId> written_;
  std::vector<int> visits_;
};

}  // namespace

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace gex::program
