#include "backend/cuda/body_writer.hpp"

#include "backend/cuda/scalar_text.hpp"
#include "base/error.hpp"
#include "loop/walk.hpp"

namespace gex::backend::cuda {

using loop::Expr;
using loop::ExprId;
using loop::Range;
using loop::Stage;
using loop::Store;

std::string identifier(const std::string& name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return out;
}

void BodyWriter::line(const std::string& text) {
  text_ << std::string(at(depth_) * 2, ' ') << text << "\n";
}
void BodyWriter::open(const std::string& text) {
  line(text + " {");
  ++depth_;
}
void BodyWriter::close() {
  --depth_;
  line("}");
}

std::string BodyWriter::name(Dim symbol) {
  if (const auto id = loop::value_symbol_id(symbol)) return "e" + std::to_string(*id);
  const auto found = names_.find(symbol);
  GEX_CHECK(found != names_.end(), "no C name for ", symbol);
  return found->second;
}

std::string BodyWriter::dim(Dim d) {
  switch (d.kind()) {
    case Dim::Kind::constant:
      return std::to_string(d.constant()) + "ll";
    case Dim::Kind::symbol:
      return name(d);
    case Dim::Kind::add:
      return joined(d, " + ");
    case Dim::Kind::mul:
      return joined(d, " * ");
    case Dim::Kind::floordiv:
    case Dim::Kind::mod: {
      const Dim a = d.operands()[0], b = d.operands()[1];
      const bool quotient = d.kind() == Dim::Kind::floordiv;
      if (provably_nonnegative(a) && provably_nonnegative(b))
        return "(" + dim(a) + (quotient ? " / " : " % ") + dim(b) + ")";
      return (quotient ? "floor_div(" : "floor_mod(") + dim(a) + ", " + dim(b) + ")";
    }
    case Dim::Kind::min:
      return "int_min(" + dim(d.operands()[0]) + ", " + dim(d.operands()[1]) + ")";
    case Dim::Kind::max:
      return "int_max(" + dim(d.operands()[0]) + ", " + dim(d.operands()[1]) + ")";
  }
  return "?";
}

std::string BodyWriter::joined(Dim d, const char* separator) {
  std::string out = "(";
  for (std::size_t i = 0; i < d.operands().size(); ++i)
    out += (i == 0 ? "" : separator) + dim(d.operands()[i]);
  return out + ")";
}

std::string BodyWriter::index_name(const Range& range) {
  const std::string made = "i" + std::to_string(next_index_++);
  names_[range.index] = made;
  return made;
}

void BodyWriter::split(const std::vector<Range>& ranges, const std::string& flat) {
  std::vector<std::string> indices;
  for (const Range& range : ranges) indices.push_back(index_name(range));
  line("i64 rest = " + flat + ";");
  for (std::size_t i = ranges.size(); i-- > 0;) {
    if (i == 0) {
      line("const i64 " + indices[i] + " = rest;");
      continue;
    }
    const std::string extent = dim(ranges[i].extent());
    line("const i64 " + indices[i] + " = rest % " + extent + ";");
    line("rest /= " + extent + ";");
  }
}

bool BodyWriter::independent(const std::vector<Range>& ranges) {
  for (const Range& range : ranges)
    for (const Range& other : ranges)
      if (range.extent().depends_on(other.index)) return false;
  return true;
}

void BodyWriter::loops(const std::vector<Range>& ranges, const std::string& start,
                       const std::string& step, const std::function<void()>& inner) {
  const std::string id = std::to_string(next_loop_++);
  if (ranges.empty()) {
    open("");
    inner();
    close();
    return;
  }
  if (independent(ranges)) {
    Dim points = 1;
    for (const Range& range : ranges) points *= range.extent();
    if (small_code_) line("#pragma unroll 1");
    open("for (i64 q" + id + " = " + start + ", n" + id + " = " + dim(points) + "; q" + id +
         " < n" + id + "; q" + id + " += " + step + ")");
    split(ranges, "q" + id);
    inner();
    close();
    return;
  }
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::string extent = dim(ranges[i].extent());
    const std::string index = index_name(ranges[i]);
    open("for (i64 " + index + " = " + (i == 0 ? start : "0") + "; " + index + " < " + extent +
         "; " + index + " += " + (i == 0 ? step : "1") + ")");
  }
  inner();
  for (std::size_t i = 0; i < ranges.size(); ++i) close();
}

std::string BodyWriter::pointer_type(int buffer) const {
  const loop::Buffer& b = kernel_.buffers[at(buffer)];
  const std::string type = memory_type(b.dtype);
  if (b.role == loop::Buffer::Role::in) return "const " + type + "*";
  return is_exchanged(buffer) ? "Exchanged<" + type + ">" : type + "*";
}

std::string BodyWriter::pointer(int buffer, const std::string& word) const {
  const loop::Buffer& b = kernel_.buffers[at(buffer)];
  if (b.role != loop::Buffer::Role::in && is_exchanged(buffer))
    return "exchanged_at<" + memory_type(b.dtype) + ">(" + word + ")";
  return "(" + pointer_type(buffer) + ")" + word;
}

std::vector<bool> exchangeable_params(const loop::Kernel& kernel) {
  std::vector<bool> result;
  for (int b = 0; b < kernel.num_params(); ++b) {
    const loop::Buffer& buffer = kernel.buffers[at(b)];
    bool exchangeable = size_of(buffer.dtype) >= 2 && buffer.role != loop::Buffer::Role::inout;
    int stores = 0;
    for (const Stage& stage : kernel.stages) {
      const auto places = loop::loop_positions(stage);
      for (const Store& s : stage.stores) {
        if (s.buffer != b) continue;
        ++stores;
        exchangeable = exchangeable && s.mode == Store::Mode::set && s.pred == loop::kNoExpr &&
                       !s.shared && !s.ordered &&
                       (stage.reduce.empty() ||
                        !loop::runs_at_element(stage, loop::loop_position(stage, places, s)));
      }
      if (buffer.role == loop::Buffer::Role::out)
        for (const Expr& e : stage.exprs)
          exchangeable = exchangeable && !(e.kind == Expr::Kind::load && e.buffer == b);
    }
    result.push_back(exchangeable && stores == (buffer.role == loop::Buffer::Role::out ? 1 : 0));
  }
  return result;
}

std::string BodyWriter::element(int buffer, const std::vector<Dim>& index) {
  const loop::Buffer& b = kernel_.buffers[at(buffer)];
  return "b" + std::to_string(buffer) + "[" + dim(loop::linear_offset(b, index)) + "]";
}

std::string BodyWriter::loaded(const Expr& load) {
  return from_memory(load.dtype, element(load.buffer, load.index));
}

void BodyWriter::expressions(const Stage& stage, const std::set<ExprId>& roots) {
  std::set<ExprId> needed = roots;
  for (ExprId id = static_cast<ExprId>(stage.exprs.size()) - 1; id >= 0; --id) {
    if (!needed.contains(id)) continue;
    loop::for_each_operand(stage.exprs[at(id)], [&](ExprId operand) { needed.insert(operand); });
  }
  for (ExprId id : needed) {
    const Expr& e = stage.exprs[at(id)];
    line("const " + register_type(e.dtype) + " e" + std::to_string(id) + " = " +
         expression(e, [&](ExprId operand) { return stage.exprs[at(operand)].dtype; }, "e") + ";");
  }
}

std::string BodyWriter::expression(const Expr& e, const std::function<DType(ExprId)>& dtype_of,
                                   const std::string& prefix) {
  const auto operand = [&](ExprId id) { return prefix + std::to_string(id); };
  switch (e.kind) {
    case Expr::Kind::constant:
      return constant_text(e.dtype, e.imm, e.imm_int);
    case Expr::Kind::index:
      return dim(e.dim);
    case Expr::Kind::load: {
      const std::string value = loaded(e);
      if (e.pred == loop::kNoExpr) return value;
      return operand(e.pred) + " ? " + value + " : " + operand(e.fill);
    }
    case Expr::Kind::prim: {
      std::vector<std::string> args;
      for (ExprId arg : e.args) args.push_back(operand(arg));
      const DType type = dtype_of(e.args.size() == 3 ? e.args[1] : e.args[0]);
      return prim_text(e.prim, type, e.dtype, args);
    }
    case Expr::Kind::cast:
      return cast_text(dtype_of(e.args[0]), e.dtype, operand(e.args[0]));
    case Expr::Kind::acc:
      return "acc" + std::to_string(e.slot);
    case Expr::Kind::lhs:
      return "l" + std::to_string(e.slot);
    case Expr::Kind::rhs:
      return "r" + std::to_string(e.slot);
  }
  return "?";
}

void BodyWriter::add_roots(const Store& store, std::set<ExprId>& roots) {
  roots.insert(store.value);
  if (store.pred != loop::kNoExpr) roots.insert(store.pred);
  std::vector<Dim> symbols;
  for (Dim d : store.index) d.collect_symbols(symbols);
  for (Dim symbol : symbols)
    if (const auto id = loop::value_symbol_id(symbol)) roots.insert(*id);
}

void BodyWriter::update(const Store& s, const std::string& target, const std::string& value) {
  const DType dtype = kernel_.buffers[at(s.buffer)].dtype;
  if (s.mode == Store::Mode::set) {
    line(target + " = " + to_memory(dtype, value) + ";");
    return;
  }
  if (atomic(s)) {
    const std::string type = dtype == DType::i64 ? "u64" : register_type(dtype);
    line("atomicAdd((" + type + "*)&" + target + ", (" + type + ")" + value + ");");
    return;
  }
  const loop::Prim prim = s.mode == Store::Mode::add   ? loop::Prim::add
                          : s.mode == Store::Mode::mul ? loop::Prim::mul
                          : s.mode == Store::Mode::max ? loop::Prim::max
                                                       : loop::Prim::min;
  const std::string args[] = {from_memory(dtype, target), value};
  line(target + " = " + to_memory(dtype, prim_text(prim, dtype, dtype, args)) + ";");
}

void BodyWriter::store(const Store& s) {
  if (s.pred != loop::kNoExpr) open("if (e" + std::to_string(s.pred) + ")");
  update(s, element(s.buffer, s.index), "e" + std::to_string(s.value));
  if (s.pred != loop::kNoExpr) close();
}

void BodyWriter::stores(const Stage& stage, bool at_element, const std::set<ExprId>& more_roots) {
  const auto places = loop::loop_positions(stage);
  std::set<ExprId> roots = more_roots;
  std::vector<const Store*> here;
  for (const Store& s : stage.stores) {
    const bool inner = !stage.reduce.empty() &&
                       loop::runs_at_element(stage, loop::loop_position(stage, places, s));
    if (inner != at_element) continue;
    here.push_back(&s);
    add_roots(s, roots);
  }
  expressions(stage, roots);
  for (const Store* s : here) store(*s);
}

void BodyWriter::declare_accumulators(const Stage& stage, const std::string& prefix) {
  for (std::size_t k = 0; k < stage.reduction->accumulators.size(); ++k) {
    const loop::Accumulator& a = stage.reduction->accumulators[k];
    line(register_type(a.dtype) + " " + prefix + std::to_string(k) + " = " +
         constant_text(a.dtype, a.init, a.init_int) + ";");
  }
}

void BodyWriter::combine(const Stage& stage, const Part& left, const Part& right,
                         const Part& result) {
  const loop::Reduction& reduction = *stage.reduction;
  open("");
  for (std::size_t k = 0; k < reduction.accumulators.size(); ++k) {
    const std::string type = register_type(reduction.accumulators[k].dtype);
    line("const " + type + " l" + std::to_string(k) + " = " + left(k) + ", r" + std::to_string(k) +
         " = " + right(k) + ";");
  }
  const auto dtype_of = [&](ExprId id) { return reduction.combine.exprs[at(id)].dtype; };
  for (std::size_t i = 0; i < reduction.combine.exprs.size(); ++i) {
    const Expr& e = reduction.combine.exprs[i];
    line("const " + register_type(e.dtype) + " c" + std::to_string(i) + " = " +
         expression(e, dtype_of, "c") + ";");
  }
  for (std::size_t k = 0; k < reduction.combine.results.size(); ++k)
    line(result(k) + " = c" + std::to_string(reduction.combine.results[k]) + ";");
  close();
}

void BodyWriter::combine(const Stage& stage, const Part& right) {
  const Part acc = [](std::size_t k) { return "acc" + std::to_string(k); };
  combine(stage, acc, right, acc);
}

void BodyWriter::fold(const Stage& stage, const std::string& start, const std::string& step) {
  const std::vector<ExprId>& elements = stage.reduction->elements;
  loops(stage.reduce, start, step, [&] {
    const std::set<ExprId> roots(elements.begin(), elements.end());
    if (!stage.reduction->scan) {
      stores(stage, true, roots);
      combine(stage, [&](std::size_t k) { return "e" + std::to_string(elements[k]); });
      return;
    }
    // In a scan, the stores of an element read the accumulators that include it.
    expressions(stage, roots);
    combine(stage, [&](std::size_t k) { return "e" + std::to_string(elements[k]); });
    open("");
    stores(stage, true);
    close();
  });
}

void BodyWriter::point(const Stage& stage) {
  if (!stage.reduction) {
    stores(stage, false);
    return;
  }
  declare_accumulators(stage);
  fold(stage, "0", "1");
  stores(stage, false);
}

}  // namespace gex::backend::cuda
