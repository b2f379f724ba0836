#include "interp/sort.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace gex::interp {
namespace {

bool is_less(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }
bool is_less(std::int64_t a, std::int64_t b) { return a < b; }

template <class Key>
void sort_places(std::vector<std::int64_t>& places, const std::vector<Key>& keys,
                 std::int64_t length, bool descending, Ties ties) {
  const auto less = [&](std::int64_t a, std::int64_t b) {
    const Key x = keys[static_cast<std::size_t>(a)], y = keys[static_cast<std::size_t>(b)];
    return descending ? is_less(y, x) : is_less(x, y);
  };
  if (ties == Ties::stable) return std::stable_sort(places.begin(), places.end(), less);
  if (length > 0)
    order_like_eager(places.begin(), static_cast<std::int64_t>(places.size()), length, ties, less);
}

}  // namespace

std::vector<HostTensor> sorted_along(const HostTensor& x, std::int64_t axis, std::int64_t length,
                                     bool descending, Ties ties) {
  const auto at = static_cast<std::size_t>(axis);
  const std::int64_t size = x.shape()[at];
  std::vector<std::int64_t> shape = x.shape();
  shape[at] = length;
  HostTensor values(x.dtype(), shape), indices(DType::i64, shape);
  std::int64_t inner = 1, outer = 1;
  for (std::size_t d = 0; d < at; ++d) outer *= shape[d];
  for (std::size_t d = at + 1; d < shape.size(); ++d) inner *= shape[d];
  const std::size_t bytes = size_of(x.dtype());
  std::vector<std::int64_t> places(static_cast<std::size_t>(size));
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  for (std::int64_t row = 0; row < outer * inner; ++row) {
    const std::int64_t first = row / inner * size * inner + row % inner;
    std::iota(places.begin(), places.end(), std::int64_t{0});
    reals.clear();
    integers.clear();
    for (std::int64_t k = 0; k < size; ++k) {
      if (is_float(x.dtype())) {
        reals.push_back(x.get(first + k * inner));
      } else {
        integers.push_back(x.get_int(first + k * inner));
      }
    }
    if (is_float(x.dtype())) {
      sort_places(places, reals, length, descending, ties);
    } else {
      sort_places(places, integers, length, descending, ties);
    }
    const std::int64_t to = row / inner * length * inner + row % inner;
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t place = places[static_cast<std::size_t>(k)];
      std::memcpy(values.data() + static_cast<std::size_t>(to + k * inner) * bytes,
                  x.data() + static_cast<std::size_t>(first + place * inner) * bytes, bytes);
      indices.set_int(to + k * inner, place);
    }
  }
  std::vector<HostTensor> results;
  results.push_back(std::move(values));
  results.push_back(std::move(indices));
  return results;
}

}  // namespace gex::interp
