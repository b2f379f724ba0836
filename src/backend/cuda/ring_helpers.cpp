#include "backend/cuda/persistent_helpers.hpp"

namespace gex::backend::cuda {

namespace {

// Texts of launches are for blocks of 256 threads: those of the warps that compute.
constexpr std::string_view kThreadsOfTexts = R"cuda(
#ifndef GEX_EMULATED
GEX_FN void computing_warps_sync() { asm volatile("bar.sync 1, 256;" ::: "memory"); }
#endif
// The loader and the three warps beside it need few registers: the other warps get the rest.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(GEX_EMULATED)
GEX_FN void keep_few_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
GEX_FN void take_more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
#else
GEX_FN void keep_few_registers() {}
GEX_FN void take_more_registers() {}
#endif
GEX_FN void all_warps_sync() { __syncthreads(); }
struct ComputingThreads { u32 x; };
#define __syncthreads() computing_warps_sync()
#define blockDim (ComputingThreads{256})
)cuda";

// The ring: copies by the bulk copy engine, which count their bytes on a barrier in shared memory.
constexpr std::string_view kRing = R"cuda(
#ifndef GEX_EMULATED
GEX_FN void barrier_init(u64* b, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(b)), "r"(count) : "memory");
}
GEX_FN void barriers_are_ready() { asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory"); }
GEX_FN void barrier_arrive(u64* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(b)) : "memory");
}
// Arrives, and expects that many bytes from bulk copies.
GEX_FN void barrier_expect(u64* b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_address(b)), "r"(bytes) : "memory");
}
GEX_FN bool barrier_passed(u64* b, int parity) {
  u32 passed;
  asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
               : "=r"(passed) : "r"(shared_address(b)), "r"(parity) : "memory");
  return passed != 0;
}
GEX_FN u64 read_once_policy() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
GEX_FN void bulk_copy(char* to, const char* from, int bytes, u64* b, u64 policy) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
               :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(b)), "l"(policy) : "memory");
}
// Copies to shared memory that run beside other work until the thread waits for all of its requests.
template <int bytes>
GEX_FN void request_bytes(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(shared_address(to)), "l"(from), "n"(bytes) : "memory");
}
GEX_FN void wait_for_requests() { asm volatile("cp.async.wait_all;" ::: "memory"); }
GEX_FN uint4 load_shared(const char* p) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(shared_address(p)) : "memory");
  return v;
}
#endif
GEX_FN void wait_at_barrier(u64* b, int parity) {
  int waits = 0;
  while (!barrier_passed(b, parity)) count_wait(waits);
}

// Clocks of a phase by its first thread: where the phase begins, then after the weights, waits and
// repeated launches, operands, products or the launch, results.
#if GEX_RING_CLOCKS
__shared__ u32 gex_marks[6];
#define GEX_MARK(i) do { if (threadIdx.x == 0) gex_marks[i] = (u32)clock64(); } while (0)
#else
#define GEX_MARK(i)
#endif

enum { kSlotBytes = 16384, kRowBytes = 2048 };

// Where a warp is in the ring.
struct Ring {
  char* data;
  u64 *full, *empty;
  int slot, lap;
  GEX_METHOD void next() {
    if (++slot == kRingSlots) slot = 0, ++lap;
  }
};
)cuda";

// Phases and their parts, as tables. Waits: a phase whose blocks with work have all ended it.
constexpr std::string_view kPhases = R"cuda(
struct PhaseEntry {
  int first_word, words, local_word, local_words;
  int local;                // kind of the launch that every block repeats first; -1: none
  int parts;
  int total, first_block;   // tiles of products, or blocks of other launches and which block has the first
  int first_wait, waits;
  int products, ends;
};
struct PartEntry {
  int kind, word;           // word: in the phase
  int first, count;         // tiles or blocks, numbered through the phase
  int weights_word, stride; // stride: bytes between columns
  int rows, cols, depth, bf16;
  // Turns: up to kTurn slots of whole tiles, or of a part of the depth of one tile.
  int rounds, tiles, passes;  // rounds: slots of a tile; tiles: of a turn; passes: turns of a tile
};
struct WaitEntry { int phase, blocks; };
struct PhaseRecord {
  PhaseEntry phase;
  PartEntry part[kMostParts];
};
enum { kRecordInts = sizeof(PhaseRecord) / 4 };

// The tiles of a block in a phase.
struct TileRange { int begin, end; };
GEX_FN TileRange tiles_of_block(const PhaseEntry& phase) {
  const u32 total = (u32)phase.total, index = blockIdx.x;
  return {(int)(total * index / kBlocks), (int)(total * (index + 1) / kBlocks)};
}
// The first block of other launches that this block runs; then every kBlocks-th.
GEX_FN int first_block_of(const PhaseEntry& phase) {
  const int at = (int)blockIdx.x - phase.first_block;
  return at < 0 ? at + (int)kBlocks : at;
}
GEX_FN bool has_work(const PhaseEntry& phase) {
  if (phase.products) {
    const TileRange tiles = tiles_of_block(phase);
    return tiles.begin < tiles.end;
  }
  return first_block_of(phase) < phase.total;
}
// Where word i of a phase is, or null.
GEX_FN const i64* phase_word(const PhaseEntry& phase, const i64* words, int i) {
  if (i < phase.words) return words + phase.first_word + i;
  i -= phase.words;
  return i < phase.local_words ? words + phase.local_word + i : 0;
}
)cuda";

constexpr std::string_view kRingProducts = R"cuda(
// Copies all weights that the block multiplies, in order.
GEX_FN void load_weights(const i64* words, Ring ring) {
  const int lane = (int)threadIdx.x % 32;
  const u64 policy = read_once_policy();
  Ring landed = ring;  // the copy that must have arrived before the next one is requested
  int in_flight = 0;
#pragma unroll 1
  for (int p = 0; p < kPhaseCount; ++p) {
    // Records are in global memory: those of the next four phases are requested here.
    const int later = p + 1 + lane / 8, line = lane % 8 * 128;
    if (later < kPhaseCount && line < (int)sizeof(PhaseRecord)) touch((const char*)&kRecords[later] + line);
    const PhaseRecord& record = kRecords[p];
    if (!record.phase.products) continue;
    const TileRange mine = tiles_of_block(record.phase);
    const int most = mine.end - mine.begin > kRingSlots ? kInFlightLong : kInFlight;
#pragma unroll 1
    for (int i = 0; i < record.phase.parts; ++i) {
      const PartEntry part = record.part[i];
      const int first = mine.begin > part.first ? mine.begin : part.first;
      const int last = mine.end < part.first + part.count ? mine.end : part.first + part.count;
      if (first >= last) continue;
      const char* const weights = (const char*)words[part.weights_word];
      if ((i64)weights % 16 != 0) continue;  // plain_product reads them
#pragma unroll 1
      for (int tile = first - part.first; tile < last - part.first; ++tile) {
        const int left = part.cols - tile * 8, columns = left < 8 ? left : 8;
        const char* from = weights + (i64)tile * 8 * part.stride;
#pragma unroll 1
        for (int at = 0; at < part.depth * 2; at += kRowBytes, from += kRowBytes) {
          const int bytes = part.depth * 2 - at < kRowBytes ? part.depth * 2 - at : kRowBytes;
          if (ring.lap > 0) wait_at_barrier(ring.empty + ring.slot, (ring.lap - 1) & 1);
#pragma unroll 1
          for (; in_flight >= most; --in_flight, landed.next()) wait_at_barrier(landed.full + landed.slot, landed.lap & 1);
          u64* const full = ring.full + ring.slot;
          char* const to = ring.data + ring.slot * kSlotBytes;
          if (lane == 0) barrier_expect(full, columns * bytes);
          __syncwarp();
          if (part.stride == kRowBytes && bytes == kRowBytes) {
            if (lane == 0) bulk_copy(to, from, columns * kRowBytes, full, policy);
          } else if (lane < columns) {
            bulk_copy(to + lane * kRowBytes, from + (i64)lane * part.stride, bytes, full, policy);
          }
          ring.next();
          ++in_flight;
        }
      }
    }
  }
}

// A thread's weights of the next `count` slots. Odd columns have the two halves of each 128 bytes
// in the other order, so that 8 neighbouring threads use all banks.
GEX_FN void take_weights(Ring& ring, const PartEntry& part, int round, int count, uint4 (&w)[kTurn][4]) {
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int at = g * kRowBytes + warp * 256 + t * 16, odd = g % 2;
  const uint4 zero = {0, 0, 0, 0};
  const bool ragged = part.depth % 1024 != 0;
#pragma unroll
  for (int s = 0; s < kTurn; ++s) {
    if (s >= count) continue;
    wait_at_barrier(ring.full + ring.slot, ring.lap & 1);
    const char* const from = ring.data + ring.slot * kSlotBytes + at;
#pragma unroll
    for (int u = 0; u < 4; ++u) w[s][u] = load_shared(from + (u ^ odd) * 64);
    if (ragged) {  // what lies behind the depth was not copied
      const int left = part.depth - (round * 8 + warp) * 128 - t * 8;
#pragma unroll
      for (int u = 0; u < 4; ++u)
        if ((u ^ odd) * 32 >= left) w[s][u] = zero;
    }
    if (++round == part.rounds) round = 0;
    __syncwarp();
    if (lane == 0) barrier_arrive(ring.empty + ring.slot);
    ring.next();
  }
}

// Adds the products of `count` slots to the sums of the warp, two slots at a time: four chains that do
// not depend on each other. Rows of the left operand are the lines of the left fragments twice, for
// even columns and for odd ones.
template <bool bf16>
GEX_FN void multiply_slots(const PartEntry& part, const unsigned short* x, int round, int count, bool add,
                           const uint4 (&w)[kTurn][4], float* sums) {
  const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
  const uint4 zero = {0, 0, 0, 0};
  const char* const row = (const char*)(x + g * part.depth + t * 8);
  const int depth = g < part.rows ? part.depth - t * 8 : 0;
#pragma unroll
  for (int pair = 0; pair < kTurn; pair += 2) {
    if (pair >= count) continue;
    float sum[2][2][4] = {};
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const int first = (round * 8 + warp) * 128;
      uint4 v[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) v[u] = first + u * 32 < depth ? load_shared(row + (first + u * 32) * 2) : zero;
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        const uint4 b = w[pair + s][u], even = v[u], odd = v[u ^ 1];
        const u32 low[4] = {even.x, odd.x, even.y, odd.y}, high[4] = {even.z, odd.z, even.w, odd.w};
        mma_16816<bf16>(sum[s][u % 2], low, b.x, b.y);
        mma_16816<bf16>(sum[s][u % 2], high, b.z, b.w);
      }
      if (++round == part.rounds) round = 0;
    }
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      if (g >= part.rows || pair + s >= count) continue;
      float* const to = sums + ((pair + s) * 8 + warp) * (8 * kMostRows) + g * 8 + t * 2;
      const float even = sum[s][0][0] + sum[s][1][0], odd = sum[s][0][3] + sum[s][1][3];
      to[0] = add ? to[0] + even : even;
      to[1] = add ? to[1] + odd : odd;
    }
  }
}

// The sum of all warps and of the slots of a tile.
GEX_FN float join_slots(const float* sums, int first_slot, int slots, int inside) {
  float total = 0.0f;
#pragma unroll 1
  for (int s = first_slot; s < first_slot + slots; ++s) {
    const float* const from = sums + s * 64 * kMostRows + inside;
    float part = 0.0f;
#pragma unroll
    for (int warp = 0; warp < 8; ++warp) part += from[warp * 8 * kMostRows];
    total += part;
  }
  return total;
}

// Weights that are not aligned.
template <bool bf16>
GEX_FN float plain_product(const PartEntry& part, const unsigned short* x, const char* weights, int row, int col) {
  float sum = 0.0f;
#pragma unroll 1
  for (int k = 0; k < part.depth; ++k) {
    const unsigned short a = x[row * part.depth + k], b = *(const unsigned short*)(weights + (i64)col * part.stride + k * 2);
    sum = bf16 ? fmaf(of_bf16(a), of_bf16(b), sum) : fmaf(of_f16(a), of_f16(b), sum);
  }
  return sum;
}
)cuda";

}  // namespace

std::string_view ring_threads_text() { return kThreadsOfTexts; }
std::string_view ring_text() { return kRing; }
std::string_view ring_phases_text() { return kPhases; }
std::string_view ring_products_text() { return kRingProducts; }

}  // namespace gex::backend::cuda
