// Results whose size depends on the data: NonZero, Compress, Unique, NonMaxSuppression.

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "frontend/onnx/expr.hpp"
#include "ops/rows/nonzero.hpp"

namespace gex::onnx {
namespace {

// The value of all elements, if they are equal by construction.
std::optional<double> value_of_all(Row& r, Value* x) {
  const Node* node = x->is_input() ? nullptr : x->producer();
  if (node != nullptr && node->is("expand")) x = node->input(0);
  const HostTensor* known = x->type().numel() == Dim(1) ? r.state.known(x) : nullptr;
  return known == nullptr ? std::nullopt : std::optional(known->get(0));
}

// The places of elements that are not 0 in x as one row. Their count is known if x is: exporters
// of opsets before 11 write a range as NonZero of ConstantOfShape.
Value* places_of_true(Row& r, Value* x, const char* size_name) {
  Graph& g = r.g;
  if (const auto value = value_of_all(r, x))
    return ops::iota(g, *value != 0 ? x->type().numel() : Dim(0));
  if (const HostTensor* known = r.state.known(x)) {
    std::vector<std::int64_t> places;
    for (std::int64_t k = 0; k < known->numel(); ++k)
      if (known->get(k) != 0) places.push_back(k);
    return ops::constant(g, HostTensor::of_i64({static_cast<std::int64_t>(places.size())}, places));
  }
  Expr mask = x->type().dtype == DType::boolean ? Expr(g, x) : Expr(g, x) != 0;
  return ops::true_places(g, mask, r.state.fresh_symbol(size_name));
}

Items nonzero(Row& r) {
  Graph& g = r.g;
  Value* x = r.in(0);
  if (x->type().rank() == 0) x = ops::reshape(g, x, {1});
  const Shape shape = x->type().shape;
  Expr places(g, places_of_true(r, x, "nonzero"));
  std::vector<Value*> rows(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    // An empty axis selects nothing, but its size must not be a zero divisor.
    Expr size(g, ops::dim_value(g, gex::max(shape[axis], 1)));
    rows[axis] = unsqueeze(binary("mod", places, size), 0);
    places = binary("floor_div", places, size);
  }
  Value* all = rows.size() == 1 ? rows[0] : ops::cat(g, rows, 0);
  if (r.rank() == 0) all = ops::slice(g, all, 0, 0, 0);
  return r.one(all, Elem::i64);
}

Items compress(Row& r) {
  Graph& g = r.g;
  Value* x = r.in(0);
  std::int64_t axis = 0;
  if (r.has_attr("axis"))
    axis = r.axis_attr("axis", 0, r.rank());
  else
    x = ops::reshape(g, x, {product(r.shape())});
  Value* places = places_of_true(r, r.in(1), "kept");
  return r.one(ops::take(g, x, places, axis));
}

// --- Unique: rows of bytes, sorted ---------------------------------------------------------------

// Slice k of the tensor along an axis, flattened.
HostTensor slice_at(const HostTensor& x, std::size_t axis, std::int64_t k) {
  const auto& s = x.shape();
  std::int64_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < s.size(); ++d) (d < axis ? outer : inner) *= d == axis ? 1 : s[d];
  HostTensor out(x.dtype(), {outer * inner});
  const std::size_t size = size_of(x.dtype());
  for (std::int64_t o = 0; o < outer; ++o)
    std::memcpy(out.data() + static_cast<std::size_t>(o * inner) * size,
                x.data() + static_cast<std::size_t>((o * s[axis] + k) * inner) * size,
                static_cast<std::size_t>(inner) * size);
  return out;
}

bool less_rows(const HostTensor& a, const HostTensor& b) {
  for (std::int64_t k = 0; k < a.numel(); ++k) {
    if (gex::is_float(a.dtype())) {
      if (a.get(k) != b.get(k)) return a.get(k) < b.get(k);
    } else if (a.get_int(k) != b.get_int(k)) {
      return a.get_int(k) < b.get_int(k);
    }
  }
  return false;
}

std::vector<HostTensor> unique_of(const HostTensor& x, std::size_t axis, bool sorted) {
  const std::int64_t count = x.shape()[axis];
  std::vector<HostTensor> rows;
  for (std::int64_t k = 0; k < count; ++k) rows.push_back(slice_at(x, axis, k));
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return less_rows(rows[a], rows[b]); });
  std::vector<std::size_t> group(rows.size()), first;
  for (std::size_t k = 0; k < order.size(); ++k) {
    if (k == 0 || less_rows(rows[order[k - 1]], rows[order[k]])) first.push_back(order[k]);
    group[order[k]] = first.size() - 1;
  }
  std::vector<std::size_t> place(first.size());  // of group g in the result
  std::iota(place.begin(), place.end(), 0);
  if (!sorted) {
    std::vector<std::size_t> by_first = place;
    std::ranges::sort(by_first, [&](auto a, auto b) { return first[a] < first[b]; });
    for (std::size_t k = 0; k < by_first.size(); ++k) place[by_first[k]] = k;
  }
  const auto n = static_cast<std::int64_t>(first.size());
  auto shape = x.shape();
  shape[axis] = n;
  HostTensor y(x.dtype(), shape), indices(DType::i64, {n}), inverse(DType::i64, {count}),
      counts(DType::i64, {n});
  std::int64_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < shape.size(); ++d)
    (d < axis ? outer : inner) *= d == axis ? 1 : shape[d];
  const std::size_t size = size_of(x.dtype());
  for (std::size_t k = 0; k < first.size(); ++k) {
    const auto at = static_cast<std::int64_t>(place[k]);
    indices.set_int(at, static_cast<std::int64_t>(first[k]));
    for (std::int64_t o = 0; o < outer; ++o)
      std::memcpy(y.data() + static_cast<std::size_t>((o * n + at) * inner) * size,
                  rows[first[k]].data() + static_cast<std::size_t>(o * inner) * size,
                  static_cast<std::size_t>(inner) * size);
  }
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const auto at = static_cast<std::int64_t>(place[group[k]]);
    inverse.set_int(static_cast<std::int64_t>(k), at);
    counts.set_int(at, counts.get_int(at) + 1);
  }
  return {std::move(y), std::move(indices), std::move(inverse), std::move(counts)};
}

Items unique(Row& r) {
  const bool sorted = r.int_attr("sorted", 1) != 0;
  Value* x = r.in(0);
  std::size_t axis = 0;
  if (r.has_attr("axis"))
    axis = static_cast<std::size_t>(r.axis_attr("axis", 0, r.rank()));
  else
    x = ops::reshape(r.g, x, {product(r.shape())});
  const Dim count = r.state.fresh_symbol("unique");
  Shape shape = x->type().shape;
  const Dim all = shape[axis];
  shape[axis] = count;
  const auto results =
      r.host_call(str(axis, " ", sorted), {x},
                  {Type::tensor(r.dtype(), shape), Type::tensor(DType::i64, {count}),
                   Type::tensor(DType::i64, {all}), Type::tensor(DType::i64, {count})},
                  [axis, sorted](std::span<const HostTensor> in, std::span<const std::int64_t>) {
                    return unique_of(in[0], axis, sorted);
                  });
  Items items{Item::tensor(results[0], r.elem())};
  for (std::size_t k = 1; k < 4; ++k) items.push_back(Item::tensor(results[k], Elem::i64));
  return items;
}

// --- NonMaxSuppression ---------------------------------------------------------------------------

struct Box {
  float y1, x1, y2, x2;
  float area() const { return (y2 - y1) * (x2 - x1); }
};

Box box_at(const float* p, bool centred) {
  if (centred) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
  return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
}

float overlap(const Box& a, const Box& b) {
  const float h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const float w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (h <= 0 || w <= 0) return 0;
  const float both = h * w, either = a.area() + b.area() - both;
  return either <= 0 ? 0 : both / either;
}

HostTensor suppressed(std::span<const HostTensor> in, bool centred) {
  const auto &boxes = in[0], &scores = in[1];
  const std::int64_t batches = scores.shape()[0], classes = scores.shape()[1],
                     count = scores.shape()[2];
  const std::int64_t most = in[2].numel() > 0 ? in[2].get_int(0) : 0;
  const auto limit = static_cast<float>(in[3].numel() > 0 ? in[3].get(0) : 0);
  const bool has_lowest = in[4].numel() > 0;
  const auto lowest = static_cast<float>(has_lowest ? in[4].get(0) : 0);
  std::vector<std::int64_t> chosen;
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t c = 0; c < classes; ++c) {
      const float* s = scores.as<float>() + (b * classes + c) * count;
      std::vector<std::int64_t> order(static_cast<std::size_t>(count)), kept;
      std::iota(order.begin(), order.end(), 0);
      if (has_lowest) std::erase_if(order, [&](auto k) { return !(s[k] > lowest); });
      std::ranges::stable_sort(order, [&](auto i, auto j) { return s[i] > s[j]; });
      for (const std::int64_t k : order) {
        if (static_cast<std::int64_t>(kept.size()) >= most) break;
        const Box box = box_at(boxes.as<float>() + (b * count + k) * 4, centred);
        const bool free = std::ranges::all_of(kept, [&](auto other) {
          return overlap(box, box_at(boxes.as<float>() + (b * count + other) * 4, centred)) <=
                 limit;
        });
        if (!free) continue;
        kept.push_back(k);
        chosen.insert(chosen.end(), {b, c, k});
      }
    }
  }
  return HostTensor::of_i64({static_cast<std::int64_t>(chosen.size()) / 3, 3}, chosen);
}

Items non_max_suppression(Row& r) {
  Graph& g = r.g;
  const bool centred = r.int_attr("center_point_box", 0) != 0;
  const auto optional = [&](std::size_t i, DType t) {
    return r.has(i) ? ops::reshape(g, r.in(i), {1}) : ops::full(g, t, 0, {0});
  };
  const Dim count = r.state.fresh_symbol("boxes");
  return r.one(
      r.host_call(str(centred),
                  {r.in(0), r.in(1), optional(2, DType::i64), optional(3, DType::f32),
                   optional(4, DType::f32)},
                  {Type::tensor(DType::i64, {count, Dim(3)})},
                  [centred](std::span<const HostTensor> in, std::span<const std::int64_t>) {
                    return std::vector{suppressed(in, centred)};
                  })[0],
      Elem::i64);
}

}  // namespace

void add_select_rows() {
  add_row("NonZero", nonzero);
  add_row("Compress", compress);
  add_row("Unique", unique);
  add_row("NonMaxSuppression", non_max_suppression);
}

}  // namespace gex::onnx
