#pragma once
// One launch of attention, shared by its forms: operands as matrices, which keys a query may see,
// and the output of finished rows.
//
// The query heads that share a key-value head form one matrix of group*queries rows, so that keys
// and values are read once for all of them.

#include <cstdint>

#include "backend/cpu/kernels/attention_scratch.hpp"
#include "backend/cpu/kernels/simd/gemm.hpp"
#include "backend/cpu/kernels/simd/tile_io.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class T>
struct AttentionLaunch {
  const AttentionContext& context;
  void* const* buffers;
  const i64* dims;
  i64 group, queries, keys, head_size, value_size, rows;
  T scale;
  BoundPrologue made_q, made_k, made_v, made_mask;
  BoundEpilogue epilogue;

  // `rest`: scratch after that of the form.
  AttentionLaunch(const AttentionContext& c, void* const* b, const i64* d, std::byte* rest)
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
        made_q(c.prologues[0], b, d, rest),
        made_k(c.prologues[1], b, d, rest),
        made_v(c.prologues[2], b, d, rest),
        made_mask(c.prologues[3], b, d, rest),
        epilogue(c.epilogue, b + (c.mask == MaskKind::none ? 3 : 4), d,
                 rest + (is_computed(c) ? staged_bytes<T>() : 0)) {}

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
  MatrixView queries_of(i64 batch, i64 head) {
    return operand(0, attention_dims::q_strides, batch, head, made_q);
  }
  MatrixView keys_of(i64 batch, i64 kv_head) {
    return operand(1, attention_dims::k_strides, batch, kv_head, made_k);
  }
  MatrixView values_of(i64 batch, i64 kv_head) {
    return operand(2, attention_dims::v_strides, batch, kv_head, made_v);
  }

  // Rows may span several query heads; each run of one head is a matrix: fn(head, first query,
  // first row - row0, rows).
  template <class Fn>
  void for_each_head(i64 row0, i64 row1, const Fn& fn) const {
    for (i64 row = row0; row < row1;) {
      const i64 head = row / queries, query = row % queries;
      const i64 count = smaller(queries - query, row1 - row);
      fn(head, query, row - row0, count);
      row += count;
    }
  }

  // What the sum of the weighted values of a row is multiplied by. A query without visible keys
  // gives zeros, or 0 / 0 = NaN.
  T factor_of(T total) const {
    const bool nan_if_fully_masked = context.nan_if_fully_masked && keys > 0;
    return total == T{} && !nan_if_fully_masked ? T{} : T{1} / total;
  }

  // `head` counts all heads.
  void finish_row(const T* values, i64 batch, i64 head, i64 query) {
    if (context.epilogue.fn) {
      const i64 row = (batch * dims[attention_dims::heads] + head) * queries + query;
      return epilogue.run(values, row * value_size, value_size);
    }
    const i64* s = dims + attention_dims::out_strides;
    store_row(values, value_size, context.out, buffers[context.mask == MaskKind::none ? 3 : 4],
              batch * s[0] + head * s[1] + query * s[2], s[3]);
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
