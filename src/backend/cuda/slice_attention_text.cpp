#include "backend/cuda/slice_attention_text.hpp"

namespace gex::backend::cuda {

std::string_view slice_attention_text() {
  return R"cuda(
typedef unsigned short Half;
GEX_FN Half to_half(float v) { return kBf16 ? to_bf16(v) : to_f16(v); }
GEX_FN bool aligned_slices(const Sizes& s, const Query& q, const Key& k) {
  i64 bits = (i64)k.memory() | 2 * (s.k[0] | s.k[1] | s.k[2]);
  if (!kQueryComputed) bits |= (i64)q.memory() | 2 * (s.q[0] | s.q[1] | s.q[2]);
  return bits % 16 == 0;
}

// The queries of a key-value head, in shared memory with gaps between rows; rows past the last are 0.
GEX_FN void stage_queries(const Sizes& s, const Query& load_q, i64 b, i64 kv, Half* q) {
  const int group = (int)(s.heads / s.kv_heads), rows = group * (int)s.queries;
  for (int e = (int)threadIdx.x; e < 16 * (kHead / 8); e += 256) {
    const int row = e / (kHead / 8), at = e % (kHead / 8) * 8;
    uint4 v = {0, 0, 0, 0};
    if (row < rows) {
      const i64 offset = b * s.q[0] + (kv * group + row / s.queries) * s.q[1] + row % s.queries * s.q[2] + at;
      if (kQueryComputed) {
        v.x = to_halves<kBf16>(load_q(offset), load_q(offset + 1));
        v.y = to_halves<kBf16>(load_q(offset + 2), load_q(offset + 3));
        v.z = to_halves<kBf16>(load_q(offset + 4), load_q(offset + 5));
        v.w = to_halves<kBf16>(load_q(offset + 6), load_q(offset + 7));
      } else {
        v = *(const uint4*)(load_q.memory() + offset);
      }
    }
    *(uint4*)(q + row * (kHead + 8) + at) = v;
  }
}

// What a warp loads for 16 keys: thread (g, t) has 8 elements of keys g and g + 8 for every 32 of the
// head, and the elements g of the slice's columns of keys 2t, 2t + 1, 2t + 8, 2t + 9.
struct SliceKeys {
  uint4 k[2][kHead / 32];
  u32 v[kSlice / 8][2];
  float mask[2][4];
};

GEX_FN void load_slice(const Sizes& s, const Half* keys, const Half* values, const Mask& load_mask,
                       const i64 (&mask_first)[2], i64 key0, i64 key_end, SliceKeys& out) {
  const int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
  const i64 last = key_end - 1;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const Half* const row = keys + int_min(key0 + j * 8 + g, last) * s.k[2] + t * 8;
#pragma unroll
    for (int c = 0; c < kHead / 32; ++c) out.k[j][c] = *(const uint4*)(row + c * 32);
  }
#pragma unroll
  for (int i = 0; i < kSlice / 8; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const Half* const column = values + (i * 8 + g) * s.v[3];
      const i64 key = key0 + j * 8 + t * 2;
      const u32 low = key < key_end ? column[key * s.v[2]] : 0;  // 0: infinite values of unused keys
      const u32 high = key + 1 < key_end ? column[(key + 1) * s.v[2]] : 0;
      out.v[i][j] = low | high << 16;
    }
  if (kMask != 0) {
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        out.mask[j][e] = load_mask(mask_first[e / 2] + int_min(key0 + j * 8 + t * 2 + e % 2, last) * s.mask[3]);
  }
}

// The state of a softmax over the keys of a warp, for rows g and g + 8.
struct SliceState {
  float top[2], total[2], out[kSlice / 8][4];
};

GEX_FN void add_keys(const Sizes& s, const SliceKeys& keys, const Half* q, i64 key0, const int (&end)[2],
                     float scale, SliceState& state) {
  const int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
  const float infinity = f32_of_bits(0x7f800000u), log2e = 1.4426950408889634f;
  float score[2][4] = {};
#pragma unroll
  for (int c = 0; c < kHead / 32; ++c) {
    const uint4 a = *(const uint4*)(q + g * (kHead + 8) + c * 32 + t * 8);
    const uint4 b = *(const uint4*)(q + (g + 8) * (kHead + 8) + c * 32 + t * 8);
    const u32 first[4] = {a.x, b.x, a.y, b.y}, second[4] = {a.z, b.z, a.w, b.w};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      mma_16816<kBf16>(score[j], first, keys.k[j][c].x, keys.k[j][c].y);
      mma_16816<kBf16>(score[j], second, keys.k[j][c].z, keys.k[j][c].w);
    }
  }
  float largest[2] = {state.top[0], state.top[1]};
#pragma unroll
  for (int j = 0; j < 2; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float v = score[j][e] * scale;
      if (kMask == 1) v += keys.mask[j][e] * log2e;
      if (kMask == 2 && keys.mask[j][e] == 0.0f) v = -infinity;
      if (key0 + j * 8 + t * 2 + e % 2 >= end[e / 2]) v = -infinity;
      score[j][e] = v;
      largest[e / 2] = v > largest[e / 2] ? v : largest[e / 2];
    }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, largest[h], lanes);
      largest[h] = other > largest[h] ? other : largest[h];
    }
    const float base = largest[h] == -infinity ? 0.0f : largest[h];
    const float factor = fast_exp2(state.top[h] - base);
    state.top[h] = largest[h];
    state.total[h] *= factor;
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
      for (int e = 2 * h; e < 2 * h + 2; ++e) {
        score[j][e] = fast_exp2(score[j][e] - base);
        state.total[h] += score[j][e];
      }
#pragma unroll
    for (int i = 0; i < kSlice / 8; ++i) state.out[i][2 * h] *= factor, state.out[i][2 * h + 1] *= factor;
  }
  const u32 p[4] = {to_halves<kBf16>(score[0][0], score[0][1]), to_halves<kBf16>(score[0][2], score[0][3]),
                    to_halves<kBf16>(score[1][0], score[1][1]), to_halves<kBf16>(score[1][2], score[1][3])};
#pragma unroll
  for (int i = 0; i < kSlice / 8; ++i) mma_16816<kBf16>(state.out[i], p, keys.v[i][0], keys.v[i][1]);
}

// Joins the states of the warps, in order, and finishes the slice.
GEX_FN void finish_slice(const Sizes& s, const Finish& done, SliceState& state, i64 b, i64 kv, int first,
                         float* joined) {
  const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
  const int group = (int)(s.heads / s.kv_heads), rows = group * (int)s.queries, pitch = kSlice + 2;
  const float infinity = f32_of_bits(0x7f800000u);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2) state.total[h] += __shfl_xor_sync(0xffffffffu, state.total[h], lanes);
    const int row = g + h * 8;
    if (row >= rows) continue;
    float* const mine = joined + (warp * 16 + row) * pitch;
#pragma unroll
    for (int i = 0; i < kSlice / 8; ++i) mine[i * 8 + t * 2] = state.out[i][2 * h], mine[i * 8 + t * 2 + 1] = state.out[i][2 * h + 1];
    if (t == 0) mine[kSlice] = state.top[h], mine[kSlice + 1] = state.total[h];
  }
  __syncthreads();
  for (int e = (int)threadIdx.x; e < rows * kSlice; e += 256) {
    const int row = e / kSlice, d = e % kSlice;
    const float* const states = joined + row * pitch;
    float highest = -infinity, sum = 0.0f, all = 0.0f;
#pragma unroll
    for (int w = 0; w < 8; ++w) {
      const float top = states[w * 16 * pitch + kSlice];
      highest = top > highest ? top : highest;
    }
    const float base = highest == -infinity ? 0.0f : highest;
#pragma unroll
    for (int w = 0; w < 8; ++w) {
      const float* const of_warp = states + w * 16 * pitch;
      const float factor = fast_exp2(of_warp[kSlice] - base);
      sum += of_warp[d] * factor;
      all += of_warp[kSlice + 1] * factor;
    }
    const i64 head = kv * group + row / s.queries, query = row % s.queries;
    const bool hidden = all == 0.0f && !(kNanIfMasked && s.keys > 0);
    done(((b * s.heads + head) * s.queries + query) * kValue + first + d,
         b * s.out[0] + head * s.out[1] + query * s.out[2] + (first + d) * s.out[3],
         hidden ? 0.0f : sum * (1.0f / all));
  }
}

GEX_FN void attend_slices(const Sizes& s, const Query& load_q, const Key& load_k, const Value& load_v,
                          const Mask& load_mask, const Finish& done, Blocks block, char* shared) {
  Half* const q = (Half*)shared;                            // [16][kHead + 8]
  float* const joined = (float*)(q + 16 * (kHead + 8));     // [8 warps][16][kSlice + 2]
  const float infinity = f32_of_bits(0x7f800000u), log2e = 1.4426950408889634f;
  const float scale = (kHasScale ? (float)scale_value() : 1.0f / sqrtf((float)s.head)) * log2e;
  const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4;
  const i64 group = s.heads / s.kv_heads, rows = group * s.queries, slices = kValue / kSlice;
  for (i64 unit = block.index; unit < s.batch * s.kv_heads * slices; unit += block.count) {
    const i64 b = unit / (s.kv_heads * slices), kv = unit / slices % s.kv_heads;
    const int first = (int)(unit % slices) * kSlice;
    const Half* const keys = load_k.memory() + b * s.k[0] + kv * s.k[1];
    const Half* const values = load_v.memory() + b * s.v[0] + kv * s.v[1] + first * s.v[3];
    i64 mask_first[2], key_end = 0;
    int end[2];
    for (i64 query = 0; query < s.queries; ++query) key_end = int_max(key_end, s.visible(query));
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const i64 row = int_min(g + h * 8, rows - 1), query = row % s.queries;
      mask_first[h] = b * s.mask[0] + (kv * group + row / s.queries) * s.mask[1] + query * s.mask[2];
      end[h] = g + h * 8 < rows ? (int)s.visible(query) : 0;
    }
    SliceState state;
#pragma unroll
    for (int h = 0; h < 2; ++h) state.top[h] = -infinity, state.total[h] = 0.0f;
#pragma unroll
    for (int i = 0; i < kSlice / 8; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) state.out[i][e] = 0.0f;
    SliceKeys loaded;
    if (warp * 16 < key_end) load_slice(s, keys, values, load_mask, mask_first, warp * 16, key_end, loaded);
    stage_queries(s, load_q, b, kv, q);
    __syncthreads();
    for (i64 key = warp * 16; key < key_end; key += 128) {
      if (key >= 128) load_slice(s, keys, values, load_mask, mask_first, key, key_end, loaded);
      add_keys(s, loaded, q, key, end, scale, state);
    }
    finish_slice(s, done, state, b, kv, first, joined);
    __syncthreads();
  }
}
)cuda";
}

}  // namespace gex::backend::cuda
