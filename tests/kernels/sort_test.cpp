#include "backend/cpu/kernels/sort.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "problems/sort.hpp"
#include "support.hpp"

namespace gex::test {

using namespace gex::kernels;
namespace {

using kernels::SortProblem;

// Values with ties, both zeros, infinities and NaN.
HostTensor awkward(std::mt19937& rng, DType dtype, i64 elements) {
  HostTensor t(dtype, {elements});
  const double inf = std::numeric_limits<double>::infinity();
  const double special[] = {0.0, -0.0, inf, -inf, std::nan(""), 1, -1};
  for (i64 i = 0; i < elements; ++i) {
    const double number = static_cast<double>(rng() % 41) - 20;
    if (is_float(dtype) && rng() % 4 == 0) {
      t.set(i, special[rng() % 7]);
    } else {
      t.set(i, dtype == DType::u8 || dtype == DType::boolean ? std::abs(number) : number);
    }
  }
  return t;
}

// NaN is the largest.
bool less(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

std::vector<i64> sorted_indices(const std::vector<double>& row, bool descending) {
  std::vector<i64> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](i64 a, i64 b) {
    return descending ? less(row[b], row[a]) : less(row[a], row[b]);
  });
  return order;
}

// Rows of a [rows, length] matrix that lies transposed in memory, `kept` of each.
void check(SortProblem p, i64 rows, i64 length, i64 kept, std::mt19937& rng) {
  SCOPED_TRACE(str(p.dtype, " rows ", rows, " length ", length, " kept ", kept, " descending ",
                   p.descending));
  p.batch_rank = 1;
  HostTensor x = awkward(rng, p.dtype, rows * length);
  HostTensor values(p.dtype, {rows * kept}), places(DType::i64, {rows * kept});
  std::vector<i64> dims = {length, kept, rows, 1, rows};
  std::vector<void*> buffers = {x.data()};
  if (p.values) {
    dims.insert(dims.end(), {kept, 1});
    buffers.push_back(values.data());
  }
  if (p.indices) {
    dims.insert(dims.end(), {1, rows});
    buffers.push_back(places.data());
  }
  ASSERT_EQ(static_cast<int>(dims.size()), problems::sort_dims::count(1, p.values + p.indices));
  run_in_steps(make_sort(p), buffers, dims, rows, sort_scratch_bytes(p, length).constant(), 2);
  for (i64 r = 0; r < rows; ++r) {
    std::vector<double> row;
    for (i64 i = 0; i < length; ++i) row.push_back(x.get(i * rows + r));
    const std::vector<i64> order = sorted_indices(row, p.descending);
    for (i64 i = 0; i < kept; ++i) {
      const double want = row[order[i]];
      if (p.indices) {
        ASSERT_EQ(places.get_int(i * rows + r), order[i]) << "row " << r << ", " << i;
      }
      if (!p.values) continue;
      const double got = values.get(r * kept + i);
      ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << got << " for " << want;
      ASSERT_EQ(std::signbit(got), std::signbit(want)) << "zeros keep their sign";
    }
  }
}

TEST(Sort, every_dtype_both_ways_keeps_the_order_of_equals) {
  std::mt19937 rng(3);
  for (int d = 0; d < kDTypeCount; ++d) {
    for (const bool descending : {false, true}) {
      const SortProblem p{.dtype = static_cast<DType>(d), .descending = descending};
      for (const i64 length : {1, 2, 33, 600}) check(p, 3, length, length, rng);
    }
  }
}

TEST(Sort, the_first_few_of_short_and_long_rows) {
  std::mt19937 rng(4);
  for (const DType dtype : {DType::f32, DType::bf16, DType::i64}) {
    for (const bool descending : {false, true}) {
      for (const i64 length : {8, 100, 5000}) {
        for (const i64 kept : {0, 1, 2, 50}) {
          if (kept <= length)
            check({.dtype = dtype, .descending = descending}, 2, length, kept, rng);
        }
      }
    }
  }
}

// One adjacent row, which is searched by vectors if it is long.
void check_adjacent(DType dtype, bool descending, Ties ties, i64 length, i64 kept,
                    const HostTensor& x) {
  SCOPED_TRACE(str(dtype, " length ", length, " kept ", kept, " descending ", descending, " ties ",
                   static_cast<int>(ties)));
  const SortProblem p{.dtype = dtype, .descending = descending, .ties = ties, .values = false};
  HostTensor places(DType::i64, {kept});
  HostTensor row = x;
  run_in_steps(make_sort(p), {row.data(), places.data()}, {length, kept, 1, 1}, 1,
               sort_scratch_bytes(p, length).constant(), 1);
  std::vector<i64> order(static_cast<std::size_t>(length));
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](i64 a, i64 b) {
    return descending ? less(x.get(b), x.get(a)) : less(x.get(a), x.get(b));
  };
  if (ties == Ties::stable)
    std::stable_sort(order.begin(), order.end(), before);
  else
    order_like_eager(order.begin(), length, kept, ties, before);
  for (i64 i = 0; i < kept; ++i)
    ASSERT_EQ(places.get_int(i), order[static_cast<std::size_t>(i)]) << i;
}

TEST(Sort, the_first_few_of_adjacent_rows_leave_ties_as_eager_does) {
  std::mt19937 rng(7);
  std::normal_distribution<double> normal;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const i64 length : {1023, 1024, 5001}) {
      HostTensor different(dtype, {length}), hidden(dtype, {length});
      for (i64 i = 0; i < length; ++i) {
        different.set(i, normal(rng));
        hidden.set(i, i % 40 == 3 ? normal(rng) : -std::numeric_limits<double>::infinity());
      }
      const HostTensor equals = awkward(rng, dtype, length);
      for (const HostTensor* x : {&std::as_const(different), &std::as_const(hidden), &equals})
        for (const bool descending : {false, true})
          for (const Ties ties : {Ties::stable, Ties::as_topk})
            for (const i64 kept : {1, 20, 100})
              check_adjacent(dtype, descending, ties, length, kept, *x);
    }
  }
}

TEST(Sort, only_the_results_that_are_asked_for) {
  std::mt19937 rng(5);
  check({.values = true, .indices = false}, 2, 40, 40, rng);
  check({.values = false, .indices = true}, 2, 40, 7, rng);
}

TEST(Sort, empty_rows_and_no_rows) {
  std::mt19937 rng(6);
  check({}, 3, 0, 0, rng);
  check({}, 0, 5, 5, rng);
}

}  // namespace
}  // namespace gex::test
