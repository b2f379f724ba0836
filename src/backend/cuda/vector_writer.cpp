#include "backend/cuda/vector_writer.hpp"

#include <algorithm>

#include "backend/cuda/scalar_text.hpp"
#include "base/error.hpp"
#include "loop/walk.hpp"

namespace gex::backend::cuda {

using loop::Expr;
using loop::ExprId;
using loop::Range;
using loop::Stage;
using loop::Store;

namespace {

constexpr int kMaxWidth = 8;
constexpr std::size_t kLongBody = 48;  // expressions; longer bodies are unrolled less
constexpr int kLongBodyWidth = 4;
constexpr std::size_t kShortBody = 12;

}  // namespace

// Whether the value of an expression changes with a loop index.
bool VectorWriter::depends_on(const Stage& stage, ExprId id, Dim index) const {
  const Expr& e = stage.exprs[at(id)];
  if (e.kind == Expr::Kind::acc) return true;
  bool found = false;
  loop::for_each_dim(e, [&](Dim d) { found = found || d.depends_on(index); });
  loop::for_each_operand(
      e, [&](ExprId operand) { found = found || depends_on(stage, operand, index); });
  return found;
}

bool VectorWriter::add_access(const Stage& stage, int buffer, const std::vector<Dim>& index,
                              bool is_store, Dim inner, Plan& out) {
  const Dim offset = loop::linear_offset(kernel_.buffers[at(buffer)], index);
  const auto parts = affine_in(offset, inner);
  if (!parts || !(parts->coefficient == Dim(1))) return false;
  // The rest must be divisible by the width for all values of the other indices.
  std::vector<Dim> symbols;
  parts->rest.collect_symbols(symbols);
  Dim rest = parts->rest;
  std::vector<Dim> divisors;
  std::set<ExprId> before;
  for (Dim symbol : symbols) {
    const auto value = loop::value_symbol_id(symbol);
    if (!value && !symbol.extent()) continue;
    if (value && depends_on(stage, *value, inner)) return false;
    if (value) before.insert(*value);
    const auto affine = affine_in(rest, symbol);
    if (!affine) return false;
    std::vector<Dim> inside;
    affine->coefficient.collect_symbols(inside);
    for (Dim other : inside)
      if (other.extent() || loop::value_symbol_id(other)) return false;
    divisors.push_back(affine->coefficient);
    rest = affine->rest;
  }
  divisors.push_back(rest);
  for (Dim d : divisors)
    if (!(mod(d, Dim(kMaxWidth)) == Dim(0))) out.divisible.push_back(dim(d));
  out.before.insert(before.begin(), before.end());
  out.accesses.push_back({buffer, offset, is_store, "w" + std::to_string(next_vector_++)});
  return true;
}

const VectorWriter::Access* VectorWriter::find(int buffer, const std::vector<Dim>& index,
                                               bool is_store) const {
  if (active_.empty()) return nullptr;
  const Dim offset = loop::linear_offset(kernel_.buffers[at(buffer)], index);
  for (const Access& access : active_)
    if (access.buffer == buffer && access.offset == offset && access.is_store == is_store)
      return &access;
  return nullptr;
}

VectorWriter::Plan VectorWriter::plan(const Stage& stage, const std::vector<Range>& ranges) {
  Plan out;
  if (ranges.empty() || !independent(ranges)) return out;
  const Dim inner = ranges.back().index;
  const auto known = [&](int buffer, const std::vector<Dim>& index, bool is_store) {
    const Dim offset = loop::linear_offset(kernel_.buffers[at(buffer)], index);
    return std::any_of(out.accesses.begin(), out.accesses.end(), [&](const Access& a) {
      return a.buffer == buffer && a.offset == offset && a.is_store == is_store;
    });
  };
  for (const Expr& e : stage.exprs)
    if (e.kind == Expr::Kind::load && e.pred == loop::kNoExpr && !known(e.buffer, e.index, false) &&
        kernel_.buffers[at(e.buffer)].role != loop::Buffer::Role::out)
      add_access(stage, e.buffer, e.index, false, inner, out);
  for (const Store& s : stage.stores)
    if (s.mode == Store::Mode::set && s.pred == loop::kNoExpr && !s.shared && !s.ordered &&
        !known(s.buffer, s.index, true))
      add_access(stage, s.buffer, s.index, true, inner, out);
  // Loads of a buffer that the stage also stores to at other elements stay in order.
  std::erase_if(out.accesses, [&](const Access& a) {
    return !a.is_store &&
           std::any_of(stage.stores.begin(), stage.stores.end(), [&](const Store& s) {
             return s.buffer == a.buffer &&
                    !(loop::linear_offset(kernel_.buffers[at(s.buffer)], s.index) == a.offset);
           });
  });
  // Vector stores come last; in a buffer with other stores, all stores stay in order.
  std::erase_if(out.accesses, [&](const Access& a) {
    return a.is_store && std::any_of(stage.stores.begin(), stage.stores.end(), [&](const Store& s) {
             return s.buffer == a.buffer &&
                    (s.pred != loop::kNoExpr || s.mode != Store::Mode::set ||
                     !(loop::linear_offset(kernel_.buffers[at(s.buffer)], s.index) == a.offset));
           });
  });
  std::size_t smallest = 8;
  for (const Access& a : out.accesses)
    smallest =
        std::min(smallest, std::max<std::size_t>(size_of(kernel_.buffers[at(a.buffer)].dtype), 2));
  if (out.accesses.empty()) return out;
  out.width = std::min(static_cast<int>(16 / smallest), kMaxWidth);
  if (stage.exprs.size() > kLongBody) out.width = std::min(out.width, kLongBodyWidth);
  return out;
}

std::string VectorWriter::vector_type(const Access& access, int width) const {
  return "Vector<" + memory_type(kernel_.buffers[at(access.buffer)].dtype) + ", " +
         std::to_string(width) + ">";
}

void VectorWriter::store_vectors(const Plan& wide) {
  for (const Access& a : wide.accesses) {
    const std::string buffer = "b" + std::to_string(a.buffer);
    if (a.is_store && is_exchanged(a.buffer))
      line("put(" + buffer + ", " + dim(a.offset) + ", " + a.name + ");");
    else if (a.is_store)
      line("*(" + vector_type(a, wide.width) + "*)(" + buffer + " + " + dim(a.offset) +
           ") = " + a.name + ";");
  }
}

void VectorWriter::vector_loops(const Stage& stage, const std::vector<Range>& ranges,
                                const std::string& start, const std::string& step,
                                const std::function<void()>& inner) {
  const Plan wide = plan(stage, ranges);
  if (wide.width < 2) return loops(ranges, start, step, inner);
  GEX_CHECK(active_.empty(), "wide loops inside each other");
  const std::string width = std::to_string(wide.width), id = std::to_string(next_vector_++);
  std::string condition = "(0";
  for (const Access& a : wide.accesses)  // exchanged memory is aligned
    if (!is_exchanged(a.buffer) || !a.is_store) condition += " | (i64)b" + std::to_string(a.buffer);
  condition += ") % 16 == 0";
  std::string divisible;
  for (const std::string& d : wide.divisible) divisible += (divisible.empty() ? "" : " | ") + d;
  if (ranges.size() > 1)
    divisible += (divisible.empty() ? "" : " | ") + dim(ranges.back().extent());
  if (!divisible.empty()) condition += " && (" + divisible + ") % " + width + " == 0";
  Dim points = 1;
  for (const Range& range : ranges) points *= range.extent();
  open("");
  line("i64 left" + id + " = 0;");
  open("if (" + condition + ")");
  line("const i64 groups = " + dim(points) + " / " + width + ";");
  line("left" + id + " = groups * " + width + ";");
  // Unrolled so that reductions have several loads in flight.
  if (small_code_)
    line("#pragma unroll 1");
  else if (stage.reduction && stage.exprs.size() <= kShortBody)
    line("#pragma unroll 4");
  open("for (i64 q = " + start + "; q < groups; q += " + step + ")");
  // The last index advances by the width.
  std::vector<Range> outer(ranges.begin(), ranges.end() - 1);
  const std::string last = "j" + id;
  if (outer.empty()) {
    line("const i64 " + last + " = q * " + width + ";");
  } else {
    line("const i64 pieces = " + dim(ranges.back().extent()) + " / " + width + ";");
    line("const i64 " + last + " = q % pieces * " + width + ", lines = q / pieces;");
    split(outer, "lines");
  }
  names_[ranges.back().index] = last;
  if (!wide.before.empty()) expressions(stage, wide.before);
  for (const Access& a : wide.accesses) {
    const std::string type = vector_type(a, wide.width);
    const std::string place = "b" + std::to_string(a.buffer) + " + " + dim(a.offset);
    line(type + " " + a.name + (a.is_store ? ";" : " = *(const " + type + "*)(" + place + ");"));
  }
  line("#pragma unroll");
  open("for (int u = 0; u < " + width + "; ++u)");
  line("const i64 " + index_name(ranges.back()) + " = " + last + " + u;");
  active_ = wide.accesses;
  inner();
  active_.clear();
  close();
  names_[ranges.back().index] = last;
  store_vectors(wide);
  close();
  close();
  loops(ranges, "left" + id + " + " + start, step, inner);
  close();
}

std::string VectorWriter::loaded(const Expr& load) {
  if (load.pred == loop::kNoExpr)
    if (const Access* access = find(load.buffer, load.index, false))
      return from_memory(load.dtype, access->name + ".v[u]");
  return BodyWriter::loaded(load);
}

void VectorWriter::store(const Store& s) {
  const Access* access = s.mode == Store::Mode::set && s.pred == loop::kNoExpr
                             ? find(s.buffer, s.index, true)
                             : nullptr;
  if (access == nullptr) return BodyWriter::store(s);
  line(access->name + ".v[u] = " +
       to_memory(kernel_.buffers[at(s.buffer)].dtype, "e" + std::to_string(s.value)) + ";");
}

}  // namespace gex::backend::cuda
