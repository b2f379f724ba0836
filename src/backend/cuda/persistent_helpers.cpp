#include "backend/cuda/persistent_helpers.hpp"

namespace gex::backend::cuda {

namespace {

constexpr std::string_view kExchange = R"cuda(
#ifndef GEX_EMULATED
// Loads and stores of exchanged memory: each word is written once and carries its own flag, so they
// need no order.
// A flag and the value beside it must be read at once: the parts of a vector may be read one by one.
GEX_FN uint4 load_exchanged(const char* p) {
  u64 low, high;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0,%1}, [%2];" : "=l"(low), "=l"(high) : "l"(p) : "memory");
  const uint4 v = {(u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32)};
  return v;
}
GEX_FN void store_word(char* p, u32 word) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(word) : "memory"); }
GEX_FN void store_word(char* p, u64 word) { asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(p), "l"(word) : "memory"); }
GEX_FN void add_release(u32* p) { asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(p) : "memory"); }
GEX_FN u32 load_acquire(const u32* p) {
  u32 v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
GEX_FN void poll_again() {}
GEX_FN bool is_shared(const void* p) { return __isShared(p) != 0; }
// Reads 128 bytes into the cache of the multiprocessor.
GEX_FN void touch(const char* p) {
  u32 unused;
  asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(unused) : "l"(p));
}
#endif
// A wait of several seconds means that a block is missing: an error is better than a hang. No call of
// a function here: registers with requested weights would be saved around it.
GEX_FN void count_wait(int& waits) {
  if (++waits == 1 << 24) __trap();
  poll_again();
}

template <class T> GEX_FN u64 bits_of(T value) {
  union { T value; u64 bits; } both;
  both.bits = 0;
  both.value = value;
  return both.bits;
}
// Elements of 2 bytes: 4 bytes with the flag above the value. Others: the flag above every 4 bytes.
template <class T> GEX_FN void store_exchanged(char* p, T value) {
  const u64 bits = bits_of(value);
  if (sizeof(T) == 2) return store_word(p, (u32)bits | 0x10000u);
  store_word(p, (bits & 0xffffffffull) | 0x100000000ull);
  if (sizeof(T) == 8) store_word(p + 8, bits >> 32 | 0x100000000ull);
}
template <class T> struct Exchanged {
  char* data;
  struct Element {
    char* at;
    GEX_METHOD void operator=(T value) const { store_exchanged(at, value); }
  };
  GEX_METHOD Element operator[](i64 i) const { return {data + i * (i64)(2 * sizeof(T))}; }
};
template <class T> GEX_FN Exchanged<T> exchanged_at(i64 word) { return {(char*)word}; }
template <class T, int width>
GEX_FN void put(const Exchanged<T>& to, i64 offset, const Vector<T, width>& from) {
#pragma unroll
  for (int i = 0; i < width; ++i) to[offset + i] = from.v[i];
}

// Copies exchanged memory to shared memory: 16 bytes with flags become 8 without.
template <int size, int count>
struct Staged {
  enum { pieces = count * size / 8, each = (pieces + 255) / 256 };
  uint4 v[each];
  static GEX_METHOD bool ready(const uint4& v) {
    return size == 2 ? ((v.x & v.y & v.z & v.w) & 0x10000u) != 0 : (v.y & v.w) != 0;
  }
  GEX_METHOD void request(const char* from) {
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int piece = (int)threadIdx.x + i * 256;
      v[i] = load_exchanged(from + (piece < pieces ? piece : 0) * 16);  // no undefined registers
    }
  }
  GEX_METHOD void finish(const char* from, char* to) {
    int waits = 0;
    to += threadIdx.x * 8;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int piece = (int)threadIdx.x + i * 256;
      if (piece >= pieces) continue;
      while (!ready(v[i])) {
        count_wait(waits);
        v[i] = load_exchanged(from + piece * 16);
      }
      const u32 low = size == 2 ? (v[i].x & 0xffffu) | v[i].y << 16 : v[i].x;
      const u32 high = size == 2 ? (v[i].z & 0xffffu) | v[i].w << 16 : v[i].z;
      *(u64*)(to + i * 2048) = low | (u64)high << 32;
    }
  }
};

GEX_FN void touch_bytes(i64 address, int bytes) {
  const int at = (int)threadIdx.x * 128;
  if (at < bytes) touch((const char*)address + at);
}
// Ends a phase for other blocks that wait for it: all that this block wrote so far is visible.
GEX_FN void end_phase(u32* counter) {
  __syncthreads();
  if (threadIdx.x == 0) add_release(counter);
}
)cuda";

constexpr std::string_view kPhaseTable = R"cuda(
GEX_FN void wait_for_phase(const u32* counter) {
  int waits = 0;
  if (threadIdx.x == 0)
    while (load_acquire(counter) < gridDim.x) count_wait(waits);
  __syncthreads();
}
struct PhaseEntry { int kind, first_word, words, local_word, local_words, after, ends, product; };
GEX_FN i64 phase_word(const PhaseEntry& phase, const i64* words, int i) {
  if (i < phase.words) return words[phase.first_word + i];
  i -= phase.words;
  return i < phase.local_words ? words[phase.local_word + i] : 0;
}
)cuda";

// Products of few rows: one code for all of them, so that it stays in the instruction cache. A tile
// is 8 columns; the 8 warps of a block divide its depth in rounds of 128 steps each. A slot is one
// round of one tile; the weights of up to kSlots slots are requested before the block waits for the
// left operand.
constexpr std::string_view kPhaseProducts = R"cuda(
enum { kSlots = 6 };
struct ProductTask {
  int part;  // of the phase; -1: the block has nothing to do
  const char* weights;
  i64 stride;  // bytes between columns
  int rows, cols, depth, index, count;
  bool bf16;
  const unsigned short* x;  // [rows][depth], in shared memory
};

// Tiles index, index + count, ... belong to the block. Group g has the tiles and rounds of its slots.
struct SlotPlan {
  int rounds, tiles, passes, groups;  // tiles: of one group; passes: of kSlots rounds each
  GEX_METHOD SlotPlan(const ProductTask& task) {
    rounds = (task.depth + 1023) / 1024;
    passes = (rounds + kSlots - 1) / kSlots;
    tiles = passes > 1 ? 1 : kSlots / rounds;
    const int all = (task.cols + 7) / 8, mine = task.index < all ? (all - task.index + task.count - 1) / task.count : 0;
    groups = (mine + tiles - 1) / tiles;
  }
};

GEX_FN void request_weights(const ProductTask& task, const SlotPlan& plan, int group, int pass,
                            uint4 (&w)[kSlots][4]) {
  const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
  const uint4 zero = {0, 0, 0, 0};
  int tile = 0, round = pass * kSlots;
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    const int column = (task.index + (group * plan.tiles + tile) * task.count) * 8 + g;
    const bool inside = tile < plan.tiles && column < task.cols;
    const int k = (round * 8 + warp) * 128 + t * 8;
    const char* const from = task.weights + (inside ? column * task.stride + k * 2 : 0);
#pragma unroll
    for (int u = 0; u < 4; ++u) w[s][u] = inside && k + u * 32 < task.depth ? load_once(from + u * 64) : zero;
    if (++round == plan.rounds) round = 0, ++tile;
  }
}

// Adds the products of a thread's weights to the sums of its warp: [slot][warp][8 rows][8 columns].
template <bool bf16>
GEX_FN void multiply_slots(const ProductTask& task, const SlotPlan& plan, int pass, const uint4 (&w)[kSlots][4],
                           float* sums) {
  const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
  int tile = 0, round = pass * kSlots;
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    // Two chains of products, and no branch around them: those of several slots overlap.
    float sum[2][4] = {};
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int k = (round * 8 + warp) * 128 + u * 32 + t * 8;
      uint4 x = {0, 0, 0, 0};
      if (g < task.rows && k < task.depth) x = *(const uint4*)(task.x + g * task.depth + k);
      const u32 first[4] = {w[s][u].x, 0, w[s][u].y, 0}, second[4] = {w[s][u].z, 0, w[s][u].w, 0};
      mma_16816<bf16>(sum[u % 2], first, x.x, x.y);
      mma_16816<bf16>(sum[u % 2], second, x.z, x.w);
    }
    float* const to = sums + (s * 8 + warp) * 64;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float value = sum[0][e] + sum[1][e];
      if (t * 2 + e < task.rows) to[(t * 2 + e) * 8 + g] = pass == 0 ? value : to[(t * 2 + e) * 8 + g] + value;
    }
    if (++round == plan.rounds) round = 0, ++tile;
  }
}

// The sum of all warps and rounds of element e of a group.
GEX_FN float join_slots(const SlotPlan& plan, const float* sums, int tile, int inside) {
  const int slots = plan.passes > 1 ? kSlots : plan.rounds;
  float total = 0.0f;
  for (int s = 0; s < slots; ++s) {
    const float* const from = sums + (tile * slots + s) * 512 + inside;
    float part = 0.0f;
#pragma unroll
    for (int warp = 0; warp < 8; ++warp) part += from[warp * 64];
    total += part;
  }
  return total;
}

// Weights that are not aligned.
template <bool bf16>
GEX_FN float plain_product(const ProductTask& task, int row, int col) {
  float sum = 0.0f;
#pragma unroll 1
  for (int k = 0; k < task.depth; ++k) {
    const unsigned short a = task.x[row * task.depth + k], b = *(const unsigned short*)(task.weights + col * task.stride + k * 2);
    sum = bf16 ? fmaf(of_bf16(a), of_bf16(b), sum) : fmaf(of_f16(a), of_f16(b), sum);
  }
  return sum;
}
)cuda";

}  // namespace

std::string_view exchange_text() { return kExchange; }
std::string_view phase_table_text() { return kPhaseTable; }
std::string_view phase_products_text() { return kPhaseProducts; }

}  // namespace gex::backend::cuda
