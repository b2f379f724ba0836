// Products: MatMul, Gemm, Einsum, Det.

#include <algorithm>
#include <map>

#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/matmul.hpp"

namespace gex::onnx {

Value* matmul_any_rank(Graph& g, Value* a, Value* b) {
  const bool a_vector = a->type().rank() == 1, b_vector = b->type().rank() == 1;
  if (a_vector) a = ops::unsqueeze(g, a, 0);
  if (b_vector) b = ops::unsqueeze(g, b, 1);
  const Shape s = a->type().shape;
  Value* product = nullptr;
  if (b->type().rank() == 2 && s.size() > 2) {
    // One matrix for all batch entries: multiply all their rows at once.
    const Shape batch(s.begin(), s.end() - 1);
    product = ops::matmul(g, ops::reshape(g, a, {gex::product(batch), s.back()}), b);
    Shape shape = batch;
    shape.push_back(b->type().shape[1]);
    product = ops::reshape(g, product, shape);
  } else {
    product = ops::matmul(g, a, b);
  }
  if (b_vector) product = ops::squeeze(g, product, -1);
  if (a_vector) product = ops::squeeze(g, product, b_vector ? -1 : -2);
  return product;
}

Value* general_product(Row& r) {
  Expr a = expr(r, 0), b = expr(r, 1);
  const DType t = compute_type(a.dtype());
  const double alpha = r.float_attr("alpha", 1), beta = r.float_attr("beta", 1);
  if (r.int_attr("transA", 0) != 0) a = transpose(a, {1, 0});
  if (r.int_attr("transB", 0) != 0) b = transpose(b, {1, 0});
  Expr y(r.g, ops::matmul(r.g, a, b, is_low_float(a.dtype())));
  if (alpha != 1) y = y * alpha;
  if (r.has(2) && beta != 0) {
    Expr c = expr(r, 2).to(t);
    y = y + (beta != 1 ? c * beta : c);
  }
  return y.to(r.dtype());
}

namespace {

Items gemm(Row& r) { return r.one(general_product(r)); }

// --- einsum --------------------------------------------------------------------------------------

// A tensor with labelled axes. Axes under "..." have their own labels, numbered from the end.
struct Labelled {
  Expr x;
  std::string labels;
};

constexpr char kDots = '\x01';  // of the last axis under "..."; the one before it has the next

class Einsum {
 public:
  explicit Einsum(Row& r) : r_(r) {
    std::string equation;
    for (const char c : r.string_attr("equation", ""))
      if (c != ' ') equation += c;
    const auto arrow = equation.find("->");
    std::string left = equation.substr(0, arrow);
    std::size_t at = 0;
    for (std::size_t i = 0; i < r.num_inputs(); ++i) {
      const auto comma = std::min(left.find(',', at), left.size());
      add_operand(i, left.substr(at, comma - at));
      at = comma + 1;
    }
    if (arrow != std::string::npos)
      output_ = with_dots(equation.substr(arrow + 2), most_dots_);
    else
      output_ = implicit_output();
    std::string all;
    for (const Labelled& o : operands_) all += o.labels;
    for (const char c : output_)
      if (!in(c, all)) r.refuse("the equation has an output label that no operand has");
    if (operands_.empty()) r.refuse("it has no operands");
  }

  Value* result() {
    Labelled all = operands_[0];
    if (operands_.size() == 1) return arranged(summed(all, output_));
    for (std::size_t i = 1; i < operands_.size(); ++i) {
      std::string later = output_;
      for (std::size_t k = i + 1; k < operands_.size(); ++k) later += operands_[k].labels;
      all = product(all, operands_[i], later);
    }
    return arranged(summed(all, output_));
  }

 private:
  static bool in(char label, const std::string& labels) {
    return labels.find(label) != std::string::npos;
  }
  static std::string with_dots(const std::string& term, int count) {
    std::string out;
    for (std::size_t k = 0; k < term.size(); ++k) {
      if (term.compare(k, 3, "...") != 0) {
        out += term[k];
        continue;
      }
      for (int d = count; d-- > 0;) out += static_cast<char>(kDots + d);
      k += 2;
    }
    return out;
  }
  void add_operand(std::size_t i, const std::string& term) {
    const int rank = r_.rank(i);
    const bool dots = term.find("...") != std::string::npos;
    const int named = static_cast<int>(term.size()) - (dots ? 3 : 0);
    const int under = rank - named;
    if (under < 0 || (under > 0 && !dots))
      r_.refuse(str("the equation does not match operand ", i));
    most_dots_ = std::max(most_dots_, dots ? under : 0);
    Labelled operand{wide(r_, i), with_dots(term, under)};
    operands_.push_back(diagonal(operand));
  }
  std::string implicit_output() const {
    std::map<char, int> seen;
    for (const Labelled& o : operands_)
      for (const char c : o.labels) ++seen[c];
    std::string out;
    for (int d = most_dots_; d-- > 0;) out += static_cast<char>(kDots + d);
    for (const auto& [c, n] : seen)
      if (n == 1 && c >= 'A') out += c;
    return out;
  }
  // A label that occurs twice in one operand takes the diagonal.
  static Labelled diagonal(Labelled o) {
    for (std::size_t k = 0; k < o.labels.size(); ++k) {
      const auto again = o.labels.find(o.labels[k], k + 1);
      if (again == std::string::npos) continue;
      Graph& g = o.x.g;
      const Dim size = o.x.shape()[k];
      Shape one(o.x.shape().size(), Dim(1)), other = one;
      one[k] = size;
      other[again] = size;
      Expr hit = reshape(iota(g, size), one) == reshape(iota(g, size), other);
      o.x = sum(where(hit, o.x, o.x.number(0)), {static_cast<std::int64_t>(again)}).to(o.x.dtype());
      o.labels.erase(again, 1);
      --k;
    }
    return o;
  }
  static Labelled summed(Labelled o, const std::string& kept) {
    Ints axes;
    std::string labels;
    for (std::size_t k = 0; k < o.labels.size(); ++k) {
      if (in(o.labels[k], kept))
        labels += o.labels[k];
      else
        axes.push_back(static_cast<std::int64_t>(k));
    }
    if (!axes.empty()) o.x = sum(o.x, axes).to(o.x.dtype());
    o.labels = labels;
    return o;
  }
  static Labelled ordered(Labelled o, const std::string& labels) {
    Ints perm;
    for (const char c : labels) perm.push_back(static_cast<std::int64_t>(o.labels.find(c)));
    return {transpose(o.x, perm), labels};
  }
  static Shape sizes(const Labelled& o, const std::string& labels) {
    Shape shape;
    for (const char c : labels) shape.push_back(o.x.shape()[o.labels.find(c)]);
    return shape;
  }
  // One batched matmul: labels of both that are used later are the batch, others are reduced.
  static Labelled product(Labelled a, Labelled b, const std::string& later) {
    a = summed(a, b.labels + later);
    b = summed(b, a.labels + later);
    std::string batch, rows, columns, folded;
    for (const char c : a.labels) {
      if (!in(c, b.labels))
        rows += c;
      else if (in(c, later))
        batch += c;
      else
        folded += c;
    }
    for (const char c : b.labels)
      if (!in(c, a.labels)) columns += c;
    a = ordered(a, batch + rows + folded);
    b = ordered(b, batch + folded + columns);
    const Shape row_sizes = sizes(a, rows), column_sizes = sizes(b, columns);
    const Shape depth_a = sizes(a, folded), depth_b = sizes(b, folded);
    Shape left = sizes(a, batch), right = sizes(b, batch);
    left.insert(left.end(), {product_of(row_sizes), product_of(depth_a)});
    right.insert(right.end(), {product_of(depth_b), product_of(column_sizes)});
    Expr y = matmul(reshape(a.x, left), reshape(b.x, right));
    Shape shape(y.shape().begin(), y.shape().end() - 2);
    shape.insert(shape.end(), row_sizes.begin(), row_sizes.end());
    shape.insert(shape.end(), column_sizes.begin(), column_sizes.end());
    return {reshape(y, shape), batch + rows + columns};
  }
  static Dim product_of(const Shape& shape) { return gex::product(shape); }
  Value* arranged(const Labelled& o) { return ordered(o, output_).x.to(r_.dtype()); }

  Row& r_;
  std::vector<Labelled> operands_;
  std::string output_;
  int most_dots_ = 0;
};

// Determinant by elimination with pivoting: small matrices of a fixed size.
Items det(Row& r) {
  const Shape batch(r.shape().begin(), r.shape().end() - 2);
  return r.one(r.host_call("", {r.in(0)}, {Type::tensor(r.dtype(), batch)},
                           [](std::span<const HostTensor> in, std::span<const std::int64_t>) {
                             const auto& s = in[0].shape();
                             const std::int64_t n = s.back();
                             HostTensor out(in[0].dtype(), {s.begin(), s.end() - 2});
                             for (std::int64_t b = 0; b < out.numel(); ++b) {
                               std::vector<double> m;
                               for (std::int64_t k = 0; k < n * n; ++k)
                                 m.push_back(in[0].get(b * n * n + k));
                               out.set(b, determinant(m, static_cast<std::size_t>(n)));
                             }
                             return std::vector{std::move(out)};
                           })[0]);
}

}  // namespace

double determinant(std::vector<double> m, std::size_t n) {
  double result = 1;
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t pivot = c;
    for (std::size_t row = c; row < n; ++row)
      if (std::abs(m[row * n + c]) > std::abs(m[pivot * n + c])) pivot = row;
    if (m[pivot * n + c] == 0) return 0;
    if (pivot != c) {
      for (std::size_t k = 0; k < n; ++k) std::swap(m[pivot * n + k], m[c * n + k]);
      result = -result;
    }
    result *= m[c * n + c];
    for (std::size_t row = c + 1; row < n; ++row) {
      const double factor = m[row * n + c] / m[c * n + c];
      for (std::size_t k = c; k < n; ++k) m[row * n + k] -= factor * m[c * n + k];
    }
  }
  return result;
}

void add_matmul_rows() {
  add_row("MatMul", [](Row& r) { return r.wrapped(matmul_any_rank(r.g, r.in(0), r.in(1))); });
  add_row("Gemm", gemm);
  add_row("Einsum", [](Row& r) { return r.one(Einsum(r).result()); });
  add_row("Det", det);
}

}  // namespace gex::onnx
