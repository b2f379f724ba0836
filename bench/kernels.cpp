// Speed of the hand-written CPU kernels compared with the machine's limits in the same run: matmuls
// with the fused-multiply-add peak, decode with a plain read of memory.
//
//   bench_kernels [threads] [filter]
//
// Times are the CPU time of the slowest thread, best of several runs, so that other load on the
// machine affects them little.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backend/cpu/kernels/attention.hpp"
#include "backend/cpu/kernels/conv2d.hpp"
#include "backend/cpu/kernels/matmul.hpp"
#include "backend/cpu/kernels/variants.hpp"
#include "base/error.hpp"
#include "base/tensor.hpp"

namespace {

using gex::Dim;
using gex::DType;
using gex::str;
using namespace gex::kernels;
using i64 = std::int64_t;

int thread_count = 1;
std::string filter;

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

// Best over `runs` of the slowest thread's CPU time; the first run warms up.
double best_seconds(int runs, const std::function<void(int thread)>& work) {
  std::vector<std::vector<double>> times(thread_count, std::vector<double>(runs));
  auto body = [&](int thread) {
    work(thread);
    for (int r = 0; r < runs; ++r) {
      const double start = cpu_seconds();
      work(thread);
      times[thread][r] = cpu_seconds() - start;
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < thread_count; ++t) others.emplace_back(body, t);
  body(0);
  for (auto& t : others) t.join();
  double slowest = 0;
  for (const auto& mine : times)
    slowest = std::max(slowest, *std::min_element(mine.begin(), mine.end()));
  return slowest;
}

template <class T, int bytes>
__attribute__((always_inline)) inline float multiply_add_loop(i64 steps) {
  typedef T V __attribute__((vector_size(bytes)));
  V acc[12] = {}, x = {}, y = {};
  for (int i = 0; i < 12; ++i) acc[i] += static_cast<T>(i);  // else they would be one value
  x += 1.0f;
  y += 0.5f;
  for (i64 i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) acc[j] = acc[j] * x + y;
  }
  float sum = 0;
  for (int i = 0; i < 12; ++i) sum += acc[i][0];
  return sum;
}
#if defined(__x86_64__)
__attribute__((target("avx512f"))) float peak512(i64 n) { return multiply_add_loop<float, 64>(n); }
__attribute__((target("avx2,fma"))) float peak256(i64 n) { return multiply_add_loop<float, 32>(n); }
#endif
float peak128(i64 n) { return multiply_add_loop<float, 16>(n); }

volatile float sink;

double peak_flops(const std::string& variant) {
  float (*fn)(i64) = &peak128;
  int lanes = 4;
#if defined(__x86_64__)
  if (variant == "avx512") fn = &peak512, lanes = 16;
  if (variant == "avx2") fn = &peak256, lanes = 8;
#endif
  const i64 steps = 2'000'000;
  const double seconds = best_seconds(5, [&](int) { sink = fn(steps); });
  return 2.0 * 12 * lanes * steps * thread_count / seconds;
}

double read_bytes_per_second() {
  const i64 count = i64{32} << 20;
  std::vector<std::uint64_t> data(count, 1);
  const double seconds = best_seconds(5, [&](int thread) {
    std::uint64_t sums[16] = {};
    const i64 begin = count * thread / thread_count, end = count * (thread + 1) / thread_count;
    for (i64 i = begin; i + 16 <= end; i += 16)
      for (int j = 0; j < 16; ++j) sums[j] += data[i + j];
    sink = static_cast<float>(sums[3] + sums[9]);
  });
  return count * 8.0 / seconds;
}

double peak, bandwidth;

void report(const std::string& name, double seconds, double flops, double bytes) {
  std::printf("%-46s %9.3f ms %8.1f GFLOP/s %4.0f%% of peak %7.1f GB/s %4.0f%% of read\n",
              name.c_str(), seconds * 1e3, flops / seconds * 1e-9, 100 * flops / seconds / peak,
              bytes / seconds * 1e-9, 100 * bytes / seconds / bandwidth);
  std::fflush(stdout);
}

bool wanted(const std::string& name) { return name.find(filter) != std::string::npos; }

gex::HostTensor random_tensor(DType dtype, i64 count) {
  gex::HostTensor t(dtype, {count});
  std::mt19937 rng(1);
  std::vector<double> some(1021);
  for (double& v : some) v = std::uniform_real_distribution<double>(-1, 1)(rng);
  for (i64 i = 0; i < count; ++i) t.set(i, some[i % 1021]);
  return t;
}

void run(const std::string& name, const gex::program::Callable& kernel,
         const std::vector<void*>& buffers, const std::vector<i64>& dims, Dim grid, Dim scratch,
         double flops, double bytes) {
  const i64 units = grid.constant();
  const std::size_t size = (scratch.constant() + 63) / 64 * 64;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> memory;
  for (int t = 0; t < thread_count; ++t)
    memory.emplace_back(static_cast<std::byte*>(std::aligned_alloc(64, size)), &std::free);
  const int runs = std::clamp(static_cast<int>(4e9 / std::max(flops, bytes * 4)), 3, 30);
  const double seconds = best_seconds(runs, [&](int t) {
    kernel(buffers.data(), dims.data(), units * t / thread_count, units * (t + 1) / thread_count,
           memory[t].get());
  });
  report(name, seconds, flops, bytes);
}

void matmul(i64 m, i64 n, i64 k, DType a, DType b, bool weight_layout, bool packed = false) {
  const std::string name = str("matmul ", m, "x", n, "x", k, " ", a, "*", b,
                               packed          ? " packed"
                               : weight_layout ? " [N,K]"
                                               : " [K,N]");
  if (!wanted(name)) return;
  gex::kernels::MatmulProblem p{a, b, a, packed};
  gex::HostTensor ta = random_tensor(a, m * k), tc(a, {m * n});
  gex::HostTensor tb =
      random_tensor(b, packed ? matmul_packed_elements(p, 1, n, k).constant() : n * k);
  run(name, make_matmul(p), {ta.data(), tb.data(), tc.data()},
      {1, 1, m, n, k, 0, 0, k, 1, 0, 0, weight_layout ? 1 : n, weight_layout ? k : 1, 0, 0, n, 1},
      matmul_grid(p, 1, m, n, k), matmul_scratch_bytes(p, 1, m, n, k), 2.0 * m * n * k,
      double(n) * k * gex::size_of(b));
}

void conv(i64 n, i64 c, i64 size, i64 o, i64 kernel, i64 stride, i64 groups, bool packed = false) {
  const std::string name = str("conv2d n", n, " c", c, " ", size, "x", size, " o", o, " k", kernel,
                               " s", stride, " g", groups, packed ? " packed" : "");
  if (!wanted(name)) return;
  const i64 pad = kernel / 2, out = (size + 2 * pad - kernel) / stride + 1, cg = c / groups;
  gex::kernels::Conv2dProblem p{.stride = {stride, stride}, .pad = {pad, pad}, .groups = groups};
  p.w_packed = packed;
  const i64 taps = kernel * kernel, depth = cg * taps;
  gex::HostTensor x = random_tensor(DType::f32, n * c * size * size);
  gex::HostTensor w = random_tensor(
      DType::f32, packed ? conv2d_packed_elements(p, o, depth, false).constant() : o * depth);
  gex::HostTensor y(DType::f32, {n * o * out * out});
  const std::vector<i64> dims = {n,
                                 c,
                                 size,
                                 size,
                                 o,
                                 out,
                                 out,
                                 kernel,
                                 kernel,
                                 c * size * size,
                                 size * size,
                                 size,
                                 1,
                                 depth,
                                 taps,
                                 kernel,
                                 1,
                                 o * out * out,
                                 out * out,
                                 out,
                                 1};
  run(name, make_conv2d(p), {x.data(), w.data(), y.data()}, dims, conv2d_grid(p, n, o, out, out),
      conv2d_scratch_bytes(p), 2.0 * n * o * out * out * depth, double(x.bytes() + y.bytes()));
}

void attention(i64 batch, i64 heads, i64 kv_heads, i64 queries, i64 keys, i64 d, DType dtype,
               bool causal) {
  const std::string name = str("attention b", batch, " h", heads, "/", kv_heads, " q", queries,
                               " k", keys, " d", d, " ", dtype, causal ? " causal" : "");
  if (!wanted(name)) return;
  gex::kernels::AttentionProblem p{.qkv = dtype, .out = dtype};
  if (causal) p.causal = gex::kernels::Causal::top_left;
  gex::HostTensor q = random_tensor(dtype, batch * heads * queries * d);
  gex::HostTensor k = random_tensor(dtype, batch * kv_heads * keys * d), v = k, out = q;
  run(name, make_attention(p), {q.data(), k.data(), v.data(), out.data()},
      {batch,       heads, kv_heads, queries,
       keys,        d,     d,        heads * queries * d,
       queries * d, d,     1,        kv_heads * keys * d,
       keys * d,    d,     1,        kv_heads * keys * d,
       keys * d,    d,     1,        heads * queries * d,
       queries * d, d,     1},
      attention_grid(p, batch, heads, kv_heads, queries), attention_scratch_bytes(p, d, d),
      4.0 * batch * heads * queries * keys * d * (causal ? 0.5 : 1), double(k.bytes() + v.bytes()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) thread_count = std::max(1, std::atoi(argv[1]));
  if (argc > 2) filter = argv[2];
  const std::string variant = gex::kernels::usable_variants().front()->name;
  peak = peak_flops(variant);
  bandwidth = read_bytes_per_second();
  std::printf("%s, %d thread(s): peak %.1f GFLOP/s (f32), read %.1f GB/s\n", variant.c_str(),
              thread_count, peak * 1e-9, bandwidth * 1e-9);
  for (const bool weights : {true, false}) {
    for (const i64 s : {512, 1024, 2048}) matmul(s, s, s, DType::f32, DType::f32, weights);
    matmul(64, 1024, 1024, DType::f32, DType::f32, weights);
    matmul(128, 768, 768, DType::f32, DType::f32, weights);
    matmul(100, 300, 200, DType::f32, DType::f32, weights);
    for (const i64 m : {1, 2, 4, 8, 16, 32}) {
      matmul(m, 4096, 4096, DType::f32, DType::f32, weights);
      matmul(m, 4096, 4096, DType::bf16, DType::bf16, weights);
    }
  }
  matmul(1024, 1024, 1024, DType::bf16, DType::bf16, true);
  matmul(512, 512, 512, DType::f64, DType::f64, true);
  for (const i64 m : {1, 8, 16, 64}) {
    matmul(m, 4096, 4096, DType::f32, DType::f32, true, true);
    matmul(m, 4096, 4096, DType::bf16, DType::bf16, true, true);
  }
  conv(1, 64, 56, 64, 3, 1, 1);
  conv(1, 256, 14, 256, 3, 1, 1);
  conv(1, 512, 7, 512, 3, 1, 1);
  conv(1, 256, 14, 256, 3, 1, 1, true);
  conv(1, 512, 7, 512, 3, 1, 1, true);
  conv(1, 256, 56, 64, 1, 1, 1);
  conv(1, 3, 224, 64, 7, 2, 1);
  conv(1, 128, 56, 128, 3, 2, 1);
  conv(1, 144, 56, 144, 3, 1, 144);
  attention(1, 12, 12, 512, 512, 64, DType::f32, false);
  attention(1, 16, 16, 1024, 1024, 128, DType::f32, true);
  attention(1, 32, 8, 1, 4096, 128, DType::f32, false);
  attention(1, 32, 8, 1, 4096, 128, DType::bf16, false);
  attention(8, 12, 12, 1, 1024, 64, DType::f32, false);
  return 0;
}
