#pragma once
// Attention of few rows (decode): keys and values are read once, in place, and widened in
// registers, so that the cost is only their memory traffic.

#include <cstdint>

#include "backend/cpu/kernels/simd/attention_masks.hpp"
#include "backend/cpu/kernels/simd/gemv.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class T>
struct FewAttention : AttentionLaunch<T> {
  using Launch = AttentionLaunch<T>;
  using Launch::context;
  using Launch::dims;
  using Launch::head_size;
  using Launch::keys;
  using Launch::rows;
  using Launch::scale;
  using Launch::value_size;

  T *q, *sums, *keys_space, *values_space, *weights, *mask;
  i64 q_stride, sum_stride;
  T row_max[kFewRows], row_sum[kFewRows];

  FewAttention(const AttentionContext& c, void* const* b, const i64* d, T* scratch,
               const AttentionScratch<i64>& space)
      : Launch(c, b, d, reinterpret_cast<std::byte*>(scratch + space.elements())),
        q(scratch),
        sums(q + space.queries),
        keys_space(sums + space.sums),
        values_space(keys_space + space.keys),
        weights(values_space + space.values + space.finished),
        mask(weights + space.scores),
        q_stride(round_up(head_size, 16) + 16),
        sum_stride(round_up(value_size, kPanel<T>)) {}

  // weights[row][key - key0] = q . k
  void score(const MatrixView& k, i64 key0, i64 n) {
    if (k.computed) {
      computed_block(keys_space, k, key0, n, 0, head_size);
      return multiply_few_by_dots(rows, n, head_size, q, q_stride, keys_space, head_size, weights,
                                  kFewScoresStride, false);
    }
    with_storage<T>(k.dtype, k.data, [&](auto* base) {
      multiply_few_by_dots(rows, n, head_size, q, q_stride, base + k.offset + key0 * k.row_stride,
                           k.row_stride, weights, kFewScoresStride, false);
    });
  }

  void add_values(const MatrixView& v, i64 key0, i64 n) {
    if (v.computed) {
      computed_block(values_space, v, key0, n, 0, value_size);
      return multiply_few_by_rows(rows, value_size, n, weights, kFewScoresStride, values_space,
                                  value_size, sums, sum_stride);
    }
    with_storage<T>(v.dtype, v.data, [&](auto* base) {
      multiply_few_by_rows(rows, value_size, n, weights, kFewScoresStride,
                           base + v.offset + key0 * v.row_stride, v.row_stride, sums, sum_stride);
    });
  }

  // Scales the scores of one row, adds the mask and applies causality.
  void mask_scores(T* row, i64 batch, i64 head, i64 query, i64 key0, i64 n, T factor) {
    constexpr int lanes = kLanes<T>;
    if (context.mask != MaskKind::none) mask_row(*this, batch, head, query, key0, n, mask);
    for (i64 j = 0; j < n; j += lanes) {
      Vec<T> s = load<T>(row + j) * factor;
      if (context.mask != MaskKind::none) s += load<T>(mask + j);
      store(row + j, s);
    }
    for (i64 j = larger(i64{0}, this->visible_keys(query) - key0); j < n; ++j) row[j] = kHidden<T>;
  }

  // The largest of the first n elements; the row is padded to whole vectors.
  static T largest_of(const T* row, i64 n) {
    constexpr int lanes = kLanes<T>;
    Vec<T> top = splat(kHidden<T>);
    for (i64 j = 0; j < n; j += lanes) top = larger_of(load<T>(row + j), top);
#pragma GCC unroll 8
    for (int width = lanes / 2; width > 0; width /= 2)
      top = larger_of(Vec<T>(__builtin_shuffle(top, lane_numbers<T>() ^ width)), top);
    return top[0];
  }

  // Turns scores into weights relative to the largest score so far and rescales what was summed
  // before. Rows without any visible key so far keep a sum of 0.
  void soften(T* row, i64 r, i64 n) {
    constexpr int lanes = kLanes<T>;
    for (i64 j = n; j < round_up(n, lanes); ++j) row[j] = kHidden<T>;
    const T highest = larger(row_max[r], largest_of(row, n));
    const T reference = highest == kHidden<T> ? T{} : highest;
    const T keep = row_max[r] == reference ? T{1} : exp2_of(splat(row_max[r] - reference))[0];
    Vec<T> total = {};
    for (i64 j = 0; j < n; j += lanes) {
      const Vec<T> e = exp2_of(load<T>(row + j) - reference);
      store(row + j, e);
      total += e;
    }
    row_sum[r] = row_sum[r] * keep + sum_of_lanes<T>(total);
    row_max[r] = highest;
    if (keep == T{1}) return;
    T* sum = sums + r * sum_stride;
    for (i64 c = 0; c < sum_stride; c += lanes) store(sum + c, load<T>(sum + c) * keep);
  }

  void run_head(i64 batch, i64 kv_head) {
    const MatrixView k = this->keys_of(batch, kv_head), v = this->values_of(batch, kv_head);
    i64 last_key = 0;
    for (i64 i = 0; i < rows * sum_stride; ++i) sums[i] = T{};
    this->for_each_head(0, rows, [&](i64 head, i64 query, i64 at, i64 count) {
      const MatrixView view = this->queries_of(batch, kv_head * this->group + head);
      pack_view(q + at * q_stride, q_stride, count, head_size, view, query, 0);
      for (i64 r = at; r < at + count; ++r) row_max[r] = kHidden<T>, row_sum[r] = T{};
      last_key = larger(last_key, this->visible_keys(query + count - 1));
    });
    const T factor = scale * static_cast<T>(kLog2E);
    const i64 most = Launch::is_computed(context) ? kKeyBlock : kFewKeys;
    for (i64 key0 = 0; key0 < last_key; key0 += most) {
      const i64 n = smaller(most, last_key - key0);
      score(k, key0, n);
      this->for_each_head(0, rows, [&](i64 head, i64 query, i64 at, i64 count) {
        for (i64 r = at; r < at + count; ++r, ++query) {
          T* row = weights + r * kFewScoresStride;
          mask_scores(row, batch, kv_head * this->group + head, query, key0, n, factor);
          soften(row, r, n);
        }
      });
      add_values(v, key0, n);
    }
    this->for_each_head(0, rows, [&](i64 head, i64 query, i64 at, i64 count) {
      for (i64 r = at; r < at + count; ++r, ++query) {
        const T by = this->factor_of(row_sum[r]);
        T* sum = sums + r * sum_stride;
        for (i64 c = 0; c < value_size; ++c) sum[c] *= by;
        this->finish_row(sum, batch, kv_head * this->group + head, query);
      }
    });
  }

  void run(i64 begin, i64 end) {
    const i64 kv_heads = dims[attention_dims::kv_heads];
    for (; begin < end; ++begin) run_head(begin / kv_heads, begin % kv_heads);
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
