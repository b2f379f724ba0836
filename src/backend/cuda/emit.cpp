#include "backend/cuda/emit.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>
#include <unordered_map>

#include "backend/cuda/scalar_text.hpp"
#include "base/error.hpp"
#include "loop/walk.hpp"

namespace gex::codegen::cuda {

using loop::Expr;
using loop::ExprId;
using loop::Kernel;
using loop::Range;
using loop::Stage;
using loop::Store;

namespace {

constexpr int kElementBlock = 256;       // threads of a block that runs a point in each thread
constexpr int kPointBlock = 256;         // threads of a block that works on one point
constexpr std::int64_t kShortLoop = 64;  // inner loops up to this stay in one thread

std::size_t at(int i) { return static_cast<std::size_t>(i); }

enum class Mode { thread_per_point, block_per_point, one_thread };

bool atomic_add_exists(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64;
}

Mode mode_of(const Kernel& kernel) {
  Dim inner = 1;
  bool locals = false, ordered_domain = false;
  for (const loop::Buffer& buffer : kernel.buffers)
    locals = locals || buffer.role == loop::Buffer::Role::local;
  for (const Stage& stage : kernel.stages) {
    Dim points = 1;
    for (const auto* ranges : {&stage.domain, &stage.reduce})
      for (const Range& range : *ranges) points *= range.extent();
    inner = max(inner, points);
    for (const Store& store : stage.stores) {
      const DType dtype = kernel.buffers[at(store.buffer)].dtype;
      const bool needs_order =
          store.shared &&
          (store.ordered || (store.mode != Store::Mode::set &&
                             (store.mode != Store::Mode::add || !atomic_add_exists(dtype))));
      if (needs_order) return Mode::one_thread;
      ordered_domain = ordered_domain || store.ordered;
    }
  }
  if (locals) return Mode::block_per_point;
  // Points that must walk their domain in order leave nothing to spread over a block.
  if (ordered_domain || inner.range().hi <= kShortLoop) return Mode::thread_per_point;
  return Mode::block_per_point;
}

class Emitter {
 public:
  explicit Emitter(const Kernel& kernel) : kernel_(kernel), mode_(mode_of(kernel)) {}

  CudaKernel emit() {
    CudaKernel out;
    out.name = "gex_" + identifier(kernel_.name);
    out.block = mode_ == Mode::one_thread        ? 1
                : mode_ == Mode::block_per_point ? kPointBlock
                                                 : kElementBlock;
    out.grid = mode_ == Mode::one_thread        ? Dim(1)
               : mode_ == Mode::block_per_point ? kernel_.grid_size()
                                                : ceildiv(kernel_.grid_size(), kElementBlock);
    out.shared_bytes = kernel_.scratch_bytes();
    for (const Stage& stage : kernel_.stages) reduction_storage(stage);
    body();
    std::ostringstream text;
    text << prelude() << "\nextern \"C\" __global__ void __launch_bounds__(" << out.block << ") "
         << out.name << "(const i64* words) {\n"
         << shared_.str() << text_.str() << "}\n";
    out.source = text.str();
    return out;
  }

 private:
  static std::string identifier(const std::string& name) {
    std::string out;
    for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    return out;
  }

  void line(const std::string& text) { text_ << std::string(at(depth_) * 2, ' ') << text << "\n"; }
  void open(const std::string& text) {
    line(text + " {");
    ++depth_;
  }
  void close() {
    --depth_;
    line("}");
  }

  // ---- sizes and indices ----

  std::string name(Dim symbol) {
    if (const auto id = loop::value_symbol_id(symbol)) return "e" + std::to_string(*id);
    const auto found = names_.find(symbol);
    GEX_CHECK(found != names_.end(), "no C name for ", symbol);
    return found->second;
  }

  std::string dim(Dim d) {
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

  std::string joined(Dim d, const char* separator) {
    std::string out = "(";
    for (std::size_t i = 0; i < d.operands().size(); ++i)
      out += (i == 0 ? "" : separator) + dim(d.operands()[i]);
    return out + ")";
  }

  std::string index_name(const Range& range) {
    const std::string made = "i" + std::to_string(next_index_++);
    names_[range.index] = made;
    return made;
  }

  // Several ranges as one counter `flat`: their indices, innermost fastest.
  void split(const std::vector<Range>& ranges, const std::string& flat) {
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

  static bool independent(const std::vector<Range>& ranges) {
    for (const Range& range : ranges)
      for (const Range& other : ranges)
        if (range.extent().depends_on(other.index)) return false;
    return true;
  }

  // Runs `inner` for all points of the ranges: the first loop from `start` by `step`, so that the
  // threads of a block share them. Ranges that don't depend on each other are one loop.
  void loops(const std::vector<Range>& ranges, const std::string& start, const std::string& step,
             const std::function<void()>& inner) {
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

  // ---- expressions ----

  std::string element(int buffer, const std::vector<Dim>& index) {
    const loop::Buffer& b = kernel_.buffers[at(buffer)];
    return "b" + std::to_string(buffer) + "[" + dim(loop::linear_offset(b, index)) + "]";
  }

  // Everything `roots` need, in order, each as a constant of the present C scope.
  void expressions(const Stage& stage, const std::set<ExprId>& roots) {
    std::set<ExprId> needed = roots;
    for (ExprId id = static_cast<ExprId>(stage.exprs.size()) - 1; id >= 0; --id) {
      if (!needed.contains(id)) continue;
      loop::for_each_operand(stage.exprs[at(id)], [&](ExprId operand) { needed.insert(operand); });
    }
    for (ExprId id : needed) {
      const Expr& e = stage.exprs[at(id)];
      line(
          "const " + register_type(e.dtype) + " e" + std::to_string(id) + " = " +
          expression(e, [&](ExprId operand) { return stage.exprs[at(operand)].dtype; }, "e") + ";");
    }
  }

  std::string expression(const Expr& e, const std::function<DType(ExprId)>& dtype_of,
                         const std::string& prefix) {
    const auto operand = [&](ExprId id) { return prefix + std::to_string(id); };
    switch (e.kind) {
      case Expr::Kind::constant:
        return constant_text(e.dtype, e.imm, e.imm_int);
      case Expr::Kind::index:
        return dim(e.dim);
      case Expr::Kind::load: {
        const std::string value = from_memory(e.dtype, element(e.buffer, e.index));
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

  void add_roots(const Store& store, std::set<ExprId>& roots) {
    roots.insert(store.value);
    if (store.pred != loop::kNoExpr) roots.insert(store.pred);
    std::vector<Dim> symbols;
    for (Dim d : store.index) d.collect_symbols(symbols);
    for (Dim symbol : symbols)
      if (const auto id = loop::value_symbol_id(symbol)) roots.insert(*id);
  }

  void store(const Store& s) {
    const loop::Buffer& b = kernel_.buffers[at(s.buffer)];
    const std::string value = "e" + std::to_string(s.value), target = element(s.buffer, s.index);
    std::string text;
    if (s.mode == Store::Mode::set) {
      text = target + " = " + to_memory(b.dtype, value) + ";";
    } else if (s.shared && mode_ != Mode::one_thread) {
      const std::string type = b.dtype == DType::i64 ? "u64" : register_type(b.dtype);
      text = "atomicAdd((" + type + "*)&" + target + ", (" + type + ")" + value + ");";
    } else {
      const loop::Prim prim = s.mode == Store::Mode::add   ? loop::Prim::add
                              : s.mode == Store::Mode::mul ? loop::Prim::mul
                              : s.mode == Store::Mode::max ? loop::Prim::max
                                                           : loop::Prim::min;
      const std::string args[] = {from_memory(b.dtype, target), value};
      text = target + " = " + to_memory(b.dtype, prim_text(prim, b.dtype, b.dtype, args)) + ";";
    }
    line(s.pred == loop::kNoExpr ? text : "if (e" + std::to_string(s.pred) + ") " + text);
  }

  // Stores of one place of the stage, with what they need.
  void stores(const Stage& stage, bool at_element, const std::set<ExprId>& more_roots = {}) {
    const auto places = loop::placements(stage);
    std::set<ExprId> roots = more_roots;
    std::vector<const Store*> here;
    for (const Store& s : stage.stores) {
      const bool inner =
          !stage.reduce.empty() && loop::runs_at_element(stage, loop::placement(stage, places, s));
      if (inner != at_element) continue;
      here.push_back(&s);
      add_roots(s, roots);
    }
    expressions(stage, roots);
    for (const Store* s : here) store(*s);
  }

  // ---- reductions ----

  void reduction_storage(const Stage& stage) {
    const int number = static_cast<int>(&stage - kernel_.stages.data());
    if (mode_ != Mode::block_per_point || !joins_threads(stage)) return;
    for (std::size_t k = 0; k < stage.reduction->accumulators.size(); ++k)
      shared_ << "  __shared__ " << register_type(stage.reduction->accumulators[k].dtype) << " join"
              << number << "_" << k << "[" << kPointBlock << "];\n";
  }

  static bool joins_threads(const Stage& stage) {
    return stage.reduction && !stage.reduction->scan && stage.domain.empty();
  }

  void declare_accumulators(const Stage& stage) {
    for (std::size_t k = 0; k < stage.reduction->accumulators.size(); ++k) {
      const loop::Accumulator& a = stage.reduction->accumulators[k];
      line(register_type(a.dtype) + " acc" + std::to_string(k) + " = " +
           constant_text(a.dtype, a.init, a.init_int) + ";");
    }
  }

  // acc = combine(acc, right), where right k is called right(k).
  void combine(const Stage& stage, const std::function<std::string(std::size_t)>& right) {
    const loop::Reduction& reduction = *stage.reduction;
    open("");
    for (std::size_t k = 0; k < reduction.accumulators.size(); ++k) {
      const std::string type = register_type(reduction.accumulators[k].dtype);
      line("const " + type + " l" + std::to_string(k) + " = acc" + std::to_string(k) + ", r" +
           std::to_string(k) + " = " + right(k) + ";");
    }
    const auto dtype_of = [&](ExprId id) { return reduction.combine.exprs[at(id)].dtype; };
    for (std::size_t i = 0; i < reduction.combine.exprs.size(); ++i) {
      const Expr& e = reduction.combine.exprs[i];
      line("const " + register_type(e.dtype) + " c" + std::to_string(i) + " = " +
           expression(e, dtype_of, "c") + ";");
    }
    for (std::size_t k = 0; k < reduction.combine.results.size(); ++k)
      line("acc" + std::to_string(k) + " = c" + std::to_string(reduction.combine.results[k]) + ";");
    close();
  }

  void fold(const Stage& stage, const std::string& start, const std::string& step) {
    const std::vector<ExprId>& elements = stage.reduction->elements;
    loops(stage.reduce, start, step, [&] {
      const std::set<ExprId> roots(elements.begin(), elements.end());
      if (!stage.reduction->scan) {
        stores(stage, true, roots);
        combine(stage, [&](std::size_t k) { return "e" + std::to_string(elements[k]); });
        return;
      }
      // In a scan, stores at an element see the accumulators after it.
      expressions(stage, roots);
      combine(stage, [&](std::size_t k) { return "e" + std::to_string(elements[k]); });
      open("");
      stores(stage, true);
      close();
    });
  }

  // One domain point, or the stage if it has no domain, on the present thread.
  void point(const Stage& stage) {
    if (!stage.reduction) {
      stores(stage, false);
      return;
    }
    declare_accumulators(stage);
    fold(stage, "0", "1");
    stores(stage, false);
  }

  // The threads of the block fold shares of the elements and join them in a tree.
  void joined_reduction(const Stage& stage) {
    const std::string prefix = "join" + std::to_string(&stage - kernel_.stages.data()) + "_";
    open("");
    declare_accumulators(stage);
    fold(stage, "threadIdx.x", "blockDim.x");
    const std::size_t count = stage.reduction->accumulators.size();
    const auto save = [&] {
      for (std::size_t k = 0; k < count; ++k)
        line(prefix + std::to_string(k) + "[threadIdx.x] = acc" + std::to_string(k) + ";");
    };
    save();
    line("__syncthreads();");
    open("for (u32 half = blockDim.x / 2; half > 0; half /= 2)");
    open("if (threadIdx.x < half)");
    combine(stage,
            [&](std::size_t k) { return prefix + std::to_string(k) + "[threadIdx.x + half]"; });
    save();
    close();
    line("__syncthreads();");
    close();
    open("if (threadIdx.x == 0)");
    stores(stage, false);
    close();
    close();
  }

  // ---- kernel ----

  void body() {
    depth_ = 1;
    const int params = kernel_.num_params();
    for (int b = 0; b < params; ++b) {
      const loop::Buffer& buffer = kernel_.buffers[at(b)];
      const std::string type =
          (buffer.role == loop::Buffer::Role::in ? "const " : "") + memory_type(buffer.dtype);
      line(type + "* const b" + std::to_string(b) + " = (" + type + "*)words[" + std::to_string(b) +
           "];");
    }
    const std::vector<Dim> symbols = kernel_.symbols();
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      names_[symbols[i]] = "s" + std::to_string(i);
      line("const i64 s" + std::to_string(i) + " = words[" + std::to_string(at(params) + i) + "];");
    }
    locals(params);
    line("const i64 points = " + dim(kernel_.grid_size()) + ";");
    if (mode_ == Mode::block_per_point) {
      open("for (i64 point = blockIdx.x; point < points; point += gridDim.x)");
    } else {
      open(
          "for (i64 point = blockIdx.x * (i64)blockDim.x + threadIdx.x; point < points; "
          "point += gridDim.x * (i64)blockDim.x)");
    }
    if (!kernel_.grid.empty()) split(kernel_.grid, "point");
    for (const Stage& stage : kernel_.stages) emit_stage(stage);
    close();
  }

  void locals(int params) {
    Dim offset = 0;
    for (std::size_t b = at(params); b < kernel_.buffers.size(); ++b) {
      const loop::Buffer& buffer = kernel_.buffers[b];
      if (b == at(params)) shared_ << "  GEX_DECLARE_LOCALS\n";
      line(memory_type(buffer.dtype) + "* const b" + std::to_string(b) + " = (" +
           memory_type(buffer.dtype) + "*)(gex_locals + " + dim(offset) + ");");
      offset += loop::local_bytes(buffer);
    }
  }

  void emit_stage(const Stage& stage) {
    if (mode_ != Mode::block_per_point) {
      loops(stage.domain, "0", "1", [&] { point(stage); });
      return;
    }
    const bool in_order = (stage.reduction && stage.reduction->scan && stage.domain.empty()) ||
                          std::any_of(stage.stores.begin(), stage.stores.end(),
                                      [](const Store& s) { return s.ordered; });
    if (in_order || (stage.domain.empty() && !stage.reduction)) {
      open("if (threadIdx.x == 0)");
      loops(stage.domain, "0", "1", [&] { point(stage); });
      close();
    } else if (joins_threads(stage)) {
      joined_reduction(stage);
    } else {
      loops(stage.domain, "threadIdx.x", "blockDim.x", [&] { point(stage); });
    }
    line("__syncthreads();");
  }

  const Kernel& kernel_;
  const Mode mode_;
  std::ostringstream text_, shared_;
  std::unordered_map<Dim, std::string> names_;
  int depth_ = 0, next_index_ = 0, next_loop_ = 0;
};

}  // namespace

CudaKernel emit(const Kernel& kernel) { return Emitter(kernel).emit(); }

}  // namespace gex::codegen::cuda
