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
  T* row_max;  // [kQueryRows]
  T* row_sum;  // [kQueryRows]
  T* panels;   // [kKeyBlock/panel][kDepth][panel]
  T* values;   // [value_stride/panel][kDepth][panel]
  T* sums;     // [kQueryRows][value_stride]: not yet divided by row_sum
  T* q;        // [ceil(head_size/kDepth)][kQueryRows][kDepthStride]
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
    row_sum = row_max + kQueryRows;
    panels = row_sum + kQueryRows;
    values = panels + kKeyBlock * kDepth;
    sums = values + kKeyBlock * value_stride;
    q = sums + kQueryRows * value_stride;
  }

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

  void pack_queries(i64 batch, i64 kv_head, i64 row0, i64 row1) {
    for_each_head(row0, row1, [&](i64 head, i64 query, i64 at, i64 count) {
      const MatrixView view =
          operand(0, attention_dims::q_strides, batch, kv_head * group + head, made_q);
      for (i64 d = 0; d < head_size; d += kDepth)
        pack_view(q + (d / kDepth * kQueryRows + at) * kDepthStride, kDepthStride, count,
                  smaller(kDepth, head_size - d), view, query, d);
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

  // Replaces scores by exponentials relative to the largest score so far and rescales the previous
  // sums. Rows without any visible key so far keep a sum of 0.
  void soften_row(i64 r, i64 n) {
    constexpr int lanes = kLanes<T>;
    T* row = weights + r * kDepthStride;
    const T hidden = -__builtin_inf();
    for (i64 j = n; j < round_up(n, lanes); ++j) row[j] = hidden;
    Vec<T> top = splat(hidden);
    for (i64 j = 0; j < n; j += lanes) {
      const Vec<T> v = load<T>(row + j);
      top = v > top ? v : top;
    }
    T highest = row_max[r];
    for (int i = 0; i < lanes; ++i) highest = top[i] > highest ? top[i] : highest;
    const T reference = highest == hidden ? T{} : highest;
    const T keep = exp_of(splat(row_max[r] - reference))[0];
    Vec<T> total{};
    for (i64 j = 0; j < n; j += lanes) {
      const Vec<T> e = exp_of(load<T>(row + j) - reference);
      store(row + j, e);
      total += e;
    }
    row_sum[r] = row_sum[r] * keep + sum_of_lanes<T>(total);
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

  void write_rows(i64 batch, i64 kv_head, i64 row0, i64 row1) {
    const i64* s = dims + attention_dims::out_strides;
    void* out = buffers[context.mask == MaskKind::none ? 3 : 4];
    const bool nan_if_fully_masked = context.nan_if_fully_masked && keys > 0;
    for_each_head(row0, row1, [&](i64 head, i64 query, i64 at, i64 count) {
      for (i64 i = 0; i < count; ++i) {
        T* sum = sums + (at + i) * value_stride;
        const T total = row_sum[at + i];
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

  void run_unit(i64 batch, i64 kv_head, i64 row0, i64 row1) {
    const i64 count = row1 - row0;
    const MatrixView k = operand(1, attention_dims::k_strides, batch, kv_head, made_k);
    const MatrixView v = operand(2, attention_dims::v_strides, batch, kv_head, made_v);
    const bool few = rows <= kFewRows && k.col_stride == 1 && v.col_stride == 1;
    for (i64 r = 0; r < count; ++r) {
      row_max[r] = -__builtin_inf();
      row_sum[r] = T{};
      for (i64 c = 0; c < value_stride; ++c) sums[r * value_stride + c] = T{};
    }
    pack_queries(batch, kv_head, row0, row1);
    i64 last_key = 0;
    for_each_head(row0, row1, [&](i64, i64 query, i64, i64 n) {
      last_key = larger(last_key, visible_keys(query + n - 1));
    });
    for (i64 key0 = 0; key0 < last_key; key0 += kKeyBlock) {
      const i64 n = smaller(kKeyBlock, last_key - key0);
      score(k, count, key0, n, few);
      for_each_head(row0, row1, [&](i64 head, i64 query, i64 at, i64 heads_rows) {
        for (i64 i = 0; i < heads_rows; ++i) {
          mask_row(weights + (at + i) * kDepthStride, batch, kv_head * group + head, query + i,
                   key0, n);
          soften_row(at + i, n);
        }
      });
      add_values(v, count, key0, n, few);
    }
    write_rows(batch, kv_head, row0, row1);
  }

  void run(i64 begin, i64 end) {
    const i64 blocks = ceil_div(rows, kQueryRows), kv_heads = dims[attention_dims::kv_heads];
    for (i64 unit = begin; unit < end; ++unit) {
      // First, last, second, ...: under causality later rows cost more, and this way any range of
      // units has about the same cost.
      const i64 turn = unit % blocks, block = turn % 2 ? blocks - 1 - turn / 2 : turn / 2;
      const i64 row0 = block * kQueryRows;
      run_unit(unit / blocks / kv_heads, unit / blocks % kv_heads, row0,
               smaller(rows, row0 + kQueryRows));
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
