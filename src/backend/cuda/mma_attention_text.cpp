#include "backend/cuda/mma_attention_text.hpp"

namespace gex::backend::cuda {

std::string_view mma_attention_tiles_text() {
  return R"cuda(
typedef unsigned short Half;
GEX_FN Half to_half(float v) { return kBf16 ? to_bf16(v) : to_f16(v); }
// 16-byte chunks in panels of `rows` rows.
template <int rows>
GEX_FN u32 piece(u32 tile, int row, int at) {
  return tile + at / 8 * (rows * 128) + row * 128 + (((at & 7) ^ (row & 7)) << 4);
}

// Number of 16-row tiles per warp: two if registers suffice, so that keys and values are read from
// shared memory half as often.
enum { kRowTiles = kValue <= 128 && kPrefillOnly ? 2 : 1, kBlockRows = kDecodeOnly ? 16 : 64 * kRowTiles };
enum { kHeadBytes = (kHead + 63) / 64 * 128, kValueBytes = (kValue + 63) / 64 * 128,
       kStageBytes = 64 * (kHeadBytes + kValueBytes), kQueryBytes = kBlockRows * kHeadBytes };

// 64 rows (keys) of K or V.
template <int size, bool computed, class Operand>
GEX_FN void load_rows(u32 tile, const Operand& operand, i64 first, i64 row_stride, i64 key, i64 keys) {
  if (computed) {
    for (int e = (int)threadIdx.x; e < 64 * size; e += 128) {
      const int row = e / size, d = e % size;
      store_shared(piece<64>(tile, row, d / 8) + d % 8 * 2,
                   key + row < keys ? to_half(operand(first + (key + row) * row_stride + d)) : (Half)0);
    }
    return;
  }
  if constexpr (128 % (size / 8) == 0) {
    // The chunks that a thread copies are a constant number of rows apart.
    const int pieces = size / 8, at = (int)threadIdx.x % pieces, row = (int)threadIdx.x / pieces, apart = 128 / pieces;
    const Half* const from = operand.memory() + first + (key + row) * row_stride + at * 8;
#pragma unroll (size > 128 ? 2 : 8)
    for (int i = 0; i < 64 / apart; ++i) {
      const bool valid = key + row + i * apart < keys;
      copy_async(piece<64>(tile, row + i * apart, at), valid ? from + i * apart * row_stride : operand.memory(), valid);
    }
  } else {
#pragma unroll 4
    for (int e = (int)threadIdx.x; e < size * 8; e += 128) {
      const int row = e / (size / 8), at = e % (size / 8);
      const bool valid = key + row < keys;
      copy_async(piece<64>(tile, row, at), operand.memory() + (valid ? first + (key + row) * row_stride + at * 8 : 0), valid);
    }
  }
}

// Rows are the queries of all heads that share keys, head by head. kPrefill: a block takes 64 or 128
// rows, a warp a quarter of them with all keys of a tile. kFewRows, where that would leave most
// multiprocessors idle: a block takes 16 rows, and its warps share each tile. kDecode: at most 16 rows
// in all; the blocks of a cluster share the keys, too.
enum Form { kPrefill, kFewRows, kDecode };
// The head and the query of a row. 32 bits (aligned_operands): a 64-bit division takes longer than a tile's product.
struct RowOf { u32 head, query; };
GEX_FN RowOf row_of(i64 row, i64 queries) {
  const u32 head = (u32)row / (u32)queries;
  return {head, (u32)row - head * (u32)queries};
}
)cuda";
}

std::string_view mma_attention_text() {
  return R"cuda(
template <Form form>
GEX_FN void attend(const Sizes& s, const Query& load_q, const Key& load_k, const Value& load_v,
                   const Mask& load_mask, const Finish& done, Blocks block, char* shared) {
  const int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
  const int quarter = lane / 8, in_quarter = lane % 8;
  const float infinity = f32_of_bits(0x7f800000u), log2e = 1.4426950408889634f;
  const float scale = (kHasScale ? (float)scale_value() : 1.0f / sqrtf((float)s.head)) * log2e;
  const i64 group = s.heads / s.kv_heads, rows = group * s.queries;
  const bool by_keys = form != kPrefill;  // the warps of a block share the keys of a tile
  const int RT = by_keys ? 1 : kRowTiles;
  constexpr int splits = form == kDecode ? kSplits : 1;
  const int block_rows = by_keys ? 16 : kBlockRows;
  const i64 row_blocks = form == kDecode ? 1 : (rows + block_rows - 1) / block_rows, units = s.batch * s.kv_heads * row_blocks;
  // Pieces of 8 keys that a warp takes at once; half a tile where long rows leave few registers.
  const int NT = by_keys ? 2 : kValue > 128 || RT == 2 ? 4 : 8, passes = by_keys ? 1 : 8 / NT;
  const u32 q_tile = shared_address(shared), ring = q_tile + kQueryBytes;
  for (i64 unit = block.index / splits; unit < units; unit += block.count / splits) {
    const i64 of_head = row_blocks == 1 ? unit : unit / row_blocks;  // of all batches
    const i64 b = of_head / s.kv_heads, kv = of_head - b * s.kv_heads;
    const i64 row0 = (unit - of_head * row_blocks) * block_rows;
    const i64 last_row = int_min(row0 + block_rows, rows) - 1;
    const RowOf last = row_of(last_row, s.queries);
    const i64 key_end = s.visible(row_of(row0, s.queries).head == last.head ? last.query : s.queries - 1);
    const i64 tiles = (key_end + 63) / 64, share = (tiles + splits - 1) / splits;
    const i64 from = splits > 1 ? int_min(cluster_rank() * share, tiles) : 0;
    const int steps = (int)int_min(share, tiles - from);
    const i64 k_first = b * s.k[0] + kv * s.k[1], v_first = b * s.v[0] + kv * s.v[1];
    const auto load = [&](int step) {
      const u32 at = ring + step % kStages * kStageBytes;
      load_rows<kHead, kKeyComputed>(at, load_k, k_first, s.k[2], (from + step) * 64, key_end);
      load_rows<kValue, kValueComputed>(at + 64 * kHeadBytes, load_v, v_first, s.v[2], (from + step) * 64, key_end);
    };
#pragma unroll 1
    for (int step = 0; step < kStages - 1; ++step) {
      if (step < steps) load(step);
      commit_copies();
    }
    for (int e = thread; e < block_rows * (kHead / 8); e += 128) {
      const int r = e / (kHead / 8), at = e % (kHead / 8);
      const i64 row = row0 + r;
      uint4 v = {0, 0, 0, 0};
      if (row < rows) {
        const RowOf of = row_of(row, s.queries);
        const i64 offset = b * s.q[0] + (kv * group + of.head) * s.q[1] + of.query * s.q[2] + at * 8;
        if (kQueryComputed) {
          v.x = to_halves<kBf16>(load_q(offset), load_q(offset + 1));
          v.y = to_halves<kBf16>(load_q(offset + 2), load_q(offset + 3));
          v.z = to_halves<kBf16>(load_q(offset + 4), load_q(offset + 5));
          v.w = to_halves<kBf16>(load_q(offset + 6), load_q(offset + 7));
        } else {
          v = *(const uint4*)(load_q.memory() + offset);
        }
      }
      store_shared(piece<kBlockRows>(q_tile, r, at), v);
    }
    // The rows of this thread: two in each tile of 16.
    const int warp_row = by_keys ? 0 : warp * 16 * RT;
    i64 mask_first[RT][2];
    int end[RT][2], all_see = 0x7fffffff;
#pragma unroll
    for (int r = 0; r < RT; ++r)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const i64 row = row0 + warp_row + r * 16 + g + h * 8;
        const RowOf of = row_of(row, s.queries);
        mask_first[r][h] = b * s.mask[0] + (kv * group + of.head) * s.mask[1] + of.query * s.mask[2];
        end[r][h] = row < rows ? (int)s.visible(of.query) : 0;
        all_see = end[r][h] < all_see ? end[r][h] : all_see;
      }
    float top[RT][2], total[RT][2], out[RT][kValue / 8][4];
#pragma unroll
    for (int r = 0; r < RT; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) top[r][h] = -infinity, total[r][h] = 0.0f;
#pragma unroll
      for (int i = 0; i < kValue / 8; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) out[r][i][e] = 0.0f;
    }
    for (int step = 0; step < steps; ++step) {
      // Requested together with keys and values: few blocks run, and each access takes long.
      float masked[2][4] = {};
      if (by_keys && kMask != 0) {
#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int key = (int)(from + step) * 64 + warp * 16 + t * 2 + j * 8 + e % 2;
            if (key < end[0][e / 2]) masked[j][e] = load_mask(mask_first[0][e / 2] + (i64)key * s.mask[3]);
          }
      }
      wait_copies<kStages - 2>();
      __syncthreads();
      if (step + kStages - 1 < steps) load(step + kStages - 1);
      commit_copies();
      const u32 k_tile = ring + step % kStages * kStageBytes;
      const u32 v_tile = k_tile + 64 * kHeadBytes;
#pragma unroll 1
      for (int pass = 0; pass < passes; ++pass) {
        const int first_key = by_keys ? warp * 16 : pass * NT * 8;
        float score[RT][NT][4];
#pragma unroll
        for (int r = 0; r < RT; ++r)
#pragma unroll
          for (int j = 0; j < NT; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) score[r][j][e] = 0.0f;
#pragma unroll (kHead > 128 ? 1 : 4)
        for (int d = 0; d < kHead / 16; ++d) {
          u32 fq[RT][4];
#pragma unroll
          for (int r = 0; r < RT; ++r)
            load_matrices(fq[r], piece<kBlockRows>(q_tile, warp_row + r * 16 + quarter % 2 * 8 + in_quarter, d * 2 + quarter / 2));
#pragma unroll
          for (int j = 0; j < NT / 2; ++j) {
            u32 fk[4];
            load_matrices(fk, piece<64>(k_tile, first_key + j * 16 + quarter / 2 * 8 + in_quarter, d * 2 + quarter % 2));
#pragma unroll
            for (int r = 0; r < RT; ++r) {
              mma_16816<kBf16>(score[r][2 * j], fq[r], fk[0], fk[1]);
              mma_16816<kBf16>(score[r][2 * j + 1], fq[r], fk[2], fk[3]);
            }
          }
        }
        const int key0 = (int)(from + step) * 64 + first_key;
        const bool hides = kMask != 0 || key0 + NT * 8 > all_see;
#pragma unroll
        for (int r = 0; r < RT; ++r) {
          if (hides) {
#pragma unroll
            for (int j = 0; j < NT; ++j)
#pragma unroll
              for (int e = 0; e < 4; ++e) {
                const int h = e / 2, key = key0 + t * 2 + j * 8 + e % 2;
                float v = score[r][j][e] * scale;
                if (kMask != 0 && key < end[r][h]) {
                  const float m = by_keys ? masked[j % 2][e] : load_mask(mask_first[r][h] + (i64)key * s.mask[3]);
                  if (kMask == 1) v += m * log2e;
                  if (kMask == 2 && m == 0.0f) v = -infinity;
                }
                score[r][j][e] = key >= end[r][h] ? -infinity : v;
              }
          } else {
#pragma unroll
            for (int j = 0; j < NT; ++j)
#pragma unroll
              for (int e = 0; e < 4; ++e) score[r][j][e] *= scale;
          }
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            float largest = top[r][h];
#pragma unroll
            for (int j = 0; j < NT; ++j)
#pragma unroll
              for (int e = 2 * h; e < 2 * h + 2; ++e) largest = score[r][j][e] > largest ? score[r][j][e] : largest;
#pragma unroll
            for (int lanes = 1; lanes < 4; lanes *= 2) {
              const float other = __shfl_xor_sync(0xffffffffu, largest, lanes);
              largest = other > largest ? other : largest;
            }
            const float base = largest == -infinity ? 0.0f : largest;
            const float factor = fast_exp2(top[r][h] - base);
            top[r][h] = largest;
            total[r][h] *= factor;
#pragma unroll
            for (int j = 0; j < NT; ++j)
#pragma unroll
              for (int e = 2 * h; e < 2 * h + 2; ++e) {
                score[r][j][e] = fast_exp2(score[r][j][e] - base);
                total[r][h] += score[r][j][e];
              }
#pragma unroll
            for (int i = 0; i < kValue / 8; ++i) {
              out[r][i][2 * h] *= factor;
              out[r][i][2 * h + 1] *= factor;
            }
          }
        }
#pragma unroll
        for (int j = 0; j < NT / 2; ++j) {
          u32 p[RT][4];
#pragma unroll
          for (int r = 0; r < RT; ++r) {
            p[r][0] = to_halves<kBf16>(score[r][2 * j][0], score[r][2 * j][1]);
            p[r][1] = to_halves<kBf16>(score[r][2 * j][2], score[r][2 * j][3]);
            p[r][2] = to_halves<kBf16>(score[r][2 * j + 1][0], score[r][2 * j + 1][1]);
            p[r][3] = to_halves<kBf16>(score[r][2 * j + 1][2], score[r][2 * j + 1][3]);
          }
#pragma unroll
          for (int i = 0; i < kValue / 16; ++i) {
            u32 fv[4];
            load_matrices_transposed(fv, piece<64>(v_tile, first_key + j * 16 + quarter % 2 * 8 + in_quarter, i * 2 + quarter / 2));
#pragma unroll
            for (int r = 0; r < RT; ++r) {
              mma_16816<kBf16>(out[r][2 * i], p[r], fv[0], fv[1]);
              mma_16816<kBf16>(out[r][2 * i + 1], p[r], fv[2], fv[3]);
            }
          }
        }
      }
    }
    wait_copies<0>();
    __syncthreads();
#pragma unroll
    for (int r = 0; r < RT; ++r)
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int lanes = 1; lanes < 4; lanes *= 2) total[r][h] += __shfl_xor_sync(0xffffffffu, total[r][h], lanes);
    if (!by_keys) {
#pragma unroll
      for (int r = 0; r < RT; ++r)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const i64 row = row0 + warp_row + r * 16 + g + h * 8;
          if (row >= rows) continue;
          const RowOf of = row_of(row, s.queries);
          const i64 head = kv * group + of.head, query = of.query;
          const i64 point = ((b * s.heads + head) * s.queries + query) * kValue + t * 2;
          const i64 offset = b * s.out[0] + head * s.out[1] + query * s.out[2] + t * 2 * s.out[3];
          const bool hidden = total[r][h] == 0.0f && !(kNanIfMasked && s.keys > 0);
          const float inverse = hidden ? 0.0f : 1.0f / total[r][h];
#pragma unroll
          for (int i = 0; i < kValue / 8; ++i)
#pragma unroll
            for (int e = 0; e < 2; ++e)
              done(point + i * 8 + e, offset + (i * 8 + e) * s.out[3], hidden ? 0.0f : out[r][i][2 * h + e] * inverse);
        }
      __syncthreads();
      continue;
    }
    // The states of 4 warps, then of all blocks of the cluster, become one, in order.
    const int own_rows = (int)int_min(rows - row0, 16);
    float* const sums = (float*)(shared + kQueryBytes);            // [4][16][kValue]
    float* const tops = sums + 64 * kValue;      // [4][16]
    float* const totals = tops + 64;
    float* const block_sums = totals + 64;       // [16][kValue]
    float* const block_tops = block_sums + 16 * kValue;
    float* const block_totals = block_tops + 16;
    float* const factors = block_totals + 16;    // [16][4], of the warps
    // Rows past the last are left out: there are few, and others would collide in the same banks.
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = warp * 16 + g + h * 8;
      if (g + h * 8 >= own_rows) continue;
#pragma unroll
      for (int i = 0; i < kValue / 8; ++i)
#pragma unroll
        for (int e = 0; e < 2; ++e) sums[r * kValue + i * 8 + t * 2 + e] = out[0][i][2 * h + e];
      if (t == 0) tops[r] = top[0][h], totals[r] = total[0][h];
    }
    __syncthreads();
    if (thread < own_rows) {
      float highest = -infinity, all = 0.0f;
#pragma unroll
      for (int w = 0; w < 4; ++w) highest = tops[w * 16 + thread] > highest ? tops[w * 16 + thread] : highest;
      const float base = highest == -infinity ? 0.0f : highest;
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        factors[thread * 4 + w] = fast_exp2(tops[w * 16 + thread] - base);
        all += totals[w * 16 + thread] * factors[thread * 4 + w];
      }
      block_tops[thread] = highest, block_totals[thread] = all;
    }
    __syncthreads();
    const auto sum_of_warps = [&](int e) {
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < 4; ++w) sum += sums[(w * 16) * kValue + e] * factors[e / kValue * 4 + w];
      return sum;
    };
    const auto finish = [&](int e, float sum, float all) {
      const RowOf of = row_of(row0 + e / kValue, s.queries);
      const i64 head = kv * group + of.head, query = of.query;
      const bool hidden = all == 0.0f && !(kNanIfMasked && s.keys > 0);
      done(((b * s.heads + head) * s.queries + query) * kValue + e % kValue,
           b * s.out[0] + head * s.out[1] + query * s.out[2] + e % kValue * s.out[3],
           hidden ? 0.0f : sum * (1.0f / all));
    };
    if constexpr (splits == 1) {
#pragma unroll 4
      for (int e = thread; e < own_rows * kValue; e += 128) finish(e, sum_of_warps(e), block_totals[e / kValue]);
      __syncthreads();
      continue;
    }
    for (int e = thread; e < own_rows * kValue; e += 128) block_sums[e] = sum_of_warps(e);
    cluster_sync();
    for (int e = (int)cluster_rank() * 128 + thread; e < own_rows * kValue; e += 128 * splits) {
      const int r = e / kValue;
      float highest = -infinity, sum = 0.0f, all = 0.0f;
      for (u32 c = 0; c < (u32)splits; ++c) {
        const float v = cluster_float(block_tops + r, c);
        highest = v > highest ? v : highest;
      }
      const float base = highest == -infinity ? 0.0f : highest;
      for (u32 c = 0; c < (u32)splits; ++c) {
        const float factor = fast_exp2(cluster_float(block_tops + r, c) - base);
        sum += cluster_float(block_sums + e, c) * factor;
        all += cluster_float(block_totals + r, c) * factor;
      }
      finish(e, sum, all);
    }
    cluster_sync();
  }
}

GEX_FN bool aligned_operands(const Sizes& s, const Query& q, const Key& k, const Value& v) {
  i64 bits = 0;
  if (!kQueryComputed) bits |= (i64)q.memory() | 2 * (s.q[0] | s.q[1] | s.q[2]);
  if (!kKeyComputed) bits |= (i64)k.memory() | 2 * (s.k[0] | s.k[1] | s.k[2]);
  if (!kValueComputed) bits |= (i64)v.memory() | 2 * (s.v[0] | s.v[1] | s.v[2]);
  return bits % 16 == 0 && s.heads / s.kv_heads * s.queries < 0x7fffff00;
}
)cuda";
}

}  // namespace gex::backend::cuda
