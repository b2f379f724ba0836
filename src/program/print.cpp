// The text form of a Program, one entity per line. Dims are in brackets, names in quotes, fields
// with their default value are omitted. parse.cpp reads it back.

#include <iomanip>
#include <sstream>

#include "program/program.hpp"

namespace gex::program {

namespace {

class Printer {
 public:
  Printer(const Program& program, PrintOptions options) : program_(program), options_(options) {}

  std::string print() {
    out_ << "program " << quoted(program_.name) << "\n";
    if (program_.target != "cpu") out_ << "target " << quoted(program_.target) << "\n";
    if (program_.num_streams != 1) out_ << "streams " << program_.num_streams << "\n";
    if (program_.num_events != 0) out_ << "events " << program_.num_events << "\n";
    for (Dim symbol : program_.symbols) {
      const DimRange range = symbol.range();
      out_ << "symbol " << symbol.name() << " in [" << bound(range.lo) << ", " << bound(range.hi)
           << "]\n";
    }
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) input(i);
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) output(i);
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) buffer(i);
    for (std::size_t i = 0; i < program_.kernels.size(); ++i) kernel(i);
    for (std::size_t i = 0; i < program_.codes.size(); ++i) code(i);
    for (const Guard& guard : program_.guards) {
      out_ << "guard [" << guard.lhs << "] " << symbol_of(guard.relation) << " [" << guard.rhs
           << "] " << quoted(guard.message) << "\n";
    }
    for (const auto& [name, value] : program_.counters)
      out_ << "count " << quoted(name) << " " << value << "\n";
    if (!program_.main.empty()) {
      out_ << "main";
      for (int segment : program_.main) out_ << " " << segment;
      out_ << "\n";
    }
    for (std::size_t i = 0; i < program_.segments.size(); ++i) {
      out_ << "segment " << i << " " << quoted(program_.segments[i].name) << "\n";
      for (const Step& one : program_.segments[i].steps) step(one);
    }
    return out_.str();
  }

 private:
  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      if (c == '\n') {
        out += "\\n";
      } else {
        out += c;
      }
    }
    return out + "\"";
  }

  static std::string bound(std::int64_t value) {
    if (value >= DimRange::kInf) return "inf";
    if (value <= -DimRange::kInf) return "-inf";
    return std::to_string(value);
  }

  void dims(const char* label, const std::vector<Dim>& list) {
    out_ << label << "[";
    for (std::size_t i = 0; i < list.size(); ++i) out_ << (i == 0 ? "" : ", ") << list[i];
    out_ << "]";
  }

  void dims_unless_empty(const char* label, const std::vector<Dim>& list) {
    if (!list.empty()) dims(label, list);
  }

  void dim_unless_zero(const char* label, Dim value) {
    if (value != Dim(0)) out_ << label << "[" << value << "]";
  }

  void input(std::size_t i) {
    const InputDesc& desc = program_.inputs[i];
    out_ << "input " << i << " " << quoted(desc.name);
    if (desc.kind == InputDesc::Kind::integer) {
      out_ << " integer [" << desc.value << "]\n";
      return;
    }
    out_ << " " << desc.dtype;
    dims(" ", desc.shape);
    dims_unless_empty(" strides ", desc.strides);
    if (desc.buffer >= 0) out_ << " -> %" << desc.buffer;
    if (desc.released) out_ << " released";
    out_ << "\n";
  }

  void output(std::size_t i) {
    const OutputDesc& desc = program_.outputs[i];
    out_ << "output " << i << " " << quoted(desc.name) << " " << name_of(desc.kind);
    switch (desc.kind) {
      case OutputDesc::Kind::none:
        break;
      case OutputDesc::Kind::integer:
        out_ << " [" << desc.value << "]";
        break;
      case OutputDesc::Kind::input_view:
      case OutputDesc::Kind::output_view:
        out_ << " " << desc.input;
        [[fallthrough]];
      case OutputDesc::Kind::fresh:
      case OutputDesc::Kind::external:
        out_ << " " << desc.dtype;
        dims(" ", desc.shape);
        dims_unless_empty(" strides ", desc.strides);
        dim_unless_zero(" offset ", desc.offset);
        if (desc.buffer >= 0) out_ << " -> %" << desc.buffer;
        break;
    }
    out_ << "\n";
  }

  void buffer(std::size_t i) {
    const BufferDesc& desc = program_.buffers[i];
    out_ << "buffer %" << i << " " << quoted(desc.name) << " " << name_of(desc.kind);
    const bool frozen = desc.kind == BufferDesc::Kind::constant && desc.slot >= 0;
    if (desc.slot >= 0 && !frozen) out_ << " " << desc.slot;
    out_ << " " << desc.dtype;
    dims(" ", desc.shape);
    dims_unless_empty(" strides ", desc.strides);
    out_ << " bytes [" << desc.bytes << "]";
    if (desc.alias_of >= 0) {
      out_ << " alias %" << desc.alias_of;
      dim_unless_zero(" at ", desc.alias_offset);
    }
    if (desc.exchanged) out_ << " exchanged";
    if (frozen) out_ << " frozen " << desc.slot;
    if (desc.data != nullptr) {
      out_ << " data " << desc.data->dtype() << " [";
      const auto& shape = desc.data->shape();
      for (std::size_t d = 0; d < shape.size(); ++d) out_ << (d == 0 ? "" : ", ") << shape[d];
      out_ << "] ";
      options_.constant_data ? hex(*desc.data) : void(out_ << "omitted");
    }
    out_ << "\n";
  }

  void hex(const HostTensor& tensor) {
    static const char* digits = "0123456789abcdef";
    std::string text = "0x";
    text.reserve(2 + tensor.bytes() * 2);
    for (std::size_t i = 0; i < tensor.bytes(); ++i) {
      const auto byte = static_cast<unsigned>(tensor.data()[i]);
      text += digits[byte >> 4];
      text += digits[byte & 15];
    }
    out_ << text;
  }

  void kernel(std::size_t i) {
    const std::string& text = program_.kernels[i];
    out_ << "kernel " << i << "\n";
    if (text.empty()) return;
    std::size_t begin = 0;
    while (true) {
      const std::size_t end = text.find('\n', begin);
      out_ << "  | " << text.substr(begin, end - begin) << "\n";
      if (end == std::string::npos) return;
      begin = end + 1;
    }
  }

  void code(std::size_t i) {
    const Code& code = program_.codes[i];
    out_ << "code " << i << " " << quoted(code.name);
    if (!code.problem.empty()) out_ << " problem " << quoted(code.problem);
    if (!code.algorithm.empty()) out_ << " algorithm " << quoted(code.algorithm);
    if (code.kernel >= 0) out_ << " kernel " << code.kernel;
    if (code.extra_buffers != 0) out_ << " extra " << code.extra_buffers;
    for (const Code::Prologue& p : code.prologues)
      out_ << " prologue " << p.kernel << " operand " << p.operand << " buffers " << p.first_buffer
           << " " << p.input_buffers << " dims " << p.dims_begin;
    out_ << "\n";
  }

  void step(const Step& one) {
    out_ << "  ";
    std::visit([this](const auto& op) { print_op(op); }, one.op);
    if (one.stream != 0) out_ << " stream " << one.stream;
    if (one.threads != 0) out_ << " threads " << one.threads;
    if (!one.location.empty()) out_ << " at " << quoted(one.location);
    out_ << "\n";
  }

  void print_op(const Launch& op) {
    out_ << "launch " << quoted(op.name) << " code " << op.code;
    for (std::size_t i = 0; i < op.buffers.size(); ++i)
      out_ << (op.writes[i] ? " write %" : " read %") << op.buffers[i];
    dims_unless_empty(" dims ", op.dims);
    out_ << " grid [" << op.grid << "]";
    dim_unless_zero(" scratch ", op.scratch_bytes);
    dim_unless_zero(" work ", op.work);
    if (op.ordered) out_ << " ordered";
    if (op.matrix) out_ << " matrix";
    if (op.block != 0) out_ << " block " << op.block;
    if (op.with_previous) out_ << " with_previous";
    if (op.phase >= 0) out_ << " phase " << op.phase;
    if (op.after_phase >= 0) out_ << " after_phase " << op.after_phase;
    if (op.recomputed) out_ << " recomputed";
  }

  void print_op(const Copy& op) {
    out_ << "copy %" << op.dst;
    dim_unless_zero(" + ", op.dst_offset);
    out_ << " from %" << op.src;
    dim_unless_zero(" + ", op.src_offset);
    out_ << " bytes [" << op.bytes << "]";
  }

  void print_op(const Fill& op) {
    out_ << "fill %" << op.dst << " bytes [" << op.bytes << "] pattern " << op.pattern << " width "
         << op.pattern_bytes;
  }

  void print_op(const Call& op) {
    out_ << "call " << quoted(op.name) << " callee " << op.callee;
    for (const TensorView& view : op.inputs) {
      out_ << " (%" << view.buffer << " " << view.dtype;
      dims(" ", view.shape);
      dims_unless_empty(" strides ", view.strides);
      dim_unless_zero(" offset ", view.offset);
      out_ << ")";
    }
    dims_unless_empty(" integers ", op.integers);
    for (BufferId id : op.outputs) out_ << " output %" << id;
    for (int i : op.written_inputs) out_ << " writes " << i;
  }

  void print_op(const Bind& op) { out_ << "bind " << op.symbol << " = %" << op.buffer; }

  void print_op(const If& op) {
    out_ << "if %" << op.condition << " then " << op.then_segment << " else " << op.else_segment;
  }

  void print_op(const While& op) {
    out_ << "while " << op.condition_segment << " %" << op.condition << " do " << op.body_segment;
  }

  void print_op(const Record& op) { out_ << "record " << op.event; }
  void print_op(const Wait& op) { out_ << "wait " << op.event; }

  const Program& program_;
  PrintOptions options_;
  std::ostringstream out_;
};

}  // namespace

std::string print(const Program& program, PrintOptions options) {
  return Printer(program, options).print();
}

}  // namespace gex::program
