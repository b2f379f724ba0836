#pragma once
// softmax(Q*K^T*scale + mask)*V by an online softmax over blocks of keys: only the scores of one
// block of queries and keys exist at a time, in scratch.
//
// The query heads that share a key-value head form one matrix of group*queries rows, so that keys
// and values are read once for all of them.

#include <cstdint>

#include "backend/cpu/kernels/attention_scratch.hpp"
#include "backend/cpu/kernels/simd/exp.hpp"
#include "backend/cpu/kernels/simd/gemm.hpp"
#include "backend/cpu/kernels/simd/gemv.hpp"
#include "backend/cpu/kernels/simd/tile_io.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class T>
struct Attention {
  const AttentionContext& context;
  void* const* buffers;
  const i64* dims;
  i64 group, queries, keys, head_size, value_size, rows;
  T scale;
  // Scratch, in the order of attention_scratch_bytes().
  T* weights;  // [kQueryRows][kDepthStride]: scores, then their exponentials
  T* row_max;  // [kQueryBlock]
  T* row_sum;  // [kQueryBlock]
  T* panels;   // [kKeyBlock/panel][kDepth][panel]
  T* values;   // [value_stride/panel][kDepth][panel]
  T* sums;     // [kQueryBlock][value_stride]: not yet divided by row_sum
  T* q;        // [kQueryBlock][kDepthStride], or [ceil(head_size/kDepth)][kQueryRows][kDepthStride]
  i64 value_stride;
  BoundPrologue made_q, made_k, made_v, made_mask;
  BoundEpilogue epilogue;

  // `rest`: scratch after all of the above.
  Attention(const AttentionContext& c, void* const* b, const i64* d, std::byte* scratch,
            std::byte* rest)
      : context(c),
        buffers(b),
        dims(d),
        group(d[attention_dims::heads] / d[attention_dims::kv_heads]),
        queries(d[attention_dims::queries]),
        keys(d[attention_dims::keys]),
        head_size(d[attention_dims::head_size]),
        value_size(d[attention_dims::value_size]),
        rows(group * queries),
        scale(static_cast<T>(c.has_scale ? c.scale
                                         : 1 / __builtin_sqrt(static_cast<double>(head_size)))),
        value_stride(round_up(value_size, kPanel<T>)),
        made_q(c.prologues[0], b, d, rest),
        made_k(c.prologues[1], b, d, rest),
        made_v(c.prologues[2], b, d, rest),
        made_mask(c.prologues[3], b, d, rest),
        epilogue(c.epilogue, b + (c.mask == MaskKind::none ? 3 : 4), d,
                 rest + (is_computed(c) ? staged_bytes<T>() : 0)) {
    weights = reinterpret_cast<T*>(scratch);
    row_max = weights + kQueryRows * kDepthStride;
    row_sum = row_max + kQueryBlock;
    panels = row_sum + kQueryBlock;
    values = panels + kKeyBlock * kDepth;
    sums = values + kKeyBlock * value_stride;
    q = sums + kQueryBlock * value_stride;
  }

  // The rows of one unit; `slot` is the place of the first in row_max, row_sum, sums and q.
  struct Rows {
    i64 begin, end, slot;
  };

  // Number of keys that a query may see under causality.
  i64 visible_keys(i64 query) const {
    switch (context.causal) {
      case Causal::none:
        return keys;
      case Causal::top_left:
        return smaller(keys, query + 1);
      default:
        return larger(i64{0}, smaller(keys, query + 1 + keys - queries));
    }
  }

  static bool is_computed(const AttentionContext& c) {
    for (const PrologueCall& prologue : c.prologues)
      if (prologue.fn) return true;
    return false;
  }

  MatrixView operand(int index, int at, i64 batch, i64 head, BoundPrologue& made) const {
    const i64* s = dims + at;
    return {buffers[index], context.qkv, batch * s[0] + head * s[1],
            s[2],           s[3],        context.prologues[index].fn ? &made : nullptr};
  }

  // Rows of one unit may span several query heads; each run of one head is a matrix.
  template <class Fn>
  void for_each_head(i64 row0, i64 row1, const Fn& fn) const {
    for (i64 row = row0; row < row1;) {
      const i64 head = row / queries, query = row % queries;
      const i64 count = smaller(queries - query, row1 - row);
      fn(head, query, row - row0, count);
      row += count;
    }
  }

  // Keys that any of these rows may see.
  i64 visible_rows(i64 row0, i64 row1) const {
    i64 most = 0;
    for_each_head(row0, row1, [&](i64, i64 query, i64, i64 count) {
      most = larger(most, visible_keys(query + count - 1));
    });
    return most;
  }

  void pack_queries(i64 batch, i64 kv_head, const Rows& unit) {
    for_each_head(unit.begin, unit.end, [&](i64 head, i64 query, i64 at, i64 count) {
      const MatrixView view =
          operand(0, attention_dims::q_strides, batch, kv_head * group + head, made_q);
      for (i64 d = 0; d < head_size; d += kDepth)
        pack_view(q + (d / kDepth * kQueryRows + unit.slot + at) * kDepthStride, kDepthStride,
                  count, smaller(kDepth, head_size - d), view, query, d);
    });
  }

  // weights[row][key - key0] = q . k for one block of keys.
  void score(const MatrixView& k, i64 count, i64 key0, i64 n, bool few) {
    if (head_size == 0) {
      for (i64 r = 0; r < count; ++r)
        for (i64 j = 0; j < n; ++j) weights[r * kDepthStride + j] = T{};
      return;
    }
    const MatrixView transposed = k.transposed();
    for (i64 d = 0; d < head_size; d += kDepth) {
      const i64 slice = smaller(kDepth, head_size - d);
      const T* left = q + d / kDepth * kQueryRows * kDepthStride;
      if (few && k.computed) {
        computed_block(panels, k, key0, n, d, slice);
        multiply_few_by_dots(count, n, slice, left, kDepthStride, panels, slice, weights,
                             kDepthStride, d > 0);
      } else if (few) {
        with_storage<T>(k.dtype, k.data, [&](auto* base) {
          multiply_few_by_dots(count, n, slice, left, kDepthStride,
                               base + k.offset + key0 * k.row_stride + d, k.row_stride, weights,
                               kDepthStride, d > 0);
        });
      } else {
        pack_panels(panels, transposed, d, slice, key0, n);
        multiply_packed(count, n, slice, left, panels, kDepth * kPanel<T>, weights, kDepthStride,
                        d > 0);
      }
    }
  }

  // Whether scaling is all that the scores of one row need.
  bool only_scales(i64 query, i64 key0, i64 n) const {
    return context.mask == MaskKind::none && scale > T{} && visible_keys(query) >= key0 + n;
  }

  // Scales the scores of one row, adds the mask and applies causality.
  void mask_row(T* row, i64 batch, i64 head, i64 query, i64 key0, i64 n) {
    for (i64 j = 0; j < n; ++j) row[j] *= scale;
    const T hidden = -__builtin_inf();
    if (context.mask != MaskKind::none) {
      const i64* s = dims + attention_dims::mask_strides;
      const i64 offset = batch * s[0] + head * s[1] + query * s[2] + key0 * s[3];
      if (context.prologues[3].fn) {
        T* mask = reinterpret_cast<T*>(made_mask.staging);
        made_mask.fill(mask, offset, n);
        const bool boolean = context.mask == MaskKind::boolean;
        for (i64 j = 0; j < n; ++j)
          row[j] = !boolean ? row[j] + mask[j] : mask[j] != T{} ? row[j] : hidden;
      } else if (context.mask == MaskKind::boolean) {
        const auto* mask = static_cast<const std::uint8_t*>(buffers[3]) + offset;
        for (i64 j = 0; j < n; ++j) row[j] = mask[j * s[3]] ? row[j] : hidden;
      } else {
        with_storage<T>(context.mask_dtype, buffers[3], [&](auto* base) {
          for (i64 j = 0; j < n; ++j) row[j] += widen(base[offset + j * s[3]]);
        });
      }
    }
    for (i64 j = larger(i64{0}, visible_keys(query) - key0); j < n; ++j) row[j] = hidden;
  }

  // Of the first n elements; the row is filled up to whole vectors.
  static T largest_of(const T* row, i64 n) {
    constexpr int lanes = kLanes<T>;
    Vec<T> top[2] = {load<T>(row), load<T>(row)};
    i64 j = lanes;
    for (; j + lanes < n; j += 2 * lanes) {
      top[0] = larger_of(load<T>(row + j), top[0]);
      top[1] = larger_of(load<T>(row + j + lanes), top[1]);
    }
    if (j < n) top[0] = larger_of(load<T>(row + j), top[0]);
    top[0] = larger_of(top[1], top[0]);
#pragma GCC unroll 8
    for (int width = lanes / 2; width > 0; width /= 2)
      top[0] = larger_of(Vec<T>(__builtin_shuffle(top[0], lane_numbers<T>() ^ width)), top[0]);
    return top[0][0];
  }

  // Turns scores, still to be multiplied by `factor` > 0, into exponentials relative to the largest
  // score so far and rescales what was summed before. Rows without any visible key so far keep a
  // sum of 0.
  void soften_row(T* row, i64 r, i64 n, T factor) {
    constexpr int lanes = kLanes<T>;
    const T hidden = -__builtin_inf();
    for (i64 j = n; j < round_up(n, lanes); ++j) row[j] = hidden;
    const T largest = largest_of(row, n);
    const T highest = larger(row_max[r], largest * factor);
    const T reference = highest == hidden ? T{} : highest;
    const T keep = row_max[r] == reference ? T{1} : exp_of(splat(row_max[r] - reference))[0];
    const Vec<T> times = splat(factor), minus = splat(-reference);
    Vec<T> total[2] = {};
    i64 j = 0;
    for (; j + lanes < n; j += 2 * lanes)
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const Vec<T> e = exp_of(mul_add(load<T>(row + j + i * lanes), times, minus));
        store(row + j + i * lanes, e);
        total[i] += e;
      }
    if (j < n) {
      const Vec<T> e = exp_of(mul_add(load<T>(row + j), times, minus));
      store(row + j, e);
      total[0] += e;
    }
    row_sum[r] = row_sum[r] * keep + sum_of_lanes<T>(total[0] + total[1]);
    row_max[r] = highest;
    if (keep == T{1}) return;
    T* sum = sums + r * value_stride;
    for (i64 c = 0; c < value_stride; c += lanes) store(sum + c, load<T>(sum + c) * keep);
  }

  void add_values(const MatrixView& v, i64 count, i64 key0, i64 n, bool few) {
    if (few && v.computed) {
      computed_block(values, v, key0, n, 0, value_size);
      multiply_few_by_rows(count, value_size, n, weights, kDepthStride, values, value_size, sums,
                           value_stride);
    } else if (few) {
      with_storage<T>(v.dtype, v.data, [&](auto* base) {
        multiply_few_by_rows(count, value_size, n, weights, kDepthStride,
                             base + v.offset + key0 * v.row_stride, v.row_stride, sums,
                             value_stride);
      });
    } else {
      pack_panels(values, v, key0, n, 0, value_size);
      multiply_packed(count, value_size, n, weights, values, kDepth * kPanel<T>, sums, value_stride,
                      true);
    }
  }

  void write_rows(i64 batch, i64 kv_head, const Rows& unit) {
    const i64* s = dims + attention_dims::out_strides;
    void* out = buffers[context.mask == MaskKind::none ? 3 : 4];
    const bool nan_if_fully_masked = context.nan_if_fully_masked && keys > 0;
    for_each_head(unit.begin, unit.end, [&](i64 head, i64 query, i64 at, i64 count) {
      for (i64 i = 0; i < count; ++i) {
        T* sum = sums + (unit.slot + at + i) * value_stride;
        const T total = row_sum[unit.slot + at + i];
        // A query without visible keys gives zeros, or 0 / 0 = NaN.
        const T factor = total == T{} && !nan_if_fully_masked ? T{} : T{1} / total;
        for (i64 c = 0; c < value_size; ++c) sum[c] *= factor;
        const i64 all_heads = dims[attention_dims::heads], at_head = kv_head * group + head;
        if (context.epilogue.fn)
          epilogue.run(sum, ((batch * all_heads + at_head) * queries + query + i) * value_size,
                       value_size);
        else
          store_row(sum, value_size, context.out, out,
                    batch * s[0] + at_head * s[1] + (query + i) * s[2], s[3]);
      }
    });
  }

  // Scores of rows [first, last) of a unit, from `scores` on.
  void soften_rows(T* scores, i64 batch, i64 kv_head, const Rows& unit, i64 first, i64 last,
                   i64 key0, i64 n) {
    for_each_head(unit.begin + first, unit.begin + last,
                  [&](i64 head, i64 query, i64 at, i64 count) {
                    for (i64 i = at; i < at + count; ++i, ++query) {
                      T* row = scores + i * kDepthStride;
                      const bool scaled = !only_scales(query, key0, n);
                      if (scaled) mask_row(row, batch, kv_head * group + head, query, key0, n);
                      soften_row(row, unit.slot + first + i, n, scaled ? T{1} : scale);
                    }
                  });
  }

  // One block of packed keys for all rows of a unit, a few rows at a time: their scores stay in the
  // first-level cache until they have met the values.
  void run_row_groups(i64 batch, i64 kv_head, const Rows& unit, i64 key0, i64 n) {
    const i64 count = unit.end - unit.begin, groups = ceil_div(count, kMicroRows);
    for (i64 g = 0; g < groups; ++g) {
      const i64 first = count * g / groups, last = count * (g + 1) / groups;
      const i64 seen = smaller(n, visible_rows(unit.begin + first, unit.begin + last) - key0);
      if (seen <= 0) continue;
      const i64 slot = unit.slot + first;
      multiply_packed(last - first, seen, head_size, q + slot * kDepthStride, panels,
                      kDepth * kPanel<T>, weights, kDepthStride, false);
      soften_rows(weights, batch, kv_head, unit, first, last, key0, seen);
      multiply_packed(last - first, value_size, seen, weights, values, kDepth * kPanel<T>,
                      sums + slot * value_stride, value_stride, true);
    }
  }

  // The rows of unit number `turn` of a head.
  Rows rows_of(i64 turn, i64 slot) const {
    // First, last, second, ...: under causality later rows cost more, and this way any range of
    // units has about the same cost.
    const i64 units = ceil_div(rows, kQueryRows);
    const i64 row = (turn % 2 ? units - 1 - turn / 2 : turn / 2) * kQueryRows;
    return {row, smaller(rows, row + kQueryRows), slot * kQueryRows};
  }

  // Whether keys and values are packed in blocks that serve several units.
  bool by_blocks(const MatrixView& k, const MatrixView& v) const {
    return !reads_few(k, v) && head_size > 0 && head_size <= kDepth;
  }
  bool reads_few(const MatrixView& k, const MatrixView& v) const {
    return rows <= kFewRows && k.col_stride == 1 && v.col_stride == 1;
  }

  // At most kQueryBlock / kQueryRows units of a head; without packed blocks, one.
  void run_units(i64 batch, i64 kv_head, const MatrixView& k, const MatrixView& v, i64 turn,
                 i64 count) {
    Rows units[kQueryBlock / kQueryRows];
    i64 last_key = 0;
    for (i64 u = 0; u < count; ++u) {
      const Rows& unit = units[u] = rows_of(turn + u, u);
      const i64 last = unit.slot + unit.end - unit.begin;
      for (i64 r = unit.slot; r < last; ++r) {
        row_max[r] = -__builtin_inf();
        row_sum[r] = T{};
        for (i64 c = 0; c < value_stride; ++c) sums[r * value_stride + c] = T{};
      }
      pack_queries(batch, kv_head, unit);
      last_key = larger(last_key, visible_rows(unit.begin, unit.end));
    }
    const bool few = reads_few(k, v), packed = by_blocks(k, v);
    for (i64 key0 = 0; key0 < last_key; key0 += kKeyBlock) {
      const i64 n = smaller(kKeyBlock, last_key - key0);
      if (packed) {
        pack_panels(panels, k.transposed(), 0, head_size, key0, n);
        pack_panels(values, v, key0, n, 0, value_size);
        for (i64 u = 0; u < count; ++u) run_row_groups(batch, kv_head, units[u], key0, n);
        continue;
      }
      const i64 height = units[0].end - units[0].begin;
      score(k, height, key0, n, few);
      soften_rows(weights, batch, kv_head, units[0], 0, height, key0, n);
      add_values(v, height, key0, n, few);
    }
    for (i64 u = 0; u < count; ++u) write_rows(batch, kv_head, units[u]);
  }

  void run(i64 begin, i64 end) {
    const i64 units = ceil_div(rows, kQueryRows), kv_heads = dims[attention_dims::kv_heads];
    while (begin < end) {
      const i64 head = begin / units, batch = head / kv_heads, kv_head = head % kv_heads;
      const MatrixView k = operand(1, attention_dims::k_strides, batch, kv_head, made_k);
      const MatrixView v = operand(2, attention_dims::v_strides, batch, kv_head, made_v);
      const i64 most = by_blocks(k, v) ? kQueryBlock / kQueryRows : 1;
      const i64 left = smaller(end, (head + 1) * units) - begin;
      const i64 count = ceil_div(left, ceil_div(left, most));  // blocks of about the same size
      run_units(batch, kv_head, k, v, begin % units, count);
      begin += count;
    }
  }
};

void attention(const void* context, void* const* buffers, const i64* dims, i64 begin, i64 end,
               std::byte* scratch) {
  const auto& c = *static_cast<const AttentionContext*>(context);
  const auto run = [&]<class T>(T) {
    const i64 elements =
        attention_scratch_elements(ceil_div(dims[attention_dims::head_size], kDepth),
                                   round_up(dims[attention_dims::value_size], kPanel<T>));
    Attention<T>(c, buffers, dims, scratch, scratch + elements * static_cast<i64>(sizeof(T)))
        .run(begin, end);
  };
  if (c.qkv == DType::f64)
    run(double{});
  else
    run(float{});
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
