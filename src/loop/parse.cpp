// Parses the text form. In addition to the output of `print`, hand-written texts may use any names
// for expressions, omit dtypes that can be inferred, use literals and nested calls as operands, `#
// comments`, and undeclared size symbols in the shapes of parameters.

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/error.hpp"
#include "base/text/lexer.hpp"
#include "loop/combines.hpp"
#include "loop/scalar.hpp"
#include "loop/walk.hpp"

namespace gex::loop {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : lex_(text, kLoopText) {}

  Kernel run() {
    if (lex_.accept("symbols")) do
        symbol();
      while (lex_.accept(","));
    lex_.expect("kernel");
    kernel_.name = lex_.raw_until("(", "a kernel name");  // "add+gelu" too: a label of fused ops
    lex_.expect("(");
    auto_symbols_ = true;
    if (!lex_.accept(")")) {
      do parameter();
      while (lex_.accept(","));
      lex_.expect(")");
    }
    auto_symbols_ = false;
    if (lex_.accept("grid")) kernel_.grid = ranges();
    lex_.expect("{");
    while (lex_.accept("local")) {
      std::string name = read_name("a buffer name");
      lex_.expect(":");
      buffer(std::move(name), Buffer::Role::local);
    }
    auto grid_indices = indices_;
    while (lex_.accept("stage")) {
      stage();
      indices_ = grid_indices;
    }
    lex_.expect("}");
    lex_.expect_end();
    verify(kernel_);
    return std::move(kernel_);
  }

 private:
  std::string read_name(std::string_view what) { return std::string(lex_.expect_identifier(what)); }
  std::string_view raw_dim(std::string_view stops) {
    return lex_.raw_until(stops, "an index or size");
  }

  // --- header ---
  void symbol() {
    std::string name = read_name("a symbol");
    if (value_name_id(name))
      lex_.expected_before("a name other than v<number> (those are expressions), got '" + name +
                           "'");
    DimRange range = lex_.accept("in") ? constant_range() : DimRange{0, DimRange::kInf};
    if (!symbols_.emplace(name, Dim::symbol(name, range)).second)
      lex_.expected_before("a new symbol, got '" + name + "' again");
  }

  DimRange constant_range() {
    DimRange r;
    lex_.expect("[");
    r.lo = bound();
    lex_.expect(",");
    r.hi = bound();
    lex_.expect("]");
    return r;
  }
  std::int64_t bound() {
    std::string text = lex_.expect_literal();
    if (text == "inf") return DimRange::kInf;
    if (text == "-inf") return -DimRange::kInf;
    return integer(text);
  }

  void parameter() {
    std::string name = read_name("a buffer name");
    lex_.expect(":");
    Buffer::Role role = lex_.accept("in")    ? Buffer::Role::in
                        : lex_.accept("out") ? Buffer::Role::out
                        : lex_.accept("inout")
                            ? Buffer::Role::inout
                            : (lex_.expected_before("'in', 'out' or 'inout'"), Buffer::Role::in);
    buffer(std::move(name), role);
  }

  void buffer(std::string name, Buffer::Role role) {
    Buffer b;
    b.name = std::move(name);
    b.role = role;
    b.dtype = dtype();
    b.shape = dims('[', ']');
    if (lex_.at("{") && role != Buffer::Role::local) b.strides = dims('{', '}');
    if (!buffers_.emplace(b.name, static_cast<int>(kernel_.buffers.size())).second)
      lex_.expected_before("a new buffer name, got '" + b.name + "' again");
    kernel_.buffers.push_back(std::move(b));
  }

  DType dtype() {
    std::string name = read_name("a dtype");
    auto d = dtype_from_name(name);
    if (!d) lex_.expected_before("a dtype such as f32 or i64, got '" + name + "'");
    return *d;
  }

  std::vector<Range> ranges() {
    std::vector<Range> result;
    lex_.expect("(");
    do {
      std::string name = read_name("a loop index");
      lex_.expect("<");
      Dim index = Dim::index(name, dim(raw_dim(",)")));
      if (symbols_.contains(name) || !indices_.emplace(name, index).second)
        lex_.expected_before("a new name for a loop index, got '" + name + "' again");
      result.push_back({index});
    } while (lex_.accept(","));
    lex_.expect(")");
    return result;
  }

  // --- Dims ---
  Dim dim(std::string_view text) {
    try {
      return parse_dim(text, [this](std::string_view n) { return lookup(std::string(n)); });
    } catch (const UserError& e) {
      lex_.expected_before(str("an index or size, got '", text, "' (", e.what(), ")"));
    }
  }

  std::optional<Dim> lookup(const std::string& name) {
    if (auto it = indices_.find(name); it != indices_.end()) return it->second;
    if (auto it = symbols_.find(name); it != symbols_.end()) return it->second;
    if (auto it = names_.find(name); it != names_.end()) {
      auto range = promised_.find(it->second);
      return value_symbol(it->second, range == promised_.end() ? DimRange{} : range->second);
    }
    if (!auto_symbols_ || value_name_id(name)) return std::nullopt;
    return symbols_.emplace(name, Dim::symbol(name)).first->second;
  }

  std::vector<Dim> dims(char open, char close) {
    std::vector<Dim> result;
    lex_.expect(std::string_view(&open, 1));
    std::string closing(1, close);
    if (lex_.accept(closing)) return result;
    do result.push_back(dim(raw_dim("," + closing)));
    while (lex_.accept(","));
    lex_.expect(closing);
    return result;
  }

  // --- stages ---
  void stage() {
    Stage st;
    names_.clear();
    promised_.clear();
    elements_.clear();
    if (!lex_.at("domain") && !lex_.at("reduce") && !lex_.at("scan") && !lex_.at("{"))
      st.name = read_name("a stage name");
    if (lex_.accept("domain")) st.domain = ranges();
    bool scan = lex_.accept("scan");
    if (scan || lex_.accept("reduce")) {
      st.reduce = ranges();
      st.reduction.emplace();
      st.reduction->scan = scan;
    }
    exprs_ = &st.exprs;
    accumulators_ = st.reduction ? &st.reduction->accumulators : nullptr;
    lex_.expect("{");
    while (!lex_.accept("}")) {
      if (lex_.accept("store"))
        st.stores.push_back(store());
      else if (lex_.at("acc") && lex_.ahead(2) == ":")
        accumulator(st);
      else if (lex_.at("combine") && lex_.ahead(1) != "=")
        combine(st);
      else
        definition();
    }
    for (const std::string& name : elements_) st.reduction->elements.push_back(named(name));
    kernel_.stages.push_back(std::move(st));
  }

  void accumulator(const Stage& st) {
    if (!st.reduction)
      lex_.expected_before("accumulators only in a stage with reduce(...) or scan(...)");
    lex_.expect("acc");
    Accumulator a;
    a.name = read_name("an accumulator name");
    lex_.expect(":");
    a.dtype = dtype();
    lex_.expect("=");
    Expr init = literal(lex_.expect_literal(), a.dtype);
    a.init = init.imm;
    a.init_int = init.imm_int;
    lex_.expect("<-");
    elements_.push_back(read_name("an expression"));
    accumulators_->push_back(std::move(a));
  }

  void combine(Stage& st) {
    if (!st.reduction)
      lex_.expected_before("combine only in a stage with reduce(...) or scan(...)");
    lex_.expect("combine");
    Combine& c = st.reduction->combine;
    if (!lex_.accept("{")) {
      std::vector<std::string> names;
      do names.push_back(read_name("a combine such as sum or argmax"));
      while (lex_.accept(","));
      std::vector<std::string_view> views(names.begin(), names.end());
      auto made = make_combine(views, st.reduction->accumulators);
      if (!made)
        lex_.expected_before("combines that fit the accumulators declared above, in order");
      c = std::move(*made);
      return;
    }
    auto outer_names = std::move(names_);
    auto* outer = exprs_;
    names_.clear();
    exprs_ = &c.exprs;
    while (!lex_.accept("yield")) definition();
    do c.results.push_back(named(read_name("an expression")));
    while (lex_.accept(","));
    lex_.expect("}");
    exprs_ = outer;
    names_ = std::move(outer_names);
  }

  Store store() {
    Store s;
    access(s.buffer, s.index);
    lex_.expect("=");
    s.value = operand(kernel_.buffers[static_cast<std::size_t>(s.buffer)].dtype);
    if (lex_.accept("mode")) s.mode = mode();
    if (lex_.accept("if")) s.pred = operand(DType::boolean);
    s.shared = lex_.accept("shared");
    s.ordered = lex_.accept("ordered");
    return s;
  }

  Store::Mode mode() {
    static constexpr std::string_view kModes[] = {"set", "add", "mul", "max", "min"};
    std::string name = read_name("a store mode");
    for (int i = 0; i < 5; ++i)
      if (name == kModes[i]) return static_cast<Store::Mode>(i);
    lex_.expected_before("a store mode (set, add, mul, max, min), got '" + name + "'");
  }

  void access(int& buffer, std::vector<Dim>& index) {
    std::string name = read_name("a buffer");
    auto it = buffers_.find(name);
    if (it == buffers_.end()) lex_.expected_before("a buffer of this kernel, got '" + name + "'");
    buffer = it->second;
    index = dims('[', ']');
  }

  // --- expressions ---
  void definition() {
    std::string name = read_name("an expression, store, acc, combine or '}'");
    if (names_.contains(name) || indices_.contains(name) || symbols_.contains(name))
      lex_.expected_before("a new name, got '" + name + "' again");
    lex_.expect("=");
    Expr e = expression();
    if (lex_.accept(":")) {
      DType written = dtype();
      if (e.kind == Expr::Kind::constant)
        e = literal(literal_, written);
      else if (e.kind == Expr::Kind::cast || e.kind == Expr::Kind::acc)
        e.dtype = written;  // `verify` checks the dtype with which an accumulator is read
      else if (e.dtype != written)
        lex_.expected_before(str("dtype ", e.dtype, " here, got ", written));
    } else if (e.kind == Expr::Kind::constant || e.kind == Expr::Kind::cast) {
      lex_.expected_before("a dtype after a constant or cast, as in ': f32'");
    }
    ExprId id = push(std::move(e));
    if (lex_.accept("in")) promised_[id] = constant_range();
    names_.emplace(std::move(name), id);
  }

  Expr expression() {
    std::string head = read_name("an expression such as 'load x[i]' or 'mul a, b'");
    Expr e;
    if (head == "const") {
      e.kind = Expr::Kind::constant;
      literal_ = lex_.expect_literal();
    } else if (head == "index") {
      e.kind = Expr::Kind::index;
      e.dtype = DType::i64;
      e.dim = dim(raw_dim(":,)\n"));
    } else if (head == "load") {
      e.kind = Expr::Kind::load;
      access(e.buffer, e.index);
      e.dtype = kernel_.buffers[static_cast<std::size_t>(e.buffer)].dtype;
      if (lex_.accept("if")) {
        e.pred = operand(DType::boolean);
        lex_.expect("else");
        e.fill = operand(e.dtype);
      }
    } else if (head == "cast") {
      e.kind = Expr::Kind::cast;
      e.args = {named(read_name("an expression"))};
    } else if (head == "acc" || head == "lhs" || head == "rhs") {
      e.kind = head == "acc" ? Expr::Kind::acc : head == "lhs" ? Expr::Kind::lhs : Expr::Kind::rhs;
      std::string name = read_name("an accumulator");
      e.slot = slot(name);
      e.dtype = (*accumulators_)[static_cast<std::size_t>(e.slot)].dtype;
    } else if (auto prim = prim_from_name(head)) {
      prim_arguments(*prim, e);
    } else {
      lex_.expected_before(
          "const, index, load, cast, acc, lhs, rhs or a primitive of math.def, got '" + head + "'");
    }
    return e;
  }

  void prim_arguments(Prim prim, Expr& e) {
    e.kind = Expr::Kind::prim;
    e.prim = prim;
    bool parenthesised = lex_.accept("(");
    struct Pending {
      std::size_t position;
      std::string literal;
    };
    std::vector<Pending> literals;
    do {
      if (lex_.at_literal()) literals.push_back({e.args.size(), lex_.expect_literal()});
      e.args.push_back(literals.empty() || literals.back().position != e.args.size()
                           ? operand(std::nullopt)
                           : kNoExpr);
    } while (lex_.accept(","));
    if (parenthesised) lex_.expect(")");
    // A literal takes the dtype of the other operands.
    DType neighbour = DType::f32;
    bool found = false;
    for (std::size_t i = prim == Prim::select ? 1 : 0; i < e.args.size() && !found; ++i)
      if (e.args[i] != kNoExpr) {
        neighbour = at(e.args[i]).dtype;
        found = true;
      }
    if (!literals.empty() && !found)
      lex_.expected_before("at least one operand that is not a literal");
    for (const Pending& p : literals) e.args[p.position] = push(literal(p.literal, neighbour));
    std::vector<DType> dtypes;
    for (ExprId a : e.args) dtypes.push_back(at(a).dtype);
    auto result = result_dtype(prim, dtypes);
    if (!result)
      lex_.expected_before(
          str(arity_of(prim), " operands of one fitting dtype for ", name_of(prim)));
    e.dtype = *result;
  }

  // A name, a nested call, or (where the dtype is known) a literal.
  ExprId operand(std::optional<DType> literal_dtype) {
    if (literal_dtype && lex_.at_literal())
      return push(literal(lex_.expect_literal(), *literal_dtype));
    if (lex_.ahead(1) == "(") return push(expression());
    return named(read_name("an expression"));
  }

  ExprId push(Expr e) {
    exprs_->push_back(std::move(e));
    return static_cast<ExprId>(exprs_->size()) - 1;
  }
  const Expr& at(ExprId id) const { return (*exprs_)[static_cast<std::size_t>(id)]; }

  ExprId named(const std::string& name) {
    auto it = names_.find(name);
    if (it == names_.end()) lex_.expected_before("an expression defined above, got '" + name + "'");
    return it->second;
  }

  int slot(const std::string& name) {
    if (accumulators_)
      for (std::size_t i = 0; i < accumulators_->size(); ++i)
        if ((*accumulators_)[i].name == name) return static_cast<int>(i);
    lex_.expected_before("an accumulator declared above, got '" + name + "'");
  }

  std::int64_t integer(const std::string& text) {
    std::int64_t v = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc() || end != text.data() + text.size())
      lex_.expected_before("a whole number, got '" + text + "'");
    return v;
  }

  Expr literal(const std::string& text, DType dtype) {
    if (text == "true" || text == "false") {
      if (dtype != DType::boolean)
        lex_.expected_before(str("a number of dtype ", dtype, ", got ", text));
      return constant_expr(dtype, {.i = text == "true"});
    }
    if (!is_float(dtype)) return constant_expr(dtype, {.i = integer(text)});
    const char* end = text.data() + text.size();
    double wide = 0;
    float narrow = 0;  // read as f32 directly: through double it would round twice
    auto [stop, error] = dtype == DType::f64 ? std::from_chars(text.data(), end, wide)
                                             : std::from_chars(text.data(), end, narrow);
    if (error != std::errc() || stop != end) lex_.expected_before("a number, got '" + text + "'");
    return constant_expr(dtype, {.f = dtype == DType::f64 ? wide : narrow});
  }

  Lexer lex_;
  Kernel kernel_;
  bool auto_symbols_ = false;
  std::unordered_map<std::string, Dim> symbols_, indices_;
  std::unordered_map<std::string, int> buffers_;
  // Of the stage (or combine body) being read.
  std::vector<Expr>* exprs_ = nullptr;
  std::vector<Accumulator>* accumulators_ = nullptr;
  std::unordered_map<std::string, ExprId> names_;
  std::unordered_map<ExprId, DimRange> promised_;
  std::vector<std::string> elements_;
  std::string literal_;
};

}  // namespace

Kernel parse_kernel(std::string_view text) { return Parser(text).run(); }

}  // namespace gex::loop
