#pragma once
// C++ text around CUDA text that lets the host run it; shared by the tests of kernel text and by
// the CUDA driver that runs on the host.

namespace gex::codegen {

// What CUDA provides to a kernel. Blocks of a cluster run together, and use dynamic shared memory
// only. Blocks of a persistent kernel run at the same time, each in a thread of the host. Threads
// of every other block run in reverse order, and shared memory starts as NaN, so that missing
// barriers show.
inline const char* const kEmulation = R"(
#define GEX_EMULATED
#include <ucontext.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>
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
#define __shared__ static thread_local
#define __constant__ static const
#define __trap abort
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__
#define GEX_DECLARE_LOCALS

struct Barrier { unsigned size, arrived, generation; };
static thread_local Barrier block_barriers[16], cluster_barrier, warp_barriers[16][32];
static thread_local ucontext_t scheduler, fibers[4096];
static thread_local bool finished[4096];
// The number of the running thread in its cluster.
static unsigned self_number() { return rank_of_thread * blockDim.x + threadIdx.x; }
static thread_local unsigned long long progress;
static void __attribute__((noinline)) yield_thread() {
  const unsigned self = self_number();
  swapcontext(&fibers[self], &scheduler);
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
static void __syncwarp(unsigned = ~0u) { wait_at(warp_barriers[rank_of_thread][threadIdx.x / 32]); }
static void cluster_sync() { wait_at(cluster_barrier); }
static unsigned cluster_rank() { return rank_of_thread; }
static float cluster_float(const float* p, unsigned rank) {
  const auto offset = reinterpret_cast<const unsigned char*>(p) - block_locals[rank_of_thread];
  return *reinterpret_cast<const float*>(block_locals[rank] + offset);
}

// Warp operations: every lane shows a value, then reads those of others.
static thread_local unsigned long long shown[4096][8];
template <class T> static T* show(const T& value) {
  static_assert(sizeof(T) <= sizeof shown[0]);
  memcpy(shown[self_number()], &value, sizeof(T));
  __syncwarp();
  return reinterpret_cast<T*>(shown[self_number() / 32 * 32]);
}
template <class T> static T shown_by(unsigned lane) {
  T value;
  memcpy(&value, shown[self_number() / 32 * 32 + lane % 32], sizeof(T));
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
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
namespace gex { float f16_to_f32(std::uint16_t); std::uint16_t f32_to_f16(float); }
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
    d[i] = (float)sum;
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

// Copies arrive no earlier than a thread waits for them.
struct PendingCopy { void* to; const void* from; bool valid; int group; };
static thread_local std::vector<PendingCopy> pending[4096];
static thread_local int committed[4096];
static void store_shared(unsigned to, const uint4& v) { memcpy(gex_locals + to, &v, 16); }
static void store_shared(unsigned to, unsigned short v) { memcpy(gex_locals + to, &v, 2); }
static void copy_async(unsigned place, const void* from, bool valid) {
  void* const to = gex_locals + place;
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(valid ? from : nullptr)) % 16) {
    fprintf(stderr, "an unaligned copy\n");
    abort();
  }
  pending[self_number()].push_back({to, from, valid, committed[self_number()]});
}
static void commit_copies() { ++committed[self_number()]; }
template <int groups> static void wait_copies() {
  auto& mine = pending[self_number()];
  std::vector<PendingCopy> later;
  for (const PendingCopy& copy : mine) {
    if (copy.group >= committed[self_number()] - groups) later.push_back(copy);
    else if (copy.valid) memcpy(copy.to, copy.from, 16);
    else memset(copy.to, 0, 16);
  }
  mine = later;
}
static void wait_all_copies() {
  commit_copies();
  wait_copies<0>();
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
  std::this_thread::yield();
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
  const unsigned self = self_number();
  running(running_words);
  finished[self] = true;
  ++progress;
  for (;;) swapcontext(&fibers[self], &scheduler);
}
static void run_cluster(unsigned first_block, unsigned threads, unsigned char* stacks, size_t stack) {
  cluster_barrier = {threads * cluster_size, 0, 0};
  for (unsigned c = 0; c < cluster_size; ++c) {
    block_barriers[c] = {threads, 0, 0};
    for (unsigned w = 0; w < 32; ++w)
      warp_barriers[c][w] = {threads >= (w + 1) * 32 ? 32 : (threads > w * 32 ? threads - w * 32 : 0), 0, 0};
  }
  const unsigned all = threads * cluster_size;
  for (unsigned t = 0; t < all; ++t) {
    finished[t] = false;
    getcontext(&fibers[t]);
    fibers[t].uc_stack.ss_sp = stacks + t * stack;
    fibers[t].uc_stack.ss_size = stack;
    fibers[t].uc_link = nullptr;
    makecontext(&fibers[t], run_thread, 0);
  }
  for (bool live = true; live;) {
    live = false;
    const unsigned long long before = progress;
    for (unsigned i = 0; i < all; ++i) {
      const unsigned t = first_block / cluster_size % 2 ? all - 1 - i : i;
      if (finished[t]) continue;
      rank_of_thread = t / threads;
      threadIdx.x = t % threads;
      blockIdx.x = first_block + rank_of_thread;
      swapcontext(&scheduler, &fibers[t]);
      live = live || !finished[t];
    }
    if (live && progress == before) {
      fprintf(stderr, "a barrier that not all threads of block %u reach\n", blockIdx.x);
      abort();
    }
  }
}
// Runs blocks first, first + step, ...
static void run_blocks(void (*kernel)(const i64*), const i64* words, unsigned first, unsigned step, unsigned blocks,
                       unsigned threads, long long shared, unsigned cluster) {
  const size_t stack = 256 << 10;
  std::unique_ptr<unsigned char[]> stacks(new unsigned char[stack * threads * cluster]);
  const size_t part = (static_cast<size_t>(shared) + 255) / 128 * 128;
  std::vector<unsigned char> memory(part * cluster + 128);
  unsigned char* base = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(memory.data()) + 127) / 128 * 128);
  running = kernel;
  running_words = words;
  gridDim.x = blocks;
  blockDim.x = threads;
  cluster_size = cluster;
  if (blocks % cluster) { fprintf(stderr, "part of a cluster\n"); abort(); }
  for (unsigned block = first; block < blocks; block += step) {
    memset(memory.data(), 0xff, memory.size());
    for (unsigned c = 0; c < cluster; ++c) block_locals[c] = base + c * part;
    run_cluster(block, threads, stacks.get(), stack);
    for (unsigned c = 0; c < cluster; ++c)
      for (size_t i = static_cast<size_t>(shared); i < part; ++i)
        if (block_locals[c][i] != 0xff) { fprintf(stderr, "a store behind shared memory\n"); abort(); }
  }
}
// cluster 0: a persistent kernel.
extern "C" void run_kernel(void (*kernel)(const i64*), const i64* words, unsigned blocks,
                           unsigned threads, long long shared, unsigned cluster) {
  if (cluster > 0) return run_blocks(kernel, words, 0, cluster, blocks, threads, shared, cluster);
  std::vector<std::thread> all;
  for (unsigned block = 0; block < blocks; ++block)
    all.emplace_back([=] { run_blocks(kernel, words, block, blocks, blocks, threads, shared, 1); });
  for (std::thread& one : all) one.join();
}
)";

}  // namespace gex::codegen
