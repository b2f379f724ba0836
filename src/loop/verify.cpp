// The rules of the loop IR. Every message names the kernel and the stage.

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <unordered_set>

#include "base/error.hpp"
#include "loop/scalar.hpp"
#include "loop/walk.hpp"

namespace gex::loop {
namespace {

bool is_identifier(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || name[0] == '.')
    return false;
  for (char c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') return false;
  return true;
}

// "softmax", or what fused ops are called together: "add+gelu+...".
bool is_label(std::string_view name) {
  std::string joined(name);
  std::ranges::replace(joined, '+', '_');
  return is_identifier(joined);
}

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel), sizes_(kernel.symbols()) {}

  void run() {
    where_ = str("kernel '", kernel_.name, "'");
    require(is_label(kernel_.name), "the kernel's name must be identifiers with + between them");
    std::unordered_map<std::string, Dim> names;
    for (Dim s : sizes_)
      require(names.emplace(s.name(), s).second, "symbol ", s.name(), " appears with two ranges");
    buffers();
    for (const Range& r : kernel_.grid) {
      loop(r);
      for (Dim s : symbols_of(r.extent()))
        require(is_size(s), "grid extent ", r.extent(), " may depend only on sizes");
      scope_.push_back(r.index);
    }
    std::size_t grid_depth = scope_.size();
    for (std::size_t i = 0; i < kernel_.stages.size(); ++i) {
      const Stage& st = kernel_.stages[i];
      where_ = str("kernel '", kernel_.name, "', stage ", i,
                   st.name.empty() ? "" : str(" '", st.name, "'"));
      stage(st);
      scope_.resize(grid_depth);
    }
  }

 private:
  template <class... Args>
  void require(bool ok, const Args&... message) const {
    if (!ok) fail(ErrorCode::invalid_graph, where_, ": ", message...);
  }

  static std::vector<Dim> symbols_of(Dim d) {
    std::vector<Dim> symbols;
    d.collect_symbols(symbols);
    return symbols;
  }
  static bool is_size(Dim symbol) { return !symbol.extent() && !value_symbol_id(symbol); }

  void buffers() const {
    std::unordered_set<std::string> names;
    bool locals = false;
    for (const Buffer& b : kernel_.buffers) {
      require(is_identifier(b.name), "buffer name '", b.name, "' must be an identifier");
      require(names.insert(b.name).second, "two buffers are named '", b.name, "'");
      bool local = b.role == Buffer::Role::local;
      require(local || !locals, "parameter '", b.name, "' is declared after a local");
      locals |= local;
      require(b.strides.empty() || b.strides.size() == b.shape.size(), "buffer '", b.name, "' has ",
              b.strides.size(), " strides for rank ", b.shape.size());
      require(!local || b.strides.empty(), "local '", b.name, "' must be dense");
      for (const auto* dims : {&b.shape, &b.strides})
        for (Dim d : *dims)
          for (Dim s : symbols_of(d))
            require(is_size(s), "buffer '", b.name, "' may depend only on sizes, got ", d);
    }
  }

  void loop(const Range& r) const {
    require(r.index.is_symbol() && r.index.extent().has_value(), "loop index ", r.index,
            " must be made by Dim::index");
    require(is_identifier(r.name()) && !value_name_id(r.name()), "loop index '", r.name(),
            "' must be an identifier other than v<number>");
    for (Dim s : scope_)
      require(s.name() != r.name(), "two loops around one point are named '", r.name(), "'");
    for (Dim s : sizes_)
      require(s.name() != r.name(), "'", r.name(), "' names both a loop index and a symbol");
  }

  void stage(const Stage& st) {
    require(st.name.empty() || is_identifier(st.name), "the stage's name must be an identifier");
    require(st.reduce.empty() == !st.reduction,
            "a stage needs both reduce loops and a reduction, or neither");
    for (const auto* loops : {&st.domain, &st.reduce})
      for (const Range& r : *loops) {
        loop(r);
        check_dim(r.extent(), 0);
        scope_.push_back(r.index);
      }
    exprs_ = &st.exprs;
    promised_.clear();
    int slots = st.reduction ? static_cast<int>(st.reduction->accumulators.size()) : 0;
    for (std::size_t i = 0; i < st.exprs.size(); ++i) {
      const Expr& e = st.exprs[i];
      require(e.kind != Expr::Kind::lhs && e.kind != Expr::Kind::rhs, "v", i,
              ": lhs and rhs are only allowed in a combine body");
      if (e.kind == Expr::Kind::acc) {
        require(e.slot >= 0 && e.slot < slots, "v", i, ": accumulator ", e.slot, " of ", slots);
        DType held = st.reduction->accumulators[static_cast<std::size_t>(e.slot)].dtype;
        // A sum is f64 until it is rounded to the dtype of its accumulator.
        bool unrounded = e.dtype == DType::f64 && is_float(held) && !st.reduction->scan;
        require(e.dtype == held || unrounded, "v", i, ": dtype differs from the accumulator's");
      }
      expression(static_cast<ExprId>(i), e);
    }
    if (st.reduction) reduction(*st.reduction);
    for (const Store& s : st.stores) store(s);
    order(st);
  }

  DType dtype_of(ExprId id) const { return (*exprs_)[static_cast<std::size_t>(id)].dtype; }

  void operand(ExprId user, ExprId id) const {
    require(id >= 0 && id < user, "v", user, " reads v", id, ", which is not defined before it");
  }

  // `limit`: value symbols must be below it.
  void check_dim(Dim d, ExprId limit) {
    for (Dim s : symbols_of(d)) {
      if (auto id = value_symbol_id(s)) {
        require(*id < limit, "index ", d, " reads v", *id, ", which is not defined before it");
        require(dtype_of(*id) == DType::i64, "v", *id, " is an index and must be i64, got ",
                dtype_of(*id));
        require(promised_.try_emplace(*id, s).first->second == s, "v", *id,
                " is used as an index with two ranges");
      } else if (s.extent()) {
        require(std::find(scope_.begin(), scope_.end(), s) != scope_.end(), "index ", d,
                " reads loop index ", s.name(), ", which is not in scope");
      }
    }
  }

  void access(int buffer, const std::vector<Dim>& index, ExprId limit, DType dtype) {
    require(buffer >= 0 && buffer < static_cast<int>(kernel_.buffers.size()), "buffer number ",
            buffer);
    const Buffer& b = kernel_.buffers[static_cast<std::size_t>(buffer)];
    require(index.size() == b.shape.size(), "'", b.name, "' has rank ", b.shape.size(),
            ", index has ", index.size());
    require(b.dtype == dtype, "'", b.name, "' holds ", b.dtype, ", got ", dtype);
    for (Dim d : index) check_dim(d, limit);
  }

  void expression(ExprId id, const Expr& e) {
    for (ExprId a : e.args) operand(id, a);
    switch (e.kind) {
      case Expr::Kind::constant:
        require(constant_expr(e.dtype, value_of(e)) == e, "v", id, ": constant is not a ", e.dtype);
        break;
      case Expr::Kind::index:
        require(e.dtype == DType::i64, "v", id, ": index expressions are i64");
        check_dim(e.dim, id);
        break;
      case Expr::Kind::load:
        access(e.buffer, e.index, id, e.dtype);
        require((e.pred == kNoExpr) == (e.fill == kNoExpr), "v", id,
                ": a load needs both predicate and fill, or neither");
        if (e.pred != kNoExpr) {
          operand(id, e.pred);
          operand(id, e.fill);
          require(dtype_of(e.pred) == DType::boolean, "v", id, ": predicate must be bool");
          require(dtype_of(e.fill) == e.dtype, "v", id, ": fill must be ", e.dtype);
        }
        break;
      case Expr::Kind::prim: {
        std::vector<DType> dtypes;
        for (ExprId a : e.args) dtypes.push_back(dtype_of(a));
        require(result_dtype(e.prim, dtypes) == e.dtype, "v", id, ": operands or result of ",
                name_of(e.prim), " have the wrong dtypes");
        break;
      }
      case Expr::Kind::cast:
        require(e.args.size() == 1, "v", id, ": a cast has one operand");
        break;
      case Expr::Kind::acc:
      case Expr::Kind::lhs:
      case Expr::Kind::rhs:
        break;
    }
  }

  void reduction(const Reduction& r) {
    auto count = r.accumulators.size();
    require(count > 0, "a reduction needs an accumulator");
    require(r.elements.size() == count && r.combine.results.size() == count, count,
            " accumulators need as many elements and combine results");
    std::unordered_set<std::string> names;
    auto end = static_cast<ExprId>(exprs_->size());
    for (std::size_t i = 0; i < count; ++i) {
      const Accumulator& a = r.accumulators[i];
      require(is_identifier(a.name) && names.insert(a.name).second, "accumulator name '", a.name,
              "' must be a new identifier");
      operand(end, r.elements[i]);
      require(dtype_of(r.elements[i]) == a.dtype, "accumulator ", a.name, " is ", a.dtype,
              ", its element ", dtype_of(r.elements[i]));
    }
    const auto* stage_exprs = exprs_;
    exprs_ = &r.combine.exprs;
    for (std::size_t i = 0; i < r.combine.exprs.size(); ++i) {
      const Expr& e = r.combine.exprs[i];
      bool state = e.kind == Expr::Kind::lhs || e.kind == Expr::Kind::rhs;
      require(state || e.kind == Expr::Kind::constant || e.kind == Expr::Kind::prim ||
                  e.kind == Expr::Kind::cast,
              "combine body: only constants, primitives, casts, lhs and rhs");
      if (state)
        require(e.slot >= 0 && e.slot < static_cast<int>(count) &&
                    r.accumulators[static_cast<std::size_t>(e.slot)].dtype == e.dtype,
                "combine body: v", i, " reads no accumulator of its dtype");
      expression(static_cast<ExprId>(i), e);
    }
    for (std::size_t i = 0; i < count; ++i) {
      operand(static_cast<ExprId>(r.combine.exprs.size()), r.combine.results[i]);
      require(dtype_of(r.combine.results[i]) == r.accumulators[i].dtype, "combine body: result ", i,
              " must be ", r.accumulators[i].dtype);
    }
    exprs_ = stage_exprs;
  }

  void store(const Store& s) {
    auto end = static_cast<ExprId>(exprs_->size());
    operand(end, s.value);
    access(s.buffer, s.index, end, dtype_of(s.value));
    const Buffer& b = kernel_.buffers[static_cast<std::size_t>(s.buffer)];
    require(b.role != Buffer::Role::in, "store to input '", b.name, "'");
    if (s.pred != kNoExpr) {
      operand(end, s.pred);
      require(dtype_of(s.pred) == DType::boolean, "the predicate of a store must be bool");
    }
  }

  // Accumulators can be read after the loops (in a scan: after each element), never before.
  void order(const Stage& st) const {
    if (!st.reduction) return;
    auto placed = loop_positions(st);
    for (ExprId e : st.reduction->elements)
      require(!placed[static_cast<std::size_t>(e)].after, "element v", e, " reads an accumulator");
    if (st.reduction->scan) return;
    auto fine = [&](LoopPosition p) { return !p.after || !runs_at_element(st, p); };
    for (std::size_t i = 0; i < placed.size(); ++i)
      require(fine(placed[i]), "v", i, " reads an accumulator and a reduce index; use a scan");
    for (const Store& s : st.stores)
      require(fine(loop_position(st, placed, s)),
              "a store reads an accumulator and a reduce index; use a scan");
  }

  const Kernel& kernel_;
  std::vector<Dim> sizes_;
  std::string where_;
  std::vector<Dim> scope_;  // loop indices around the current point
  const std::vector<Expr>* exprs_ = nullptr;
  std::unordered_map<ExprId, Dim> promised_;
};

}  // namespace

void verify(const Kernel& kernel) { Verifier(kernel).run(); }

}  // namespace gex::loop
