#pragma once
// C++ text around CUDA text that lets the host run it; shared by the tests of kernel text and by
// the CUDA driver that runs on the host.

namespace gex::codegen {

// Checks that the compiler adds to the text, and the functions that they call. A library is linked
// without the option, so that it needs no library of the compiler.
inline const char* const kEmulationChecks =
    "-fsanitize=alignment,bounds,shift -fno-sanitize-recover=all";
inline const char* const kCheckFunctions = R"(
#include <stdio.h>
#include <stdlib.h>
struct CheckedPlace { const char* file; unsigned line, column; };
static void stop_at(const char* what, const void* place) {
  const auto& at = *static_cast<const CheckedPlace*>(place);
  fprintf(stderr, "%s: line %u, column %u of the CUDA text\n", what, at.line, at.column);
  abort();
}
#define GEX_CHECK_FUNCTION extern "C" __attribute__((visibility("hidden"))) void
GEX_CHECK_FUNCTION __ubsan_handle_type_mismatch_v1_abort(void* place, void*) { stop_at("an access that is not aligned", place); }
GEX_CHECK_FUNCTION __ubsan_handle_out_of_bounds_abort(void* place, void*) { stop_at("an index beyond an array", place); }
GEX_CHECK_FUNCTION __ubsan_handle_shift_out_of_bounds_abort(void* place, void*, void*) { stop_at("a shift by too many bits", place); }
)";

// What CUDA provides to a kernel. Blocks of a cluster run together, and use dynamic shared memory
// only. Blocks of a persistent kernel (GEX_BLOCKS_RUN_TOGETHER) run at the same time, each in a
// thread of the host. Threads of every other block run in reverse order, and shared memory starts
// as NaN in each block, so that missing barriers show.
inline const char* const kEmulation = R"(
#define GEX_EMULATED
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct Dim3 { unsigned x; };
static thread_local Dim3 threadIdx, blockIdx, blockDim, gridDim;
static thread_local unsigned char* block_locals[16];
static thread_local unsigned rank_of_thread, cluster_size;  // of the running thread's block
#define gex_locals (block_locals[rank_of_thread])
#define __cluster_dims__(...)
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __noinline__
#ifdef GEX_BLOCKS_RUN_TOGETHER
#define __shared__ static thread_local
static void clear_static_shared() {}
extern "C" int gex_static_shared() { return 0; }
#else
#define __shared__ static __attribute__((section("gex_shared")))
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_gex_shared[], __stop_gex_shared[];
extern "C" int gex_static_shared() { return (int)(__stop_gex_shared - __start_gex_shared); }
static void clear_static_shared() { memset(__start_gex_shared, 0xff, gex_static_shared()); }
#endif
#define __constant__ static const
#define __trap abort
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__
#define GEX_DECLARE_LOCALS

struct Barrier { unsigned size, arrived, generation; };
static thread_local Barrier block_barriers[16], cluster_barrier, warp_barriers[16][32];
struct PendingCopy { void* to; const void* from; bool valid; int group; };
struct ThreadState {
  void* stack;  // where it goes on
  bool finished;
  unsigned long long shown[8];  // to its warp
  // Copies arrive no earlier than the thread waits for them.
  PendingCopy* pending;
  int num_pending, room, committed;
};
static thread_local ThreadState* threads_of_cluster;
static thread_local void* scheduler;
// Keeps the registers that functions keep, and goes on with another stack.
extern "C" void gex_switch_stack(void** from, void* to);
#ifdef __x86_64__
asm(".text\n.local gex_switch_stack\n.type gex_switch_stack, @function\ngex_switch_stack:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
static void* new_stack(unsigned char* top, void (*entry)()) {
  void** words = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) / 16 * 16);
  words[-2] = reinterpret_cast<void*>(entry);
  return words - 8;
}
#else
#error "the emulation of CUDA has no switch of stacks for this processor"
#endif
// The number of the running thread in its cluster.
static unsigned self_number() { return rank_of_thread * blockDim.x + threadIdx.x; }
static thread_local unsigned long long progress;
static void __attribute__((noinline)) yield_thread() {
  gex_switch_stack(&threads_of_cluster[self_number()].stack, scheduler);
}
static void __attribute__((noinline)) wait_at(Barrier& b) {
  if (++b.arrived == b.size) {
    b.arrived = 0;
    ++b.generation;
    ++progress;
    return;
  }
  for (const unsigned before = b.generation; b.generation == before;) yield_thread();
}
static void __syncthreads() { wait_at(block_barriers[rank_of_thread]); }
static thread_local int any_of_block[16];
static int __syncthreads_or(int value) {
  any_of_block[rank_of_thread] = 0;
  __syncthreads();
  if (value) any_of_block[rank_of_thread] = 1;
  __syncthreads();
  const int any = any_of_block[rank_of_thread];
  __syncthreads();
  return any;
}
// Of kernels whose last warps only copy.
static thread_local Barrier computing_barrier;
static void computing_warps_sync() { wait_at(computing_barrier); }
static void __syncwarp(unsigned = ~0u) { wait_at(warp_barriers[rank_of_thread][threadIdx.x / 32]); }
static void cluster_sync() { wait_at(cluster_barrier); }
static unsigned cluster_rank() { return rank_of_thread; }
static float cluster_float(const float* p, unsigned rank) {
  const auto offset = reinterpret_cast<const unsigned char*>(p) - block_locals[rank_of_thread];
  return *reinterpret_cast<const float*>(block_locals[rank] + offset);
}

// Warp operations: every lane shows a value, then reads those of others.
template <class T> static void show(const T& value) {
  ThreadState& self = threads_of_cluster[self_number()];
  static_assert(sizeof(T) <= sizeof self.shown);
  memcpy(self.shown, &value, sizeof(T));
  __syncwarp();
}
template <class T> static T shown_by(unsigned lane) {
  T value;
  memcpy(&value, threads_of_cluster[self_number() / 32 * 32 + lane % 32].shown, sizeof(T));
  return value;
}
template <class T> static T __shfl_sync(unsigned, T value, int lane, int = 32) {
  show(value);
  const T result = shown_by<T>((unsigned)lane);
  __syncwarp();
  return result;
}
template <class T> static T __shfl_xor_sync(unsigned mask, T value, int lanes, int = 32) {
  return __shfl_sync(mask, value, (int)(threadIdx.x % 32) ^ lanes);
}
template <class T> static T __shfl_down_sync(unsigned mask, T value, int lanes, int = 32) {
  const int lane = (int)(threadIdx.x % 32);
  return __shfl_sync(mask, value, lane + lanes < 32 ? lane + lanes : lane);
}
template <class T> static T __shfl_up_sync(unsigned mask, T value, int lanes, int = 32) {
  const int lane = (int)(threadIdx.x % 32);
  return __shfl_sync(mask, value, lane >= lanes ? lane - lanes : lane);
}
static unsigned __ballot_sync(unsigned, int bit) {
  show(bit);
  unsigned result = 0;
  for (unsigned lane = 0; lane < 32; ++lane) result |= (shown_by<int>(lane) != 0 ? 1u : 0u) << lane;
  __syncwarp();
  return result;
}
static int __popc(unsigned bits) { return __builtin_popcount(bits); }
static float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
template <class T, class U> static T atomicAdd(T* p, U v) { const T old = *p; *p = (T)(old + (T)v); return old; }
static void __threadfence() {}
static long long clock64() { return 0; }
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
namespace gex { float f16_to_f32(uint16_t); uint16_t f32_to_f16(float); }
static float of_f16(unsigned short h) { return gex::f16_to_f32(h); }
static unsigned short to_f16(float f) { return gex::f32_to_f16(f); }

static unsigned short to_bf16(float f) {
  unsigned u;
  memcpy(&u, &f, 4);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (unsigned short)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
template <bool bf16> static unsigned to_halves(float low, float high) {
  return bf16 ? to_bf16(low) | (unsigned)to_bf16(high) << 16 : to_f16(low) | (unsigned)to_f16(high) << 16;
}
static float min_f32(float a, float b) { return a != a ? a : (b != b ? b : (b < a ? b : a)); }
static float max_f32(float a, float b) { return a != a ? a : (b != b ? b : (b > a ? b : a)); }
static void wait_for_inputs() {}
static void touch_words(const long long*, int) {}
static float fast_exp2(float a) { return exp2f(a); }
struct Fragments { unsigned a[4], b[2]; };
template <bool bf16> static float half_at(unsigned pair, int high) {
  const unsigned short bits = (unsigned short)(pair >> (16 * high));
  if (!bf16) return of_f16(bits);
  const unsigned wide = (unsigned)bits << 16;
  float f;
  memcpy(&f, &wide, 4);
  return f;
}
// Tensor cores do not round their sums.
static float cut_off(double sum) {
  const float rounded = (float)sum;
  return fabs((double)rounded) > fabs(sum) ? nextafterf(rounded, 0.0f) : rounded;
}
template <bool bf16>
static void mma_16816(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  show(Fragments{{a[0], a[1], a[2], a[3]}, {b0, b1}});
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4, col = lane % 4 * 2 + i % 2;
    double sum = d[i];
    for (unsigned k = 0; k < 16; ++k) {
      const Fragments left = shown_by<Fragments>(row * 4 + k % 8 / 2);
      const Fragments right = shown_by<Fragments>(col * 4 + k % 8 / 2);
      sum += (double)half_at<bf16>(left.a[i / 2 + k / 8 * 2], k % 2) * half_at<bf16>(right.b[k / 8], k % 2);
    }
    d[i] = cut_off(sum);
  }
  __syncwarp();
}
static unsigned shared_address(const void* p) {
  return (unsigned)(static_cast<const unsigned char*>(p) - gex_locals);
}
static void load_8x8(unsigned (&r)[4], unsigned row_at, bool transposed) {
  const void* const address = gex_locals + row_at;
  show(address);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i) {
    unsigned short pair[2];
    for (unsigned h = 0; h < 2; ++h) {
      const unsigned row = transposed ? lane % 4 * 2 + h : lane / 4;
      const unsigned col = transposed ? lane / 4 : lane % 4 * 2 + h;
      const auto* base = static_cast<const unsigned short*>(shown_by<const void*>(i * 8 + row));
      if (reinterpret_cast<uintptr_t>(base) % 16) { fprintf(stderr, "an unaligned row of a matrix\n"); abort(); }
      pair[h] = base[col];
    }
    memcpy(&r[i], pair, 4);
  }
  __syncwarp();
}
static void load_matrices(unsigned (&r)[4], unsigned row) { load_8x8(r, row, false); }
static void load_matrices_transposed(unsigned (&r)[4], unsigned row) { load_8x8(r, row, true); }

static void store_shared(unsigned to, const uint4& v) { memcpy(gex_locals + to, &v, 16); }
static void store_shared(unsigned to, unsigned short v) { memcpy(gex_locals + to, &v, 2); }
static void copy_async(unsigned place, const void* from, bool valid) {
  void* const to = gex_locals + place;
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(valid ? from : nullptr)) % 16) {
    fprintf(stderr, "an unaligned copy\n");
    abort();
  }
  ThreadState& self = threads_of_cluster[self_number()];
  if (self.num_pending == self.room) {
    self.room = self.room * 2 + 16;
    self.pending = static_cast<PendingCopy*>(realloc(self.pending, self.room * sizeof(PendingCopy)));
  }
  self.pending[self.num_pending++] = {to, from, valid, self.committed};
}
static void commit_copies() { ++threads_of_cluster[self_number()].committed; }
template <int groups> static void wait_copies() {
  ThreadState& self = threads_of_cluster[self_number()];
  int later = 0;
  for (int i = 0; i < self.num_pending; ++i) {
    const PendingCopy copy = self.pending[i];
    if (copy.group >= self.committed - groups) self.pending[later++] = copy;
    else if (copy.valid) memcpy(copy.to, copy.from, 16);
    else memset(copy.to, 0, 16);
  }
  self.num_pending = later;
}
static void wait_all_copies() {
  commit_copies();
  wait_copies<0>();
}
// Barriers that count arrivals and the bytes of bulk copies: [phase 1][expected 15][missing 16][bytes 32].
// In blocks of an even number a copy arrives when somebody has waited for it for a while, in the others
// at once: a missing wait for the data or for its room shows.
struct BulkCopy { char* to; const char* from; int bytes; unsigned long long* barrier; };
static thread_local BulkCopy bulk_copies[4096];
static thread_local int num_bulk_copies;
static void barrier_complete(unsigned long long* b) {
  if ((*b >> 32 & 0xffff) != 0 || (unsigned)*b != 0) return;
  const unsigned long long expected = *b >> 48 & 0x7fff;
  *b = (*b ^ 1ull << 63) | expected << 32;
  ++progress;
}
static void barrier_init(unsigned long long* b, int count) { *b = (unsigned long long)count << 48 | (unsigned long long)count << 32; }
static void barriers_are_ready() {}
static void barrier_arrive(unsigned long long* b) {
  if ((*b >> 32 & 0xffff) == 0) { fprintf(stderr, "more arrivals at a barrier than it expects\n"); abort(); }
  *b -= 1ull << 32;
  barrier_complete(b);
}
static void barrier_expect(unsigned long long* b, int bytes) {
  *b = (*b & ~0xffffffffull) | (unsigned)(*b + bytes);
  barrier_arrive(b);
}
static void copy_in_bulk(const BulkCopy& copy) {
  memcpy(copy.to, copy.from, copy.bytes);
  *copy.barrier = (*copy.barrier & ~0xffffffffull) | (unsigned)(*copy.barrier - copy.bytes);
  barrier_complete(copy.barrier);
}
static unsigned long long read_once_policy() { return 0; }
static void bulk_copy(char* to, const char* from, int bytes, unsigned long long* barrier, unsigned long long) {
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes) % 16) { fprintf(stderr, "an unaligned bulk copy\n"); abort(); }
  const BulkCopy copy = {to, from, bytes, barrier};
  if (blockIdx.x % 2) return copy_in_bulk(copy);
  if (num_bulk_copies == 4096) { fprintf(stderr, "too many bulk copies\n"); abort(); }
  bulk_copies[num_bulk_copies++] = copy;
}
static bool barrier_passed(unsigned long long* b, int parity) {
  if ((int)(*b >> 63) != parity) return true;
  yield_thread();
  if ((int)(*b >> 63) != parity) return true;
  int left = 0;
  for (int i = 0; i < num_bulk_copies; ++i)
    if (bulk_copies[i].barrier == b) copy_in_bulk(bulk_copies[i]);
    else bulk_copies[left++] = bulk_copies[i];
  num_bulk_copies = left;
  return (int)(*b >> 63) != parity;
}
template <int bytes> static void request_bytes(void* to, const void* from) {
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % bytes) { fprintf(stderr, "an unaligned copy\n"); abort(); }
  memcpy(to, from, bytes);
}
static void wait_for_requests() {}
static uint4 load_shared(const char* p) {
  if (reinterpret_cast<uintptr_t>(p) % 16) { fprintf(stderr, "an unaligned load\n"); abort(); }
  uint4 v;
  memcpy(&v, p, 16);
  return v;
}
// Exchanged memory and counters of persistent kernels.
static uint4 load_exchanged(const char* p) {
  if (reinterpret_cast<uintptr_t>(p) % 16) { fprintf(stderr, "an unaligned load\n"); abort(); }
  const auto* words = reinterpret_cast<const unsigned*>(p);
  uint4 v;
  unsigned* const to[] = {&v.x, &v.y, &v.z, &v.w};
  for (int i = 0; i < 4; i += 2) {
    const auto both = __atomic_load_n(reinterpret_cast<const unsigned long long*>(words + i), __ATOMIC_RELAXED);
    *to[i] = (unsigned)both;
    *to[i + 1] = (unsigned)(both >> 32);
  }
  return v;
}
static void store_word(char* p, unsigned word) { __atomic_store_n(reinterpret_cast<unsigned*>(p), word, __ATOMIC_RELAXED); }
static void store_word(char* p, unsigned long long word) { __atomic_store_n(reinterpret_cast<unsigned long long*>(p), word, __ATOMIC_RELAXED); }
static void add_release(unsigned* p) { __atomic_fetch_add(p, 1u, __ATOMIC_RELEASE); }
static unsigned load_acquire(const unsigned* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
// Other threads of the block may be what this one waits for.
static void poll_again() {
  ++progress;
  sched_yield();
  yield_thread();
}
static bool is_shared(const void*) { return true; }
static void touch(const char*) {}
static uint4 load_once(const void* p) {
  if (reinterpret_cast<uintptr_t>(p) % 16) { fprintf(stderr, "an unaligned load\n"); abort(); }
  uint4 v;
  memcpy(&v, p, 16);
  return v;
}
)";

inline const char* const kEmulatedRun = R"(
static thread_local void (*running)(const i64*);
static thread_local const i64* running_words;
static void run_thread() {
  running(running_words);
  threads_of_cluster[self_number()].finished = true;
  ++progress;
  for (;;) yield_thread();
}
static void run_cluster(unsigned first_block, unsigned threads, unsigned char* stacks, size_t stack) {
  cluster_barrier = {threads * cluster_size, 0, 0};
  for (unsigned c = 0; c < cluster_size; ++c) {
    block_barriers[c] = {threads, 0, 0};
    for (unsigned w = 0; w < 32; ++w)
      warp_barriers[c][w] = {threads >= (w + 1) * 32 ? 32 : (threads > w * 32 ? threads - w * 32 : 0), 0, 0};
  }
  computing_barrier = {256, 0, 0};
  num_bulk_copies = 0;
  const unsigned all = threads * cluster_size;
  for (unsigned t = 0; t < all; ++t) {
    threads_of_cluster[t].finished = false;
    threads_of_cluster[t].stack = new_stack(stacks + (t + 1) * stack, run_thread);
  }
  for (bool live = true; live;) {
    live = false;
    const unsigned long long before = progress;
    for (unsigned i = 0; i < all; ++i) {
      const unsigned t = first_block / cluster_size % 2 ? all - 1 - i : i;
      ThreadState& thread = threads_of_cluster[t];
      if (thread.finished) continue;
      rank_of_thread = t / threads;
      threadIdx.x = t % threads;
      blockIdx.x = first_block + rank_of_thread;
      gex_switch_stack(&scheduler, thread.stack);
      live = live || !thread.finished;
    }
    if (live && progress == before) {
      fprintf(stderr, "a barrier that not all threads of block %u reach\n", blockIdx.x);
      abort();
    }
  }
  if (num_bulk_copies > 0) { fprintf(stderr, "a bulk copy that nobody waits for\n"); abort(); }
}
// Runs blocks first, first + step, ...
static void run_blocks(void (*kernel)(const i64*), const i64* words, unsigned first, unsigned step, unsigned blocks,
                       unsigned threads, long long shared, unsigned cluster) {
  // Those of 256 threads are small enough for the heap, which keeps the memory for the next launch.
  const size_t stack = 96 << 10, all = threads * cluster;
  auto* stacks = static_cast<unsigned char*>(malloc(stack * all));
  for (size_t t = 0; t < all; ++t) memset(stacks + t * stack, 0xa5, 8);
  threads_of_cluster = static_cast<ThreadState*>(calloc(all, sizeof(ThreadState)));
  const size_t part = (static_cast<size_t>(shared) + 255) / 128 * 128, bytes = part * cluster + 128;
  auto* memory = static_cast<unsigned char*>(malloc(bytes));
  unsigned char* base = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(memory) + 127) / 128 * 128);
  running = kernel;
  running_words = words;
  gridDim.x = blocks;
  blockDim.x = threads;
  cluster_size = cluster;
  if (blocks % cluster) { fprintf(stderr, "part of a cluster\n"); abort(); }
  for (unsigned block = first; block < blocks; block += step) {
    memset(memory, 0xff, bytes);
    clear_static_shared();
    for (unsigned c = 0; c < cluster; ++c) block_locals[c] = base + c * part;
    run_cluster(block, threads, stacks, stack);
    for (unsigned c = 0; c < cluster; ++c)
      for (size_t i = static_cast<size_t>(shared); i < part; ++i)
        if (block_locals[c][i] != 0xff) { fprintf(stderr, "a store behind shared memory\n"); abort(); }
  }
  for (size_t t = 0; t < all; ++t) {
    free(threads_of_cluster[t].pending);
    for (size_t i = 0; i < 8; ++i)
      if (stacks[t * stack + i] != 0xa5) { fprintf(stderr, "a stack is too small\n"); abort(); }
  }
  free(stacks);
  free(threads_of_cluster);
  free(memory);
}
struct PersistentBlock {
  void (*kernel)(const i64*);
  const i64* words;
  unsigned block, blocks, threads;
  long long shared;
  pthread_t thread;
};
static void* run_persistent(void* argument) {
  const PersistentBlock& b = *static_cast<PersistentBlock*>(argument);
  run_blocks(b.kernel, b.words, b.block, b.blocks, b.blocks, b.threads, b.shared, 1);
  return nullptr;
}
// cluster 0: a persistent kernel.
extern "C" void run_kernel(void (*kernel)(const i64*), const i64* words, unsigned blocks,
                           unsigned threads, long long shared, unsigned cluster) {
  if (cluster > 0) return run_blocks(kernel, words, 0, cluster, blocks, threads, shared, cluster);
  auto* all = static_cast<PersistentBlock*>(calloc(blocks, sizeof(PersistentBlock)));
  for (unsigned block = 0; block < blocks; ++block) {
    all[block] = {kernel, words, block, blocks, threads, shared, {}};
    if (pthread_create(&all[block].thread, nullptr, run_persistent, &all[block])) abort();
  }
  for (unsigned block = 0; block < blocks; ++block) pthread_join(all[block].thread, nullptr);
  free(all);
}
)";

}  // namespace gex::codegen
