#include "backend/cuda/persistent_helpers.hpp"

namespace gex::backend::cuda {

namespace {

constexpr std::string_view kProductPhase = R"cuda(
GEX_FN void product_phase(const PhaseRecord& record, const i64* mine, const u32* counters, Ring& ring,
                          float* sums, i64* patched, char* memory, char* local) {
  const PhaseEntry& phase = record.phase;
  const TileRange range = tiles_of_block(phase);
  uint4 w[kTurn][4] = {};
  bool begun = false;
  int which = 0;
#pragma unroll 1
  for (int i = 0; i < phase.parts; ++i) {
    const PartEntry& part = record.part[i];
    const int first = (range.begin > part.first ? range.begin : part.first) - part.first;
    const int last = (range.end < part.first + part.count ? range.end : part.first + part.count) - part.first;
    if (first >= last) continue;
    const char* const weights = (const char*)mine[part.word + 1];
    const bool aligned = (i64)weights % 16 == 0;
    const unsigned short* x = 0;
#pragma unroll 1
    for (int tile = first, pass = 0; tile < last;) {
      const int tiles = last - tile < part.tiles ? last - tile : part.tiles, round = pass * kTurn;
      const int left = part.rounds - round;
      const int count = part.passes > 1 ? (left < kTurn ? left : kTurn) : tiles * part.rounds;
      if (aligned) take_weights(ring, part, round, count, w);
      if (x == 0) {
        if (!begun) {
          wait_for_phases(Waits{phase.first_wait, phase.waits}, counters);
          if (phase.local >= 0) repeat_launch(phase.local, mine + phase.words, local);
        }
        if (begun) __syncthreads();  // the part before reads its operands no more
        x = stage_left(part.kind, mine + part.word, patched, memory, local);
        begun = true;
      }
      float* const to = sums + which * (kTurn * 64 * kMostRows);
      if (aligned) multiply(part, x, round, count, pass > 0, w, to);
      if (++pass < part.passes) continue;
      pass = 0;
      __syncthreads();
#pragma unroll 1
      for (int e = (int)threadIdx.x; e < tiles * kMostRows * 8; e += 256) {
        const int inside = e % (kMostRows * 8), row = inside / 8, in_turn = e / (kMostRows * 8);
        const int col = (tile + in_turn) * 8 + inside % 8;
        if (col >= part.cols || row >= part.rows) continue;
        const int slots = part.passes > 1 ? (int)kTurn : part.rounds;
        const float sum = aligned ? join_slots(to, in_turn * slots, slots, inside) : product_of(part, x, weights, row, col);
        finish_product(part.kind, patched, row, col, sum);
      }
      tile += tiles;
      which ^= 1;  // the next turn does not wait until these sums have been read
    }
  }
}
)cuda";

constexpr std::string_view kKernel = R"cuda(
extern "C" __global__ void __launch_bounds__(kAllThreads, 1) gex_super_kernel(const i64* words) {
  GEX_DECLARE_LOCALS
  char* const local = (char*)gex_locals + kLocalAt;
  char* const memory = (char*)gex_locals + kMemoryAt;
  char* const data = (char*)gex_locals + kRingAt;
  __shared__ i64 copied[2][kMostWords], patched[kMostWords];
  __shared__ unsigned short active[kPhaseCount];
#if GEX_RING_CLOCKS
  __shared__ u32 cycles[kPhaseCount];
#endif
  __shared__ int records[2][kRecordInts];
  __shared__ u64 full[kRingSlots], empty[kRingSlots];
  __shared__ int active_count;
  const int thread = (int)threadIdx.x;
  if (thread < kRingSlots) {
    barrier_init(full + thread, 1);
    barrier_init(empty + thread, 8);
    barriers_are_ready();
  }
  // The phases in which the block has work.
  if (thread < 32) {
    int count = 0;
#pragma unroll 1
    for (int first = 0; first < kPhaseCount; first += 32) {
      const bool works = first + thread < kPhaseCount && has_work(kRecords[first + thread].phase);
      const u32 all = __ballot_sync(0xffffffffu, works);
      if (works) active[count + __popc(all & ((1u << thread) - 1))] = (unsigned short)(first + thread);
      count += __popc(all);
    }
    if (thread == 0) active_count = count;
  }
  all_warps_sync();
  Ring ring = {data, full, empty, 0, 0};
  if (thread >= 256) {
    keep_few_registers();
    if (thread < 288) load_weights(words, ring);
    return;
  }
  take_more_registers();
  u32* const counters = (u32*)words[-2];
  const int last = active_count - 1;
  if (last < 0) return;
  // The record and the words of a phase are requested two phases ahead.
  const auto record_int = [&](int a) { return ((const int*)&kRecords[active[a < last ? a : last]])[thread < kRecordInts ? thread : 0]; };
  const auto word = [&](int a) { return phase_word(kRecords[active[a < last ? a : last]].phase, words, thread); };
  if (thread < kRecordInts) records[0][thread] = record_int(0);
  copied[0][thread] = word(0);
  int next_int = record_int(1);
  i64 next_word = word(1);
  __syncthreads();
#pragma unroll 1
  for (int a = 0; a <= last; ++a) {
    const i64* const mine = copied[a & 1];
    const PhaseRecord& record = *(const PhaseRecord*)records[a & 1];
    const PhaseEntry& phase = record.phase;
#if GEX_RING_CLOCKS
    const i64 begun = clock64();
#endif
    const int int_after_next = record_int(a + 2);
    const i64 word_after_next = word(a + 2);
    if (phase.products) {
#if GEX_RING_PRODUCTS
      product_phase(record, mine, counters, ring, (float*)gex_locals, patched, memory, local);
#endif
    } else {
      int at = first_block_of(phase);
      Waits waits = {phase.first_wait, phase.waits};
#pragma unroll 1
      for (; at < phase.total; at += kBlocks) {
        int i = 0;
        while (at >= record.part[i].first + record.part[i].count) ++i;
        const PartEntry& part = record.part[i];
        const Blocks block = {at - part.first, part.count};
        run_launch(part.kind, mine + part.word, mine + phase.words, block, waits, counters, memory, local);
        waits.count = 0;
        __syncthreads();
      }
    }
    if (thread < kRecordInts) records[(a + 1) & 1][thread] = next_int;
    copied[(a + 1) & 1][thread] = next_word;
    next_int = int_after_next;
    next_word = word_after_next;
    if (phase.ends) end_phase(counters + active[a]);
    __syncthreads();
#if GEX_RING_CLOCKS
    cycles[a] = (u32)(clock64() - begun);
#endif
  }
#if GEX_RING_CLOCKS
  if (thread == 0 && blockIdx.x % 61 == 0)
    for (int a = 0; a <= last; ++a) {
      const PhaseRecord& record = kRecords[active[a]];
      printf("gex_cycles %d %d %d %d %d %d %u\n", (int)blockIdx.x, (int)active[a], record.phase.products,
             record.part[0].kind, record.phase.total, record.part[0].depth, cycles[a]);
    }
#endif
}
)cuda";

}  // namespace

std::string_view ring_product_phase_text() { return kProductPhase; }
std::string_view ring_kernel_text() { return kKernel; }

}  // namespace gex::backend::cuda
