// Prints the canonical text form: expressions are v0, v1, ... in order, every dtype is written,
// constants are the shortest digits that parse back to the same bits.

#include <charconv>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "loop/combines.hpp"
#include "loop/printed_lines.hpp"
#include "loop/walk.hpp"

namespace gex::loop {
namespace {

std::string bound_text(std::int64_t v) {
  if (v >= DimRange::kInf) return "inf";
  if (v <= -DimRange::kInf) return "-inf";
  return str(v);
}

std::string range_text(DimRange r) {
  return str(" in [", bound_text(r.lo), ", ", bound_text(r.hi), "]");
}

std::string float_text(DType dtype, double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  char buffer[40];
  auto end = dtype == DType::f64
                 ? std::to_chars(buffer, buffer + sizeof buffer, v).ptr
                 : std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(v)).ptr;
  return {buffer, end};
}

std::string constant_text(DType dtype, double imm, std::int64_t imm_int) {
  if (dtype == DType::boolean) return imm != 0 ? "true" : "false";
  return is_float(dtype) ? float_text(dtype, imm) : str(imm_int);
}

std::string list_text(std::span<const Dim> dims) {
  std::string out;
  for (Dim d : dims) out += (out.empty() ? "" : ", ") + d.text();
  return out;
}

std::string ranges_text(std::span<const Range> ranges) {
  std::string out;
  for (const Range& r : ranges)
    out += str(out.empty() ? "" : ", ", r.name(), " < ", r.extent().text());
  return "(" + out + ")";
}

std::string buffer_text(const Buffer& b) {
  std::string out = str(b.dtype, "[", list_text(b.shape), "]");
  if (!b.strides.empty()) out += "{" + list_text(b.strides) + "}";
  return out;
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel) {}

  PrintedKernel run() {
    symbols();
    lines_.kernel = line();
    out_ += str("kernel ", kernel_.name, "(");
    auto params = static_cast<std::size_t>(kernel_.num_params());
    for (std::size_t i = 0; i < params; ++i) {
      const Buffer& b = kernel_.buffers[i];
      static constexpr const char* kRoles[] = {"in", "out", "inout", "local"};
      out_ +=
          str(i ? ", " : "", b.name, ": ", kRoles[static_cast<int>(b.role)], " ", buffer_text(b));
    }
    out_ += ")";
    if (!kernel_.grid.empty()) out_ += " grid" + ranges_text(kernel_.grid);
    out_ += " {\n";
    for (std::size_t i = params; i < kernel_.buffers.size(); ++i)
      out_ += str("  local ", kernel_.buffers[i].name, ": ", buffer_text(kernel_.buffers[i]), "\n");
    for (const Stage& stage : kernel_.stages) print(stage);
    lines_.text = out_ + "}\n";
    return std::move(lines_);
  }

 private:
  void symbols() {
    auto symbols = kernel_.symbols();
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      out_ += str(i ? ", " : "symbols ", symbols[i].name());
      if (symbols[i].range() != DimRange{0, DimRange::kInf}) out_ += range_text(symbols[i].range());
    }
    if (!symbols.empty()) out_ += "\n";
  }

  std::string access(int buffer, std::span<const Dim> index) const {
    return str(kernel_.buffers[static_cast<std::size_t>(buffer)].name, "[", list_text(index), "]");
  }

  // The line that is written next.
  int line() {
    for (; counted_ < out_.size(); ++counted_) line_ += out_[counted_] == '\n';
    return line_;
  }

  void print(const Stage& stage) {
    lines_.stages.emplace_back().stage = line();
    out_ += "  stage";
    if (!stage.name.empty()) out_ += " " + stage.name;
    if (!stage.domain.empty()) out_ += " domain" + ranges_text(stage.domain);
    if (stage.reduction)
      out_ += (stage.reduction->scan ? " scan" : " reduce") + ranges_text(stage.reduce);
    out_ += " {\n";
    auto promised = promised_ranges(stage);
    bool declared = !stage.reduction;
    for (std::size_t i = 0; i < stage.exprs.size(); ++i) {
      if (!declared && stage.exprs[i].kind == Expr::Kind::acc) {
        print(*stage.reduction);
        declared = true;
      }
      lines_.stages.back().exprs.push_back(line());
      print("    ", i, stage.exprs[i], stage.reduction ? &stage.reduction->accumulators : nullptr);
      if (auto it = promised.find(static_cast<ExprId>(i)); it != promised.end())
        out_ += range_text(it->second);
      out_ += "\n";
    }
    if (!declared) print(*stage.reduction);
    for (const Store& s : stage.stores) {
      lines_.stages.back().stores.push_back(line());
      print(s);
    }
    out_ += "  }\n";
  }

  // Value symbols have the range they were made with; it is printed at the definition of the value.
  static std::map<ExprId, DimRange> promised_ranges(const Stage& stage) {
    std::vector<Dim> symbols;
    for (const Expr& e : stage.exprs) for_each_dim(e, [&](Dim d) { d.collect_symbols(symbols); });
    for (const Store& s : stage.stores)
      for (Dim d : s.index) d.collect_symbols(symbols);
    std::map<ExprId, DimRange> ranges;
    for (Dim s : symbols)
      if (auto id = value_symbol_id(s); id && s.range() != DimRange{}) ranges[*id] = s.range();
    return ranges;
  }

  void print(const char* indent, std::size_t id, const Expr& e,
             const std::vector<Accumulator>* accumulators) {
    out_ += str(indent, "v", id, " = ");
    auto slot_name = [&] { return (*accumulators)[static_cast<std::size_t>(e.slot)].name; };
    switch (e.kind) {
      case Expr::Kind::constant:
        out_ += "const " + constant_text(e.dtype, e.imm, e.imm_int);
        break;
      case Expr::Kind::index:
        out_ += "index " + e.dim.text();
        break;
      case Expr::Kind::load:
        out_ += "load " + access(e.buffer, e.index);
        if (e.pred != kNoExpr) out_ += str(" if v", e.pred, " else v", e.fill);
        break;
      case Expr::Kind::prim:
        out_ += str(name_of(e.prim), " ");
        for (std::size_t i = 0; i < e.args.size(); ++i) out_ += str(i ? ", v" : "v", e.args[i]);
        break;
      case Expr::Kind::cast:
        out_ += str("cast v", e.args[0]);
        break;
      case Expr::Kind::acc:
        out_ += "acc " + slot_name();
        break;
      case Expr::Kind::lhs:
        out_ += "lhs " + slot_name();
        break;
      case Expr::Kind::rhs:
        out_ += "rhs " + slot_name();
        break;
    }
    out_ += str(" : ", e.dtype);
  }

  void print(const Reduction& r) {
    for (std::size_t i = 0; i < r.accumulators.size(); ++i) {
      const Accumulator& a = r.accumulators[i];
      out_ += str("    acc ", a.name, ": ", a.dtype, " = ",
                  constant_text(a.dtype, a.init, a.init_int), " <- v", r.elements[i], "\n");
    }
    lines_.stages.back().combine = line();
    std::vector<std::string_view> names;
    if (spell(r, 0, names)) {
      out_ += "    combine ";
      for (std::size_t i = 0; i < names.size(); ++i) out_ += str(i ? ", " : "", names[i]);
      out_ += "\n";
      return;
    }
    out_ += "    combine {\n";
    for (std::size_t i = 0; i < r.combine.exprs.size(); ++i) {
      print("      ", i, r.combine.exprs[i], &r.accumulators);
      out_ += "\n";
    }
    out_ += "      yield ";
    for (std::size_t i = 0; i < r.combine.results.size(); ++i)
      out_ += str(i ? ", v" : "v", r.combine.results[i]);
    out_ += "\n    }\n";
  }

  // Finds the named combines whose expansion is exactly this body.
  static bool spell(const Reduction& r, std::size_t slot, std::vector<std::string_view>& names) {
    if (slot == r.accumulators.size()) {
      auto made = make_combine(names, r.accumulators);
      return made && *made == r.combine;
    }
    if (r.accumulators.size() > 6) return false;  // the search below is exponential
    for (const NamedCombine& c : named_combines()) {
      if (slot + static_cast<std::size_t>(c.slots) > r.accumulators.size()) continue;
      names.push_back(c.name);
      if (could_start_with(r, names) && spell(r, slot + static_cast<std::size_t>(c.slots), names))
        return true;
      names.pop_back();
    }
    return false;
  }

  static bool could_start_with(const Reduction& r, std::span<const std::string_view> names) {
    std::size_t slots = 0;
    for (auto name : names) slots += static_cast<std::size_t>(find_named_combine(name)->slots);
    auto made = make_combine(names, std::span(r.accumulators).first(slots));
    if (!made || made->exprs.size() > r.combine.exprs.size()) return false;
    return std::equal(made->exprs.begin(), made->exprs.end(), r.combine.exprs.begin()) &&
           std::equal(made->results.begin(), made->results.end(), r.combine.results.begin());
  }

  void print(const Store& s) {
    static constexpr const char* kModes[] = {"set", "add", "mul", "max", "min"};
    out_ += str("    store ", access(s.buffer, s.index), " = v", s.value);
    if (s.mode != Store::Mode::set) out_ += str(" mode ", kModes[static_cast<int>(s.mode)]);
    if (s.pred != kNoExpr) out_ += str(" if v", s.pred);
    if (s.shared) out_ += " shared";
    if (s.ordered) out_ += " ordered";
    out_ += "\n";
  }

  const Kernel& kernel_;
  std::string out_;
  PrintedKernel lines_;
  int line_ = 1;
  std::size_t counted_ = 0;  // characters whose line ends line_ includes
};

}  // namespace

std::string print(const Kernel& kernel) { return Printer(kernel).run().text; }

PrintedKernel print_with_lines(const Kernel& kernel) { return Printer(kernel).run(); }

}  // namespace gex::loop
