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
        GEX_MARK(1);
        if (!begun) {
          wait_for_phases(Waits{phase.first_wait, phase.waits}, counters);
          if (phase.local >= 0) repeat_launch(phase.local, mine + phase.words, local);
        }
        if (begun) __syncthreads();  // the part before reads its operands no more
        GEX_MARK(2);
        x = stage_left(part.kind, mine + part.word, patched, memory, local);
        begun = true;
        GEX_MARK(3);
      }
      float* const to = sums + which * (kTurn * 64 * kMostRows);
      if (aligned) multiply(part, x, round, count, pass > 0, w, to);
      if (++pass < part.passes) continue;
      pass = 0;
      __syncthreads();
      GEX_MARK(4);
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
  __shared__ u32 cycles[kPhaseCount][6];
#endif
  __shared__ int records[3][kRecordInts];
  __shared__ u64 full[kRingSlots], empty[kRingSlots];
  __shared__ int found[kAllThreads / 32];
  const int thread = (int)threadIdx.x;
  if (thread < kRingSlots) {
    barrier_init(full + thread, 1);
    barrier_init(empty + thread, 8);
    barriers_are_ready();
  }
  // The phases in which the block has work. All threads look: records come from global memory.
  int active_count = 0;
#pragma unroll 1
  for (int first = 0; first < kPhaseCount; first += kAllThreads) {
    const int lane = thread % 32, warp = thread / 32;
    const bool works = first + thread < kPhaseCount && has_work(kRecords[first + thread].phase);
    const u32 all = __ballot_sync(0xffffffffu, works);
    if (lane == 0) found[warp] = __popc(all);
    all_warps_sync();
    int at = active_count;
    for (int w = 0; w < kAllThreads / 32; ++w) {
      if (w < warp) at += found[w];
      active_count += found[w];
    }
    if (works) active[at + __popc(all & ((1u << lane) - 1))] = (unsigned short)(first + thread);
    all_warps_sync();
  }
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
  // The record of a phase is requested two phases ahead, its words one phase ahead.
  const auto request_record = [&](int a) {
    if (a <= last && thread < kRecordInts)
      request_bytes<4>(records[a % 3] + thread, (const int*)&kRecords[active[a]] + thread);
  };
  const auto request_words = [&](int a) {
    if (a > last) return;
    const i64* const from = phase_word(((const PhaseRecord*)records[a % 3])->phase, words, thread);
    if (from != 0) request_bytes<8>(copied[a & 1] + thread, from);
  };
  request_record(0);
  request_record(1);
  wait_for_requests();
  __syncthreads();
  request_words(0);
  wait_for_requests();
  __syncthreads();
#pragma unroll 1
  for (int a = 0; a <= last; ++a) {
    const i64* const mine = copied[a & 1];
    const PhaseRecord& record = *(const PhaseRecord*)records[a % 3];
    const PhaseEntry& phase = record.phase;
    GEX_MARK(0);
    request_record(a + 2);
    request_words(a + 1);
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
    GEX_MARK(5);
    if (phase.ends) end_phase(counters + active[a]);
    wait_for_requests();
    __syncthreads();
#if GEX_RING_CLOCKS
    if (thread == 0)
      for (int i = 0; i < 6; ++i) cycles[a][i] = (i < 5 ? gex_marks[i + 1] : (u32)clock64()) - gex_marks[0];
#endif
  }
#if GEX_RING_CLOCKS
  if (thread == 0 && blockIdx.x % 61 == 0)
    for (int a = 0; a <= last; ++a) {
      const PhaseRecord& record = kRecords[active[a]];
      const u32* const at = cycles[a];
      printf("gex_cycles %d %d %d %d %d %d %u %u %u %u %u %u\n", (int)blockIdx.x, (int)active[a],
             record.phase.products, record.part[0].kind, record.phase.total, record.part[0].depth, at[0],
             at[1], at[2], at[3], at[4], at[5]);
    }
#endif
}
)cuda";

}  // namespace

std::string_view ring_product_phase_text() { return kProductPhase; }
std::string_view ring_kernel_text() { return kKernel; }

}  // namespace gex::backend::cuda
