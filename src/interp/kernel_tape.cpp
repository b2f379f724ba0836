#include "interp/kernel_tape.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.hpp"
#include "loop/combines.hpp"
#include "loop/walk.hpp"

namespace gex::interp {
namespace {

using loop::Expr;
using loop::ExprId;
using loop::Kernel;
using loop::LoopPosition;
using loop::ScalarValue;
using loop::Stage;
using loop::Store;
using Op = Instruction::Op;

// The loop level of the code of a Dim or expression: -1 is the prologue of the call.
struct Level {
  int depth = -1;
  bool after = false;
};
Level join(Level a, Level b) { return {std::max(a.depth, b.depth), a.after || b.after}; }
Level level_of(LoopPosition p) { return {p.depth, p.after}; }

Op op_of(Dim::Kind kind) {
  switch (kind) {
    case Dim::Kind::add:
      return Op::add;
    case Dim::Kind::mul:
      return Op::mul;
    case Dim::Kind::floordiv:
      return Op::floordiv;
    case Dim::Kind::mod:
      return Op::mod;
    case Dim::Kind::min:
      return Op::min;
    default:
      GEX_CHECK(kind == Dim::Kind::max, "not an operation");
      return Op::max;
  }
}

class Flattener {
 public:
  Flattener(const Kernel& kernel, KernelTape& tape) : kernel_(kernel), tape_(tape) {}

  void run() {
    for (Dim s : kernel_.symbols()) tape_.symbols.push_back(sizes_[s] = new_register());
    for (const loop::Buffer& b : kernel_.buffers)
      if (b.role == loop::Buffer::Role::local)
        tape_.local_bytes.push_back(size_register(loop::local_bytes(b)));
    for (const loop::Range& r : kernel_.grid) {
      Loop l;
      l.extent = size_register(r.extent());
      l.index = registers_[r.index] = new_register();
      levels_[r.index] = {0, false};
      tape_.grid.push_back(std::move(l));
    }
    auto grid_registers = registers_;
    auto grid_levels = levels_;
    for (const Stage& s : kernel_.stages) {
      stage(s);
      registers_ = grid_registers;
      levels_ = grid_levels;
    }
  }

 private:
  int new_register(ScalarValue v = {.i = 0}) {
    tape_.image.push_back(v);
    return static_cast<int>(tape_.image.size()) - 1;
  }

  // --- Dims ---
  Level level(Dim d) {
    if (d.is_const()) return {};
    if (d.is_symbol()) {
      auto it = levels_.find(d);
      return it == levels_.end() ? Level{} : it->second;
    }
    Level result;
    for (Dim o : d.operands()) result = join(result, level(o));
    return result;
  }

  // A Dim of sizes only: computed once per call.
  int size_register(Dim d) {
    if (auto it = sizes_.find(d); it != sizes_.end()) return it->second;
    int reg;
    if (auto c = d.as_const()) {
      reg = new_register({.i = *c});
    } else {
      auto operands = d.operands();
      GEX_CHECK(operands.size() >= 2, "unbound symbol ", d);
      reg = size_register(operands[0]);
      for (Dim o : operands.subspan(1))
        reg = combine(op_of(d.kind()), reg, size_register(o), tape_.prologue);
    }
    return sizes_[d] = reg;
  }

  int combine(Op op, int a, int b, Code& code) {
    Instruction in;
    in.op = op;
    in.dst = new_register();
    in.a = a;
    in.b = b;
    code.push_back(in);
    return in.dst;
  }

  // `place` returns the code of a level; `known` what has been computed there already.
  template <class Place>
  int dim_register(Dim d, Place&& place, std::unordered_map<Dim, int>& known) {
    if (level(d).depth < 0) return size_register(d);
    if (auto it = registers_.find(d); it != registers_.end()) return it->second;
    if (auto it = known.find(d); it != known.end()) return it->second;
    auto operands = d.operands();
    GEX_CHECK(operands.size() >= 2, "unbound index ", d);
    int reg = dim_register(operands[0], place, known);
    Level at = level(operands[0]);
    for (Dim o : operands.subspan(1)) {
      at = join(at, level(o));
      reg = combine(op_of(d.kind()), reg, dim_register(o, place, known), place(at));
    }
    return known[d] = reg;
  }

  // --- one stage ---
  void stage(const Stage& st) {
    tape_.stages.emplace_back();
    StageTape& out = tape_.stages.back();
    int depth = 0;
    for (auto [loops, target] : {std::pair{&st.domain, &out.domain}, {&st.reduce, &out.reduce}})
      for (const loop::Range& r : *loops) {
        Loop l;
        std::unordered_map<Dim, int> known;
        auto place = [&](Level at) -> Code& { return at.depth < 0 ? tape_.prologue : l.setup; };
        l.extent = dim_register(r.extent(), place, known);
        l.index = registers_[r.index] = new_register();
        levels_[r.index] = {++depth, false};
        target->push_back(std::move(l));
      }
    placed_ = loop::loop_positions(st);
    bind_expressions(st, out);
    std::vector<Store> at_element, at_point;
    for (const Store& s : st.stores)
      (loop::runs_at_element(st, loop_position(st, placed_, s)) ? at_element : at_point)
          .push_back(s);
    if (st.reduction) {
      out.element =
          leaf(st, st.reduction->elements, at_element, st.domain.size() + st.reduce.size());
      combine_code(st, out);
    }
    out.point = leaf(st, {}, at_point, st.domain.size());
  }

  // Registers of all expressions of the stage; value symbols share their expressions' registers.
  void bind_expressions(const Stage& st, StageTape& out) {
    out.wide = st.reduction && !st.reduction->scan && loop::rounds(*st.reduction);
    if (st.reduction)
      for (const loop::Accumulator& a : st.reduction->accumulators) {
        StageTape::Slot slot{};
        slot.dtype = a.dtype;
        ScalarValue init = is_float(a.dtype)           ? ScalarValue{.f = a.init}
                           : a.dtype == DType::boolean ? ScalarValue{.i = a.init != 0}
                                                       : ScalarValue{.i = a.init_int};
        slot.init = new_register(init);
        slot.acc = new_register();
        slot.temporary = new_register();
        slot.rounded = out.wide ? new_register() : slot.acc;
        out.slots.push_back(slot);
      }
    exprs_.assign(st.exprs.size(), -1);
    for (std::size_t i = 0; i < st.exprs.size(); ++i) {
      const Expr& e = st.exprs[i];
      if (e.kind == Expr::Kind::constant)
        exprs_[i] = new_register(value_of(e));
      else if (e.kind == Expr::Kind::acc)
        exprs_[i] = accumulator_register(out.slots[static_cast<std::size_t>(e.slot)], e.dtype);
      else if (e.kind != Expr::Kind::index)
        exprs_[i] = new_register();
    }
    std::vector<Dim> symbols;
    for (const Expr& e : st.exprs) for_each_dim(e, [&](Dim d) { d.collect_symbols(symbols); });
    for (const Store& s : st.stores)
      for (Dim d : s.index) d.collect_symbols(symbols);
    for (Dim s : symbols)
      if (auto id = loop::value_symbol_id(s)) {
        auto at = static_cast<std::size_t>(*id);
        levels_[s] = level_of(placed_[at]);
        // An index expression has no register of its own: allocate one and copy into it.
        if (exprs_[at] < 0) exprs_[at] = new_register();
        registers_[s] = exprs_[at];
      }
  }

  // An accumulator read as f64 is the value before rounding.
  static int accumulator_register(const StageTape::Slot& slot, DType dtype) {
    return dtype == slot.dtype ? slot.rounded : slot.acc;
  }

  Leaf leaf(const Stage& st, std::span<const ExprId> values, std::span<const Store> stores,
            std::size_t depth) {
    Leaf out;
    out.levels.resize(depth + 1);
    std::vector<bool> wanted(st.exprs.size());
    auto want = [&](ExprId id) {
      if (id != loop::kNoExpr) wanted[static_cast<std::size_t>(id)] = true;
    };
    for (ExprId v : values) want(v);
    for (const Store& s : stores) {
      want(s.value);
      want(s.pred);
      std::vector<Dim> symbols;
      for (Dim d : s.index) d.collect_symbols(symbols);
      for (Dim d : symbols)
        if (auto id = loop::value_symbol_id(d)) want(*id);
    }
    for (std::size_t i = st.exprs.size(); i-- > 0;)
      if (wanted[i]) for_each_operand(st.exprs[i], want);

    std::unordered_map<Dim, int> known;
    auto place = [&](Level at) -> Code& {
      if (at.after) return out.after;
      return at.depth < 0 ? tape_.prologue : out.levels[static_cast<std::size_t>(at.depth)];
    };
    for (std::size_t i = 0; i < st.exprs.size(); ++i)
      if (wanted[i]) emit(st, i, place, known);
    for (const Store& s : stores) {
      StoreStep step;
      step.access = access(s.buffer, s.index, place, known);
      step.value = exprs_[static_cast<std::size_t>(s.value)];
      if (s.pred != loop::kNoExpr) step.pred = exprs_[static_cast<std::size_t>(s.pred)];
      step.combine = combine_function(s);
      step.shared = s.shared;
      out.stores.push_back(step);
    }
    return out;
  }

  loop::PrimFn combine_function(const Store& s) const {
    DType dtype = kernel_.buffers[static_cast<std::size_t>(s.buffer)].dtype;
    switch (s.mode) {
      case Store::Mode::set:
        return nullptr;
      case Store::Mode::add:
        return prim_function(loop::Prim::add, dtype);
      case Store::Mode::mul:
        return prim_function(loop::Prim::mul, dtype);
      case Store::Mode::max:
        return prim_function(loop::Prim::max, dtype);
      case Store::Mode::min:
        return prim_function(loop::Prim::min, dtype);
    }
    return nullptr;
  }

  template <class Place>
  int access(int buffer, std::span<const Dim> index, Place&& place,
             std::unordered_map<Dim, int>& known) {
    const loop::Buffer& b = kernel_.buffers[static_cast<std::size_t>(buffer)];
    Access a;
    a.buffer = buffer;
    a.dtype = b.dtype;
    auto strides = loop::strides_of(b);
    for (std::size_t d = 0; d < index.size(); ++d)
      a.axes.push_back({dim_register(index[d], place, known), size_register(strides[d]),
                        size_register(b.shape[d])});
    tape_.accesses.push_back(std::move(a));
    return static_cast<int>(tape_.accesses.size()) - 1;
  }

  template <class Place>
  void emit(const Stage& st, std::size_t i, Place&& place, std::unordered_map<Dim, int>& known) {
    const Expr& e = st.exprs[i];
    Instruction in;
    in.dtype = e.dtype;
    switch (e.kind) {
      case Expr::Kind::constant:
      case Expr::Kind::acc:
      case Expr::Kind::lhs:
      case Expr::Kind::rhs:
        return;
      case Expr::Kind::index: {
        int reg = dim_register(e.dim, place, known);
        if (exprs_[i] < 0 || exprs_[i] == reg) {
          exprs_[i] = reg;
          return;
        }
        in.op = Op::add;
        in.a = reg;
        in.b = size_register(Dim(0));
        break;
      }
      case Expr::Kind::load:
        in.op = Op::load;
        in.a = access(e.buffer, e.index, place, known);
        in.b = e.pred == loop::kNoExpr ? -1 : exprs_[static_cast<std::size_t>(e.pred)];
        if (e.fill != loop::kNoExpr) in.c = exprs_[static_cast<std::size_t>(e.fill)];
        break;
      default:
        fill_arithmetic(in, e, st.exprs, exprs_);
    }
    in.dst = exprs_[i];
    place(level_of(placed_[i])).push_back(in);
  }

  static void fill_arithmetic(Instruction& in, const Expr& e, const std::vector<Expr>& exprs,
                              const std::vector<int>& registers) {
    auto reg = [&](std::size_t k) { return registers[static_cast<std::size_t>(e.args[k])]; };
    DType operand = exprs[static_cast<std::size_t>(e.args.back())].dtype;
    in.a = reg(0);
    if (e.args.size() > 1) in.b = reg(1);
    if (e.args.size() > 2) in.c = reg(2);
    if (e.kind == Expr::Kind::cast) {
      in.op = Op::cast;
      in.from = operand;
    } else {
      in.op = Op::prim;
      in.fn = prim_function(e.prim, operand);
    }
  }

  void combine_code(const Stage& st, StageTape& out) {
    const loop::Combine c = out.wide ? loop::widened(st.reduction->combine) : st.reduction->combine;
    std::vector<int> registers;
    for (const Expr& e : c.exprs) {
      auto slot = static_cast<std::size_t>(e.slot);
      if (e.kind == Expr::Kind::constant) {
        registers.push_back(new_register(value_of(e)));
      } else if (e.kind == Expr::Kind::lhs) {
        registers.push_back(out.slots[slot].acc);
      } else if (e.kind == Expr::Kind::rhs) {
        registers.push_back(exprs_[static_cast<std::size_t>(st.reduction->elements[slot])]);
      } else {
        Instruction in;
        in.dtype = e.dtype;
        fill_arithmetic(in, e, c.exprs, registers);
        in.dst = new_register();
        registers.push_back(in.dst);
        out.combine.push_back(in);
      }
    }
    for (std::size_t i = 0; i < out.slots.size(); ++i)
      out.slots[i].result = registers[static_cast<std::size_t>(c.results[i])];
  }

  const Kernel& kernel_;
  KernelTape& tape_;
  std::unordered_map<Dim, int> sizes_;      // of the whole call
  std::unordered_map<Dim, int> registers_;  // loop indices and value symbols in scope
  std::unordered_map<Dim, Level> levels_;   // of the same
  std::vector<LoopPosition> placed_;
  std::vector<int> exprs_;
};

}  // namespace

KernelTape::KernelTape(const loop::Kernel& source) : kernel(source) {
  Flattener(kernel, *this).run();
}

}  // namespace gex::interp
