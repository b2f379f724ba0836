#include "ir/type.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "ir/assume.hpp"
#include "ir/sizes_differ.hpp"

namespace gex {
namespace {

void append_dims(std::string& out, const std::vector<Dim>& dims) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i) out += ", ";
    out += dims[i].text();
  }
}

bool may_be_one(Dim d) {
  DimRange range = d.range();
  return range.lo <= 1 && range.hi >= 1 && known_eq(d, Dim(1)) != false;
}

// One axis of a broadcast; nothing if the sizes don't match.
std::optional<Dim> broadcast_dim(Dim a, Dim b) {
  if (provably_eq(a, b)) return a.is_const() ? a : b;
  if (a == Dim(1)) return b;
  if (b == Dim(1)) return a;
  if (may_be_one(a) || may_be_one(b) || !assume_eq(a, b)) return std::nullopt;
  return b.is_const() ? b : a;
}

}  // namespace

std::string Type::text() const {
  if (is_token()) return "token";
  std::string out(name_of(dtype));
  out += text_of(shape);
  if (strides) {
    out += '{';
    append_dims(out, *strides);
    out += '}';
  }
  return out;
}

std::string text_of(const Shape& shape) {
  std::string out = "[";
  append_dims(out, shape);
  return out += ']';
}

std::vector<Dim> dense_strides(const Shape& shape) {
  std::vector<Dim> strides(shape.size(), Dim(1));
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

void fail_as(const UserError& error, const std::string& message) {
  if (const auto* differ = dynamic_cast<const SizesDiffer*>(&error))
    throw SizesDiffer(message, differ->a, differ->b);
  throw UserError(error.code(), message);
}

Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op_name) {
  std::size_t rank = std::max(a.size(), b.size());
  Shape out(rank, Dim(1));
  for (std::size_t back = 1; back <= rank; ++back) {
    Dim x = back <= a.size() ? a[a.size() - back] : Dim(1);
    Dim y = back <= b.size() ? b[b.size() - back] : Dim(1);
    std::optional<Dim> size = broadcast_dim(x, y);
    if (!size) {
      const char* why = x.is_const() && y.is_const()
                            ? " (sizes must be equal, or one of them 1)"
                            : " (they are not known to be equal; use the same symbol for both, or "
                              "symbols whose range excludes 1)";
      throw SizesDiffer(str(op_name, ": shapes ", text_of(a), " and ", text_of(b),
                            " do not broadcast: ", x, " against ", y, " at axis -", back, why),
                        x, y);
    }
    out[rank - back] = *size;
  }
  return out;
}

}  // namespace gex
