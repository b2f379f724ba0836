#include "backend/cpu/llvm/segments.hpp"

#include <algorithm>
#include <set>

#include "loop/builder.hpp"
#include "loop/walk.hpp"

namespace gex::codegen {

using loop::Expr;
using loop::ExprId;
using loop::Kernel;
using loop::Prim;
using loop::Scalar;
using loop::Stage;
using loop::Store;

namespace {

// More segments, or stages with more expressions, would cost more compile time than they save.
constexpr std::size_t kMostSegments = 8;
constexpr std::size_t kMostExpressions = 400;

std::int64_t ceil_of(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return q + (a % b != 0 && (a < 0) == (b < 0) ? 1 : 0);
}

// step*lane + something in [low, high], such as an index of a reduction.
struct Line {
  std::int64_t step, low, high;
};

std::optional<Line> line_of(Dim d, Dim lane) {
  constexpr std::int64_t kWidest = 64;
  const auto parts = affine_in(d, lane);
  if (!parts) return std::nullopt;
  const auto step = parts->coefficient.as_const();
  const DimRange rest = parts->rest.range();
  if (!step || *step == 0 || rest.lo < -DimRange::kInf / 2 || rest.hi > DimRange::kInf / 2 ||
      rest.hi - rest.lo > kWidest)
    return std::nullopt;
  return Line{*step, rest.lo, rest.hi};
}

// An operand of a comparison that is known as a Dim, small enough for differences.
std::optional<Dim> compared(const Expr& e) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  if (e.kind == Expr::Kind::index) return e.dim;
  const bool small = e.imm_int <= kLargest && e.imm_int >= -kLargest;
  if (e.kind == Expr::Kind::constant && e.dtype == DType::i64 && small) return Dim(e.imm_int);
  return std::nullopt;
}

// The points of the lane axis at which some index or condition changes its form.
class Changes {
 public:
  Changes(const std::vector<Stage>& stages, Dim lane, std::int64_t size)
      : lane_(lane), size_(size) {
    for (const Stage& stage : stages) {
      for (const Expr& e : stage.exprs) {
        loop::for_each_dim(e, [&](Dim d) { visit(d); });
        if (e.kind == Expr::Kind::prim) compare(stage, e);
      }
      for (const Store& s : stage.stores)
        for (Dim d : s.index) visit(d);
    }
  }
  std::set<std::int64_t> take() { return std::move(points_); }

 private:
  void add(std::int64_t at) {
    if (at > 0 && at < size_) points_.insert(at);
  }
  // Where the line crosses zero, and where it has left it.
  void add_crossing(const Line& line) {
    for (std::int64_t start : {line.low, line.high}) {
      const std::int64_t at = ceil_of(-start, line.step);
      add(at);
      if (line.step * at + start == 0) add(at + 1);
    }
  }
  void add_multiples(const Line& line, std::int64_t of) {
    if (line.low != line.high) return;
    const std::int64_t last = line.step * (size_ - 1) + line.low;
    const auto [low, high] = std::minmax(line.low, last);
    if ((high - low) / of > static_cast<std::int64_t>(kMostSegments)) return;
    for (std::int64_t m = ceil_of(low, of) * of; m <= high; m += of)
      add(ceil_of(m - line.low + (line.step < 0 ? -1 : 0), line.step));
  }
  void visit(Dim d) {
    if (!d.depends_on(lane_)) return;
    const auto operands = d.operands();
    const Dim::Kind kind = d.kind();
    if (kind == Dim::Kind::min || kind == Dim::Kind::max) {
      if (const auto line = line_of(operands[0] - operands[1], lane_)) add_crossing(*line);
    } else if (kind == Dim::Kind::mod || kind == Dim::Kind::floordiv) {
      const auto line = line_of(operands[0], lane_);
      const auto divisor = operands[1].as_const();
      if (line && divisor && *divisor > 0) add_multiples(*line, *divisor);
    }
    for (Dim part : operands) visit(part);
  }
  void compare(const Stage& stage, const Expr& e) {
    if (e.args.size() != 2) return;
    const auto a = compared(stage.exprs[static_cast<std::size_t>(e.args[0])]);
    const auto b = compared(stage.exprs[static_cast<std::size_t>(e.args[1])]);
    const bool orders = e.prim == Prim::lt || e.prim == Prim::le || e.prim == Prim::gt ||
                        e.prim == Prim::ge || e.prim == Prim::eq || e.prim == Prim::ne;
    if (!orders || !a || !b) return;
    if (const auto line = line_of(*a - *b, lane_)) add_crossing(*line);
  }

  Dim lane_;
  std::int64_t size_;
  std::set<std::int64_t> points_;
};

// A stage with another expression for the lane axis, simplified.
class Rewritten {
 public:
  Rewritten(const Stage& from, Dim lane, Dim by)
      : from_(from), lane_(lane), by_(by), s_(to_.exprs) {
    to_.name = from.name;
    to_.domain = from.domain;
    to_.reduce = from.reduce;
    for (const Expr& e : from.exprs) {
      values_.push_back(rewritten(e));
    }
    to_.reduction = from.reduction;
    if (to_.reduction)
      for (ExprId& id : to_.reduction->elements) id = value(id).id;
    for (const Store& s : from.stores) add_store(s);
  }
  Stage take() { return std::move(to_); }

 private:
  Scalar value(ExprId id) const { return values_[static_cast<std::size_t>(id)]; }
  Dim dim(Dim d) {
    return d.substitute([&](Dim symbol) -> std::optional<Dim> {
      if (symbol == lane_) return by_;
      if (const auto id = loop::value_symbol_id(symbol))
        return s_.as_dim(value(*id), symbol.range());
      return std::nullopt;
    });
  }
  std::vector<Dim> dims(const std::vector<Dim>& index) {
    std::vector<Dim> result;
    for (Dim d : index) result.push_back(dim(d));
    return result;
  }
  bool is_false(Scalar condition) const {
    const Expr& e = s_.expr(condition);
    return e.kind == Expr::Kind::constant && e.imm == 0;
  }
  Scalar rewritten(const Expr& e) {
    switch (e.kind) {
      case Expr::Kind::constant:
        return is_float(e.dtype) || e.dtype == DType::boolean ? s_.constant(e.dtype, e.imm)
                                                              : s_.constant_int(e.dtype, e.imm_int);
      case Expr::Kind::index:
        return s_.index(dim(e.dim));
      case Expr::Kind::load:
        if (e.pred == loop::kNoExpr || s_.is_true(value(e.pred)))
          return s_.load(e.buffer, e.dtype, dims(e.index));
        if (is_false(value(e.pred))) return value(e.fill);
        return s_.load(e.buffer, e.dtype, dims(e.index), value(e.pred), value(e.fill));
      case Expr::Kind::prim: {
        std::vector<Scalar> args;
        for (ExprId a : e.args) args.push_back(value(a));
        if (const auto known = comparison(e.prim, args)) return s_.constant(DType::boolean, *known);
        return s_.prim(e.prim, args);
      }
      case Expr::Kind::cast:
        return s_.cast(value(e.args[0]), e.dtype);
      default:
        return s_.acc(e.slot, e.dtype);
    }
  }
  std::optional<bool> comparison(Prim prim, const std::vector<Scalar>& args) {
    if (args.size() != 2 || args[0].dtype != DType::i64) return std::nullopt;
    const auto x = compared(s_.expr(args[0])), y = compared(s_.expr(args[1]));
    if (!x || !y) return std::nullopt;
    const Dim a = *x, b = *y;
    switch (prim) {
      case Prim::lt:
        return known_lt(a, b);
      case Prim::le:
        return known_le(a, b);
      case Prim::gt:
        return known_lt(b, a);
      case Prim::ge:
        return known_le(b, a);
      default:
        return std::nullopt;
    }
  }
  void add_store(Store s) {
    if (s.pred != loop::kNoExpr) {
      if (is_false(value(s.pred))) return;
      s.pred = s_.is_true(value(s.pred)) ? loop::kNoExpr : value(s.pred).id;
    }
    s.value = value(s.value).id;
    s.index = dims(s.index);
    to_.stores.push_back(std::move(s));
  }

  const Stage& from_;
  Dim lane_, by_;
  Stage to_;
  loop::ScalarBuilder s_;
  std::vector<Scalar> values_;
};

}  // namespace

namespace {

Segment segment_of(const Kernel& kernel, std::int64_t begin, std::int64_t end) {
  const Dim lane = kernel.grid.back().index;
  Segment segment{begin, Dim::index(lane.name(), Dim(end - begin)), {}};
  for (const Stage& stage : kernel.stages)
    segment.stages.push_back(Rewritten(stage, lane, Dim(begin) + segment.lane).take());
  return segment;
}

std::vector<Segment> segments_between(const Kernel& kernel, const std::set<std::int64_t>& points,
                                      std::int64_t size) {
  std::vector<Segment> result;
  std::int64_t begin = 0;
  for (std::int64_t point : points) {
    result.push_back(segment_of(kernel, begin, point));
    begin = point;
  }
  result.push_back(segment_of(kernel, begin, size));
  return result;
}

}  // namespace

std::vector<Segment> segments_of(const Kernel& kernel) {
  const Dim lane = kernel.grid.back().index;
  const auto size = lane.extent()->as_const();
  if (!size || kernel.ordered()) return {};
  std::size_t expressions = 0;
  for (const Stage& stage : kernel.stages) expressions += stage.exprs.size();
  std::set<std::int64_t> points = Changes(kernel.stages, lane, *size).take();
  if (points.empty()) return {};
  // What is inside of a min or max has to be simple before the outer one is.
  for (int round = 0;; ++round) {
    const std::size_t count = points.size() + 1;
    if (count > kMostSegments || count * expressions > kMostExpressions) return {};
    std::vector<Segment> segments = segments_between(kernel, points, *size);
    for (const Segment& s : segments) {
      const std::int64_t length = s.lane.extent()->constant();
      const std::set<std::int64_t> inner = Changes(s.stages, s.lane, length).take();
      for (std::int64_t point : inner) points.insert(s.begin + point);
    }
    constexpr int kMostRounds = 3;
    if (points.size() + 1 == segments.size() || round == kMostRounds) return segments;
  }
}

}  // namespace gex::codegen
