// Parses the output of print.cpp. Lines that start with '#' are comments. Errors name the line.

#include <charconv>
#include <unordered_map>

#include "base/error.hpp"
#include "program/program.hpp"
#include "program/text_line.hpp"

namespace gex::program {

namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Program parse() {
    int number = 0;
    while (!text_.empty()) {
      const std::size_t end = std::min(text_.find('\n'), text_.size());
      parse_line(text_.substr(0, end), ++number);
      text_.remove_prefix(std::min(end + 1, text_.size()));
    }
    if (!named_)
      fail(ErrorCode::parse_error,
           "program text has no line of the form: program \"name\"; it should come first");
    return std::move(program_);
  }

 private:
  void parse_line(std::string_view text, int number) {
    const std::size_t start = text.find_first_not_of(" \t\r");
    if (start == std::string_view::npos || text[start] == '#') return;
    if (text[start] == '|') {
      kernel_line(text.substr(start + 1), Line(text, number));
      return;
    }
    Line line(text, number);
    const std::string_view head = line.word();
    if (head == "program") {
      program_.name = line.quoted();
      named_ = true;
    } else if (head == "streams") {
      program_.num_streams = line.small();
    } else if (head == "events") {
      program_.num_events = line.small();
    } else if (head == "symbol") {
      symbol(line);
    } else if (head == "input") {
      input(line);
    } else if (head == "output") {
      output(line);
    } else if (head == "buffer") {
      buffer(line);
    } else if (head == "target") {
      program_.target = line.quoted();
    } else if (head == "kernel") {
      numbered(line, program_.kernels.size(), "kernel");
      program_.kernels.emplace_back();
      kernel_started_ = false;
    } else if (head == "code") {
      code(line);
    } else if (head == "guard") {
      guard(line);
    } else if (head == "count") {
      std::string name = line.quoted();
      program_.counters.emplace_back(std::move(name), line.number());
    } else if (head == "main") {
      while (!line.done()) program_.main.push_back(line.small());
    } else if (head == "segment") {
      numbered(line, program_.segments.size(), "segment");
      program_.segments.push_back({line.quoted(), {}});
    } else {
      step(head, line);
    }
    line.finish();
  }

  static void numbered(Line& line, std::size_t expected, const char* what) {
    const std::int64_t got = line.number();
    if (got != static_cast<std::int64_t>(expected))
      line.complain(what, "s are numbered in order: expected ", expected, ", got ", got);
  }

  void kernel_line(std::string_view text, const Line& line) {
    if (program_.kernels.empty()) line.complain("kernel text before any kernel line");
    if (!text.empty() && text[0] == ' ') text.remove_prefix(1);
    std::string& kernel = program_.kernels.back();
    if (kernel_started_) kernel += '\n';
    kernel += text;
    kernel_started_ = true;
  }

  void code(Line& line) {
    numbered(line, program_.codes.size(), "code");
    Code code;
    code.name = line.quoted();
    if (line.take("problem")) code.problem = line.quoted();
    if (line.take("algorithm")) code.algorithm = line.quoted();
    if (line.take("kernel")) code.kernel = line.small();
    if (line.take("extra")) code.extra_buffers = line.small();
    while (line.take("prologue")) {
      Code::Prologue prologue;
      prologue.kernel = line.small();
      line.expect("operand");
      prologue.operand = line.small();
      line.expect("buffers");
      prologue.first_buffer = line.small();
      prologue.input_buffers = line.small();
      line.expect("dims");
      prologue.dims_begin = line.small();
      code.prologues.push_back(prologue);
    }
    program_.codes.push_back(std::move(code));
  }

  std::vector<Dim> dims(Line& line) {
    const std::string_view text = line.bracketed();
    std::vector<Dim> out;
    if (text.find_first_not_of(' ') == std::string_view::npos) return out;
    std::size_t begin = 0;
    int depth = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (i == text.size() || (text[i] == ',' && depth == 0)) {
        out.push_back(parse_one(text.substr(begin, i - begin), line));
        begin = i + 1;
      } else if (text[i] == '(') {
        ++depth;
      } else if (text[i] == ')') {
        --depth;
      }
    }
    return out;
  }

  Dim parse_one(std::string_view text, const Line& line) {
    try {
      return parse_dim(text, [this](std::string_view name) -> std::optional<Dim> {
        const auto found = symbols_.find(std::string(name));
        if (found == symbols_.end()) return std::nullopt;
        return found->second;
      });
    } catch (const UserError& error) {
      line.complain(error.what());
    }
  }

  Dim dim(Line& line) {
    const std::vector<Dim> list = dims(line);
    if (list.size() != 1) line.complain("expected one size in brackets, got ", list.size());
    return list[0];
  }

  void symbol(Line& line) {
    const std::string name(line.word());
    line.expect("in");
    const std::string_view text = line.bracketed();
    const std::size_t comma = text.find(',');
    if (comma == std::string_view::npos) line.complain("expected a range such as [1, inf]");
    const DimRange range{bound(std::string(text.substr(0, comma)), line),
                         bound(std::string(text.substr(comma + 1)), line)};
    if (!symbols_.emplace(name, Dim::symbol(name, range)).second)
      line.complain("symbol ", name, " is declared twice");
    program_.symbols.push_back(symbols_.at(name));
  }

  static std::int64_t bound(std::string text, const Line& line) {
    std::erase(text, ' ');
    if (text == "inf") return DimRange::kInf;
    if (text == "-inf") return -DimRange::kInf;
    std::int64_t out = 0;
    const char* end = text.data() + text.size();
    if (text.empty() || std::from_chars(text.data(), end, out).ptr != end)
      line.complain("expected a number or inf in a range, got '", text, "'");
    return out;
  }

  void input(Line& line) {
    numbered(line, program_.inputs.size(), "input");
    InputDesc desc;
    desc.name = line.quoted();
    if (line.take("integer")) {
      desc.kind = InputDesc::Kind::integer;
      desc.dtype = DType::i64;
      desc.value = dim(line);
    } else {
      desc.dtype = line.dtype();
      desc.shape = dims(line);
      if (line.take("strides")) desc.strides = dims(line);
      if (line.take("->")) desc.buffer = line.buffer();
      desc.released = line.take("released");
    }
    program_.inputs.push_back(std::move(desc));
  }

  void output(Line& line) {
    numbered(line, program_.outputs.size(), "output");
    OutputDesc desc;
    desc.name = line.quoted();
    const std::string_view kind = line.word();
    using Kind = OutputDesc::Kind;
    bool known = false;
    for (Kind k : {Kind::fresh, Kind::input_view, Kind::output_view, Kind::external, Kind::integer,
                   Kind::none}) {
      if (kind != name_of(k)) continue;
      desc.kind = k;
      known = true;
    }
    if (!known) line.complain("unknown kind of output '", kind, "'");
    if (desc.kind == Kind::integer) {
      desc.value = dim(line);
    } else if (desc.kind != Kind::none) {
      if (desc.kind == Kind::input_view || desc.kind == Kind::output_view)
        desc.input = line.small();
      desc.dtype = line.dtype();
      desc.shape = dims(line);
      if (line.take("strides")) desc.strides = dims(line);
      if (line.take("offset")) desc.offset = dim(line);
      if (line.take("->")) desc.buffer = line.buffer();
    }
    program_.outputs.push_back(std::move(desc));
  }

  void buffer(Line& line) {
    const BufferId id = line.buffer();
    if (id != static_cast<BufferId>(program_.buffers.size()))
      line.complain("buffers are numbered in order: expected %", program_.buffers.size(), ", got %",
                    id);
    BufferDesc desc;
    desc.name = line.quoted();
    const std::string_view kind = line.word();
    using Kind = BufferDesc::Kind;
    bool known = false;
    for (Kind k : {Kind::input, Kind::output, Kind::temp, Kind::constant, Kind::external}) {
      if (kind != name_of(k)) continue;
      desc.kind = k;
      known = true;
    }
    if (!known) line.complain("unknown kind of buffer '", kind, "'");
    if (desc.kind == Kind::input || desc.kind == Kind::output) desc.slot = line.small();
    desc.dtype = line.dtype();
    desc.shape = dims(line);
    if (line.take("strides")) desc.strides = dims(line);
    line.expect("bytes");
    desc.bytes = dim(line);
    if (line.take("alias")) {
      desc.alias_of = line.buffer();
      if (line.take("at")) desc.alias_offset = dim(line);
    }
    desc.exchanged = line.take("exchanged");
    if (desc.kind == Kind::constant && line.take("frozen")) desc.slot = line.small();
    if (line.take("data")) desc.data = data(line);
    program_.buffers.push_back(std::move(desc));
  }

  TensorPtr data(Line& line) {
    const DType dtype = line.dtype();
    std::vector<std::int64_t> shape;
    for (Dim d : dims(line)) {
      if (!d.is_const()) line.complain("data has the size ", d, ", which is not a number");
      shape.push_back(d.constant());
    }
    auto tensor = std::make_shared<HostTensor>(dtype, std::move(shape));
    const std::string_view text = line.word();
    if (text == "omitted") return tensor;
    if (text.size() != 2 + 2 * tensor->bytes() || text.substr(0, 2) != "0x")
      line.complain("expected 0x and ", 2 * tensor->bytes(), " hex digits of data");
    for (std::size_t i = 0; i < tensor->bytes(); ++i) {
      unsigned byte = 0;
      const char* begin = text.data() + 2 + 2 * i;
      if (std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2)
        line.complain("'", std::string(begin, 2), "' is not a hex byte");
      tensor->data()[i] = static_cast<std::byte>(byte);
    }
    return tensor;
  }

  void guard(Line& line) {
    Guard guard;
    guard.lhs = dim(line);
    const std::string_view relation = line.word();
    using Relation = Guard::Relation;
    bool known = false;
    for (Relation r : {Relation::eq, Relation::ne, Relation::lt, Relation::le}) {
      if (relation != symbol_of(r)) continue;
      guard.relation = r;
      known = true;
    }
    if (!known) line.complain("expected ==, !=, < or <=, got '", relation, "'");
    guard.rhs = dim(line);
    guard.message = line.quoted();
    program_.guards.push_back(std::move(guard));
  }

  void step(std::string_view head, Line& line) {
    if (program_.segments.empty()) line.complain("unknown line or step '", head, "'");
    Step step;
    if (head == "launch") {
      step.op = launch(line);
    } else if (head == "copy") {
      step.op = copy(line);
    } else if (head == "fill") {
      Fill fill;
      fill.dst = line.buffer();
      line.expect("bytes");
      fill.bytes = dim(line);
      line.expect("pattern");
      fill.pattern = line.unsigned_number();
      line.expect("width");
      fill.pattern_bytes = line.small();
      step.op = fill;
    } else if (head == "call") {
      step.op = call(line);
    } else if (head == "bind") {
      Bind bind;
      bind.symbol = parse_one(line.word(), line);
      line.expect("=");
      bind.buffer = line.buffer();
      step.op = bind;
    } else if (head == "if") {
      If branch;
      branch.condition = line.buffer();
      line.expect("then");
      branch.then_segment = line.small();
      line.expect("else");
      branch.else_segment = line.small();
      step.op = branch;
    } else if (head == "while") {
      While loop;
      loop.condition_segment = line.small();
      loop.condition = line.buffer();
      line.expect("do");
      loop.body_segment = line.small();
      step.op = loop;
    } else if (head == "record") {
      step.op = Record{line.small()};
    } else if (head == "wait") {
      step.op = Wait{line.small()};
    } else {
      line.complain("unknown step '", head, "'");
    }
    if (line.take("stream")) step.stream = line.small();
    if (line.take("threads")) step.threads = line.small();
    if (line.take("at")) step.location = line.quoted();
    program_.segments.back().steps.push_back(std::move(step));
  }

  Launch launch(Line& line) {
    Launch op;
    op.name = line.quoted();
    line.expect("code");
    op.code = line.small();
    while (line.at("read") || line.at("write")) {
      op.writes.push_back(line.word() == "write");
      op.buffers.push_back(line.buffer());
    }
    if (line.take("dims")) op.dims = dims(line);
    line.expect("grid");
    op.grid = dim(line);
    if (line.take("scratch")) op.scratch_bytes = dim(line);
    if (line.take("work")) op.work = dim(line);
    op.ordered = line.take("ordered");
    op.matrix = line.take("matrix");
    if (line.take("block")) op.block = line.small();
    op.with_previous = line.take("with_previous");
    if (line.take("phase")) op.phase = line.small();
    if (line.take("after_phase")) op.after_phase = line.small();
    op.recomputed = line.take("recomputed");
    return op;
  }

  Copy copy(Line& line) {
    Copy op;
    op.dst = line.buffer();
    if (line.take("+")) op.dst_offset = dim(line);
    line.expect("from");
    op.src = line.buffer();
    if (line.take("+")) op.src_offset = dim(line);
    line.expect("bytes");
    op.bytes = dim(line);
    return op;
  }

  Call call(Line& line) {
    Call op;
    op.name = line.quoted();
    line.expect("callee");
    op.callee = line.small();
    while (line.at("(")) {
      line.expect("(");
      TensorView view;
      view.buffer = line.buffer();
      view.dtype = line.dtype();
      view.shape = dims(line);
      if (line.take("strides")) view.strides = dims(line);
      if (line.take("offset")) view.offset = dim(line);
      line.expect(")");
      op.inputs.push_back(std::move(view));
    }
    if (line.take("integers")) op.integers = dims(line);
    while (line.take("output")) op.outputs.push_back(line.buffer());
    while (line.take("writes")) op.written_inputs.push_back(line.small());
    return op;
  }

  std::string_view text_;
  Program program_;
  std::unordered_map<std::string, Dim> symbols_;
  bool named_ = false;
  bool kernel_started_ = false;
};

}  // namespace

Program parse_program(std::string_view text) { return Parser(text).parse(); }

}  // namespace gex::program
