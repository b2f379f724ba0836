#pragma once
// softmax(Q*K^T*scale + mask)*V by an online softmax over blocks of keys: only the scores of a
// panel of queries and a block of keys exist at a time, in scratch.
//
// Queries are in the lanes of vectors: K*Q^T gives scores [key][query], their softmax needs no sums
// across lanes, and V^T * weights gives sums [value][query]. Elements of keys and values are
// broadcast, so they are only copied, not rearranged; queries and results are transposed once.

#include <cstdint>

#include "backend/cpu/kernels/simd/attention_masks.hpp"
#include "backend/cpu/kernels/simd/gemm_in_place.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// How operands become words of Products<T>, here numbers of type T themselves; see
// attention_pairs.hpp for pairs.
template <class T>
struct AttentionWords {
  // Numbers of a word, which are adjacent along the axis that is summed.
  static constexpr i64 kNumbers = 1;

  // dst[word of the head size][lane]
  static void pack_queries(T* dst, const MatrixView& q, i64 query, i64 count, i64 head_size) {
    // In parts, of which a prologue can compute several queries at once.
    constexpr i64 kPart = kStagedElements / kPanel<T>;
    for (i64 d = 0; d < head_size; d += kPart)
      pack_view(dst + d * kPanel<T>, kPanel<T>, smaller(kPart, head_size - d), count,
                q.transposed(), d, query);
  }
  // dst[key][word of the head size]
  static void copy_keys(T* dst, i64 stride, const MatrixView& k, i64 key0, i64 n, i64 head_size) {
    pack_view(dst, stride, n, head_size, k, key0, 0);
  }
  // dst[word of keys][value]
  static void copy_values(T* dst, i64 stride, const MatrixView& v, i64 key0, i64 n,
                          i64 value_size) {
    pack_view(dst, stride, n, value_size, v, key0, 0);
  }
  // Whether rows are words in memory already; then `row` is their beginning.
  static bool in_place(const MatrixView& m) {
    constexpr DType stored = sizeof(T) == 8 ? DType::f64 : DType::f32;
    return m.dtype == stored && !m.computed && m.col_stride == 1;
  }
  static const T* row(const MatrixView& m, i64 row) {
    return static_cast<const T*>(m.data) + m.offset + row * m.row_stride;
  }
  // Words of the weights of kNumbers keys.
  static GEX_INLINE void store_weights(T* dst, const Vec<T> (&weights)[kNumbers]) {
    store(dst, weights[0]);
  }
};

template <class T>
struct PanelAttention : AttentionLaunch<SumOf<T>> {
  using Sum = SumOf<T>;
  using Word = WordOf<T>;
  using Words = AttentionWords<T>;
  using Launch = AttentionLaunch<Sum>;
  using Launch::context;
  using Launch::dims;
  using Launch::group;
  using Launch::head_size;
  using Launch::queries;
  using Launch::rows;
  using Launch::value_size;
  static_assert(sizeof(Word) == sizeof(Sum));
  static constexpr i64 panel = kPanel<Sum>;
  static constexpr int lanes = kLanes<Sum>;
  static_assert(kQueryRows % panel == 0 && kKeyBlock % (4 * Words::kNumbers) == 0);

  // Words of a block of keys or values, copied or in place.
  struct Lines {
    const Word* words;
    i64 stride;
  };
  // Fewer rows than this are not worth copies of keys and values.
  static constexpr i64 kRowsOfCopies = 2 * panel;

  // Scratch, see attention_scratch.hpp.
  Word *q, *keys_copy, *values_copy;
  Sum *sums, *finished, *scores, *mask, *mask_rows, *row_max, *row_sum;
  i64 key_stride, value_stride;
  Sum factor;  // of a score, as a power of 2

  // Rows of a key-value head that are computed together, one in each lane.
  struct Panel {
    i64 row, width;  // first row, and rows
    Word* q;
    Sum *sums, *row_max, *row_sum;
    i64 most_visible, least_visible;  // keys under causality
    bool has_far_keys, again;
  };

  PanelAttention(const AttentionContext& c, void* const* b, const i64* d, Sum* scratch,
                 const AttentionScratch<i64>& space)
      : Launch(c, b, d, reinterpret_cast<std::byte*>(scratch + space.elements())),
        key_stride(round_up(head_size, 16) + 16),
        value_stride(round_up(value_size, 16) + 16),
        factor(this->scale * static_cast<Sum>(kLog2E)) {
    q = reinterpret_cast<Word*>(scratch);
    sums = scratch + space.queries;
    keys_copy = reinterpret_cast<Word*>(sums + space.sums);
    values_copy = keys_copy + space.keys;
    finished = reinterpret_cast<Sum*>(values_copy + space.values);
    scores = finished + space.finished;
    mask = scores + space.scores;
    mask_rows = mask + kKeyBlock * panel;
    row_max = mask + space.masks;
    row_sum = row_max + kQueryBlock;
  }

  static i64 vectors_of(const Panel& p) { return ceil_div(p.width, i64{lanes}); }

  // Calls fn.template operator()<vectors>(first vector) for the vectors of a panel.
  template <class Fn>
  static GEX_INLINE void for_each_vectors(const Panel& p, const Fn& fn) {
    const i64 vectors = vectors_of(p);
    i64 v = 0;
    for (; v + 2 <= vectors; v += 2) fn.template operator()<2>(v);
    if (v < vectors) fn.template operator()<1>(v);
  }

  // out[count][panel] (+)= the words of count lines * right[depth][panel].
  template <bool kRowsAdjacent>
  static void multiply(const Panel& p, i64 count, i64 depth, const Word* left, i64 stride,
                       const Word* right, Sum* out, bool accumulate) {
    const i64 groups = ceil_div(count, i64{kMicroRows});
    for (i64 g = 0; g < groups; ++g) {
      const i64 first = count * g / groups;
      const int lines = static_cast<int>(count * (g + 1) / groups - first);
      const Word* from = left + first * (kRowsAdjacent ? 1 : stride);
      for_each_vectors(p, [&]<int kVectors>(i64 v) __attribute__((always_inline)) {
        in_place_kernel_for<T, kVectors, kRowsAdjacent>(lines)(
            depth, from, stride, right + v * lanes, panel, out + first * panel + v * lanes, panel,
            accumulate);
      });
    }
  }

  void start(Panel& p, i64 batch, i64 kv_head) {
    const i64 words = ceil_div(head_size, Words::kNumbers);
    if (p.width < panel)
      for (i64 i = 0; i < words * panel; ++i) p.q[i] = Word{};
    p.most_visible = 0;
    p.least_visible = this->keys;
    p.has_far_keys = p.again = false;
    this->for_each_head(p.row, p.row + p.width, [&](i64 head, i64 query, i64 at, i64 count) {
      Words::pack_queries(p.q + at, this->queries_of(batch, kv_head * group + head), query, count,
                          head_size);
      p.least_visible = smaller(p.least_visible, this->visible_keys(query));
      p.most_visible = larger(p.most_visible, this->visible_keys(query + count - 1));
    });
    for (i64 i = 0; i < panel; ++i) p.row_max[i] = kHidden<Sum>, p.row_sum[i] = Sum{};
    for (i64 i = 0; i < value_size * panel; ++i) p.sums[i] = Sum{};
  }

  // --- masks ----------------------------------------------------------------------------------

  bool mask_is_same(const Panel& p) const {
    const i64* s = dims + attention_dims::mask_strides;
    const bool one_head = p.row / queries == (p.row + p.width - 1) / queries;
    return s[2] == 0 && (s[1] == 0 || one_head);
  }

  // Reads the mask of a panel for a block of keys: to mask[key] if it is the same for all rows,
  // else to mask_rows[row][key].
  MaskRange<Sum> read_mask_of(const Panel& p, i64 batch, i64 kv_head, i64 key0, i64 n) {
    if (context.mask == MaskKind::none) return {Sum{}, Sum{}};
    const bool same = mask_is_same(p);
    MaskRange<Sum> range;
    for (i64 i = 0; i < (same ? 1 : p.width); ++i) {
      const i64 head = kv_head * group + (p.row + i) / queries;
      range.add(mask_row<Sum>(*this, batch, head, (p.row + i) % queries, key0, n,
                              same ? mask : mask_rows + i * kMaskStride));
    }
    return range;
  }

  // Scores become logarithms of weights, with the mask.
  void scale_and_mask(const Panel& p, bool masked, i64 n) {
    const Vec<Sum> times = splat(factor);
    const bool same = masked && mask_is_same(p);
    if (masked && !same)
      pack_contiguous_cols(mask, panel, round_up(n, i64{lanes}), vectors_of(p) * lanes, mask_rows,
                           kMaskStride);
    for (i64 j = 0; j < n; ++j)
      for (i64 v = 0; v < vectors_of(p); ++v) {
        Sum* at = scores + j * panel + v * lanes;
        Vec<Sum> add = {};
        if (masked) add = same ? splat(mask[j]) : load<Sum>(mask + j * panel + v * lanes);
        store(at, mul_add(load<Sum>(at), times, add));
      }
  }

  void hide_later_keys(const Panel& p, i64 key0, i64 n) {
    Sum visible[panel] = {};
    for (i64 i = 0; i < p.width; ++i)
      visible[i] = static_cast<Sum>(this->visible_keys((p.row + i) % queries) - key0);
    const Vec<Sum> hidden = splat(kHidden<Sum>);
    for (i64 j = larger(i64{0}, p.least_visible - key0); j < n; ++j)
      for (i64 v = 0; v < vectors_of(p); ++v) {
        Sum* at = scores + j * panel + v * lanes;
        const Vec<Sum> key = splat(static_cast<Sum>(j));
        store(at, key < load<Sum>(visible + v * lanes) ? load<Sum>(at) : hidden);
      }
  }

  // --- softmax --------------------------------------------------------------------------------

  static GEX_INLINE Vec<Sum> largest_of(const Sum* column, i64 n) {
    Vec<Sum> top[4];
    for (auto& t : top) t = splat(kHidden<Sum>);
    i64 j = 0;
    for (; j + 4 <= n; j += 4)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) top[i] = larger_of(load<Sum>(column + (j + i) * panel), top[i]);
    for (; j < n; ++j) top[0] = larger_of(load<Sum>(column + j * panel), top[0]);
    return larger_of(larger_of(top[3], top[2]), larger_of(top[1], top[0]));
  }

  // Turns a column of scores into words of weights in its place; returns the sum of the weights.
  static GEX_INLINE Vec<Sum> weigh(Sum* column, i64 n, Vec<Sum> times, Vec<Sum> minus) {
    constexpr i64 kNumbers = Words::kNumbers, kStep = 4 / kNumbers;
    Word* words = reinterpret_cast<Word*>(column);
    Vec<Sum> total[4] = {};
    i64 j = 0;
    for (; j + 4 <= n; j += 4)
#pragma GCC unroll 4
      for (i64 w = 0; w < kStep; ++w) {
        Vec<Sum> weights[kNumbers];
#pragma GCC unroll 2
        for (i64 i = 0; i < kNumbers; ++i) {
          const i64 at = w * kNumbers + i;
          weights[i] = exp2_of(mul_add(load<Sum>(column + (j + at) * panel), times, minus));
          total[at] += weights[i];
        }
        Words::store_weights(words + (j / kNumbers + w) * panel, weights);
      }
    for (; j < n; j += kNumbers) {
      Vec<Sum> weights[kNumbers] = {};
      for (i64 i = 0; i < smaller(kNumbers, n - j); ++i) {
        weights[i] = exp2_of(mul_add(load<Sum>(column + (j + i) * panel), times, minus));
        total[i] += weights[i];
      }
      Words::store_weights(words + j / kNumbers * panel, weights);
    }
    return (total[0] + total[1]) + (total[2] + total[3]);
  }

  // Turns scores, of which `times` makes logarithms, into weights relative to the largest score so
  // far and rescales what was summed before. Rows without any visible key so far keep a sum of 0.
  void soften(const Panel& p, i64 n, Sum times) {
    for (i64 v = 0; v < vectors_of(p); ++v) {
      Sum* column = scores + v * lanes;
      const Vec<Sum> before = load<Sum>(p.row_max + v * lanes);
      const Vec<Sum> highest = larger_of(largest_of(column, n) * times, before);
      const Vec<Sum> reference = highest == splat(kHidden<Sum>) ? Vec<Sum>{} : highest;
      const Vec<Sum> total = weigh(column, n, splat(times), -reference);
      const Vec<Sum> keep = exp2_of(before - reference);
      store(p.row_max + v * lanes, highest);
      store(p.row_sum + v * lanes, mul_add(load<Sum>(p.row_sum + v * lanes), keep, total));
      bool rescales = false;
      for (int i = 0; i < lanes; ++i) rescales |= keep[i] != Sum{1};
      if (!rescales) continue;
      for (i64 c = 0; c < value_size; ++c) {
        Sum* at = p.sums + c * panel + v * lanes;
        store(at, load<Sum>(at) * keep);
      }
    }
  }

  // --- blocks ---------------------------------------------------------------------------------

  // Keys [key0, key0 + n) for one panel. The first pass skips blocks whose mask is far below zero.
  void run_block(Panel& p, i64 batch, i64 kv_head, const Lines& k, const Lines& v, i64 key0,
                 i64 n) {
    n = smaller(n, p.most_visible - key0);
    if (n <= 0) return;
    const MaskRange<Sum> range = read_mask_of(p, batch, kv_head, key0, n);
    if (range.hides_all() || range.is_far() != p.again) {
      p.has_far_keys |= range.is_far();
      return;
    }
    multiply<false>(p, n, ceil_div(head_size, Words::kNumbers), k.words, k.stride, p.q, scores,
                    false);
    // The factor is applied first if it does not keep the order of scores, or if there is a mask.
    const bool scaled = !range.is_zero() || !(factor > Sum{});
    if (scaled) scale_and_mask(p, !range.is_zero(), n);
    if (p.least_visible < key0 + n) hide_later_keys(p, key0, n);
    soften(p, n, scaled ? Sum{1} : factor);
    multiply<true>(p, value_size, ceil_div(n, Words::kNumbers), v.words, v.stride,
                   reinterpret_cast<const Word*>(scores), p.sums, true);
  }

  template <class Copy>
  static Lines lines_of(const MatrixView& m, bool few, i64 key0, const Copy& copy) {
    if constexpr (Words::kNumbers == 1)
      if (few && Words::in_place(m)) return {Words::row(m, key0), m.row_stride};
    return copy();
  }

  void run_keys(Panel* panels, i64 count, i64 batch, i64 kv_head) {
    const MatrixView k = this->keys_of(batch, kv_head), v = this->values_of(batch, kv_head);
    const bool few = rows < kRowsOfCopies;
    i64 last_key = 0;
    for (i64 i = 0; i < count; ++i) last_key = larger(last_key, panels[i].most_visible);
    for (i64 key0 = 0; key0 < last_key; key0 += kKeyBlock) {
      const i64 n = smaller(kKeyBlock, last_key - key0);
      const Lines key_lines = lines_of(k, few, key0, [&] {
        Words::copy_keys(keys_copy, key_stride, k, key0, n, head_size);
        return Lines{keys_copy, key_stride};
      });
      const Lines value_lines = lines_of(v, few, key0, [&] {
        Words::copy_values(values_copy, value_stride, v, key0, n, value_size);
        return Lines{values_copy, value_stride};
      });
      for (i64 i = 0; i < count; ++i)
        run_block(panels[i], batch, kv_head, key_lines, value_lines, key0, n);
    }
  }

  // Panels with a row for which all blocks were skipped: a second pass runs those blocks.
  i64 panels_to_run_again(Panel* panels, i64 count) const {
    i64 again = 0;
    for (i64 i = 0; i < count; ++i) {
      Panel p = panels[i];
      for (i64 r = 0; r < p.width; ++r) p.again |= p.has_far_keys && !(p.row_max[r] > kNear<Sum>);
      if (p.again) panels[again++] = p;
    }
    return again;
  }

  void finish(const Panel& p, i64 batch, i64 kv_head) {
    for (i64 v = 0; v < vectors_of(p); ++v) {
      Vec<Sum> by;
      for (int i = 0; i < lanes; ++i) by[i] = this->factor_of(p.row_sum[v * lanes + i]);
      for (i64 c = 0; c < value_size; ++c) {
        Sum* at = p.sums + c * panel + v * lanes;
        store(at, load<Sum>(at) * by);
      }
    }
    pack_contiguous_cols(finished, value_stride, vectors_of(p) * lanes, value_size, p.sums, panel);
    this->for_each_head(p.row, p.row + p.width, [&](i64 head, i64 query, i64 at, i64 count) {
      for (i64 r = 0; r < count; ++r)
        this->finish_row(finished + (at + r) * value_stride, batch, kv_head * group + head,
                         query + r);
    });
  }

  // At most kQueryBlock / kQueryRows units of a head.
  void run_units(i64 batch, i64 kv_head, i64 turn, i64 count) {
    // First, last, second, ...: under causality later rows cost more, and this way any range of
    // units has about the same cost.
    const i64 units = ceil_div(rows, kQueryRows);
    Panel panels[kQueryBlock / panel];
    i64 used = 0;
    for (; count > 0; --count, ++turn) {
      const i64 first = (turn % 2 ? units - 1 - turn / 2 : turn / 2) * kQueryRows;
      const i64 last = smaller(rows, first + kQueryRows);
      for (i64 row = first; row < last; row += panel, ++used) {
        Panel& p = panels[used];
        p.row = row;
        p.width = smaller(panel, last - row);
        p.q = q + used * panel * round_up(head_size, 16);
        p.sums = sums + used * panel * round_up(value_size, 16);
        p.row_max = row_max + used * panel;
        p.row_sum = row_sum + used * panel;
        start(p, batch, kv_head);
      }
    }
    run_keys(panels, used, batch, kv_head);
    Panel again[kQueryBlock / panel];
    for (i64 i = 0; i < used; ++i) again[i] = panels[i];
    if (const i64 repeated = panels_to_run_again(again, used); repeated > 0)
      run_keys(again, repeated, batch, kv_head);
    for (i64 i = 0; i < used; ++i) finish(panels[i], batch, kv_head);
  }

  void run(i64 begin, i64 end) {
    const i64 units = ceil_div(rows, kQueryRows), kv_heads = dims[attention_dims::kv_heads];
    constexpr i64 most = kQueryBlock / kQueryRows;
    while (begin < end) {
      const i64 head = begin / units;
      const i64 left = smaller(end, (head + 1) * units) - begin;
      const i64 count = ceil_div(left, ceil_div(left, most));  // blocks of about the same size
      run_units(head / kv_heads, head % kv_heads, begin % units, count);
      begin += count;
    }
  }
};

template <class Form, class Sum>
void run_attention(const AttentionContext& c, void* const* buffers, const i64* dims, i64 begin,
                   i64 end, std::byte* scratch) {
  const AttentionScratch<i64> space =
      attention_scratch(ceil_div(dims[attention_dims::head_size], 16),
                        ceil_div(dims[attention_dims::value_size], 16));
  Form(c, buffers, dims, reinterpret_cast<Sum*>(scratch), space).run(begin, end);
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
