#include "report/machine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

#include "base/thread_pool.hpp"
#include "nvidia/device.hpp"

namespace gex::report {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kTries = 5;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) {
      const std::size_t colon = line.find(':');
      if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
    }
  return "unknown processor";
}

// Enough independent chains to fill the multiply-add units: 16 vectors of 16 floats.
constexpr int kChains = 16, kLanes = 16;
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));

// `noinline` and the returned sum keep the work from being optimised away.
#define GEX_MULTIPLY_ADDS(name, ...)                                                    \
  __VA_ARGS__ __attribute__((noinline)) float name(std::int64_t rounds, float factor) { \
    Vector sums[kChains];                                                               \
    for (int c = 0; c < kChains; ++c) sums[c] = Vector{} + static_cast<float>(c);       \
    const Vector scale = Vector{} + factor;                                             \
    for (std::int64_t r = 0; r < rounds; ++r)                                           \
      for (int c = 0; c < kChains; ++c) sums[c] = sums[c] * scale + scale;              \
    Vector all = sums[0];                                                               \
    for (int c = 1; c < kChains; ++c) all += sums[c];                                   \
    return all[0] + all[kLanes - 1];                                                    \
  }

// y += x: vectors of the same instruction set.
#define GEX_ADD(name, ...)                                                                        \
  __VA_ARGS__ __attribute__((noinline)) void name(float* __restrict y, const float* __restrict x, \
                                                  std::int64_t n) {                               \
    for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];                                            \
  }

#if defined(__x86_64__)
#define GEX_512 __attribute__((target("avx512f,fma,prefer-vector-width=512"), optimize("O3")))
#define GEX_256 __attribute__((target("avx2,fma"), optimize("O3")))
GEX_MULTIPLY_ADDS(multiply_adds_512, GEX_512)
GEX_MULTIPLY_ADDS(multiply_adds_256, GEX_256)
GEX_ADD(add_512, GEX_512)
GEX_ADD(add_256, GEX_256)
#endif
GEX_MULTIPLY_ADDS(multiply_adds_plain, __attribute__((optimize("O3"))))
GEX_ADD(add_plain, __attribute__((optimize("O3"))))

struct Loops {
  float (*multiply_adds)(std::int64_t, float);
  void (*add)(float*, const float*, std::int64_t);
};

Loops best_loops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {multiply_adds_512, add_512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {multiply_adds_256, add_256};
#endif
  return {multiply_adds_plain, add_plain};
}

double measured_gflops(ThreadPool::Region& region) {
  constexpr std::int64_t kRounds = 200'000;
  const auto run = best_loops().multiply_adds;
  const auto threads = static_cast<std::int64_t>(region.threads());
  volatile float kept = 0;
  double best = 0;
  for (int t = 0; t < kTries; ++t) {
    const auto start = Clock::now();
    region.parallel_for(threads, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t k = begin; k < end; ++k) kept = run(kRounds, 0.5F);
    });
    const double flops =
        2.0 * kChains * kLanes * static_cast<double>(kRounds) * static_cast<double>(threads);
    best = std::max(best, flops / seconds_since(start) * 1e-9);
  }
  return best;
}

// y = x + y: two reads and a write for each element. `floats` for each thread.
double measured_bandwidth(ThreadPool::Region& region, std::int64_t floats, int rounds) {
  const auto threads = static_cast<std::int64_t>(region.threads());
  const std::int64_t all = floats * threads;
  const auto add = best_loops().add;
  std::vector<float> x(static_cast<std::size_t>(all), 1.0F), y(static_cast<std::size_t>(all), 0.5F);
  double best = 0;
  for (int t = 0; t < kTries; ++t) {
    const auto start = Clock::now();
    region.parallel_for(threads, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (int r = 0; r < rounds; ++r)
        add(y.data() + begin * floats, x.data() + begin * floats, (end - begin) * floats);
    });
    const double bytes = 3.0 * sizeof(float) * static_cast<double>(all) * rounds;
    best = std::max(best, bytes / seconds_since(start) * 1e-9);
  }
  return best;
}

Machine measured() {
  Machine out;
  out.name = processor_name();
  ThreadPool::Region region(ThreadPool::global());
  out.threads = region.threads();
  out.gflops = measured_gflops(region);
  constexpr std::int64_t kFromMemory = std::int64_t{4} << 20, kInCache = 4 << 10;
  out.bandwidth = measured_bandwidth(region, kFromMemory, 1);
  out.cache_bandwidth = measured_bandwidth(region, kInCache, 4096);
  return out;
}

// Operations of one multiprocessor in a clock, by compute capability.
struct PerClock {
  int capability;  // 10 * major + minor; later ones are like the last before them
  double f32, tensor;
};
constexpr PerClock kPerClock[] = {{70, 128, 1024}, {80, 128, 2048},  {86, 256, 512},
                                  {90, 256, 4096}, {100, 256, 8192}, {120, 256, 512}};

DeviceLimits limits_of(int ordinal) {
  DeviceLimits out;
  const auto found = nvidia::device_properties(ordinal);
  if (!found) return out;
  out.name = found->name;
  out.multiprocessors = found->multiprocessors;
  out.cache_bytes = static_cast<double>(found->cache_bytes);
  const double clocks = found->gigahertz * found->multiprocessors;
  for (const PerClock& known : kPerClock) {
    if (10 * found->major + found->minor < known.capability) break;
    out.gflops = known.f32 * clocks;
    out.tensor_gflops = known.tensor * clocks;
  }
  out.bandwidth = nvidia::measured_bandwidth(ordinal);
  return out;
}

}  // namespace

const DeviceLimits& device_limits(int ordinal) {
  static std::mutex mutex;
  static std::map<int, DeviceLimits> kept;
  const std::scoped_lock lock(mutex);
  const auto found = kept.find(ordinal);
  return found != kept.end() ? found->second
                             : kept.emplace(ordinal, limits_of(ordinal)).first->second;
}

const Machine& machine() {
  static const Machine found = measured();
  return found;
}

}  // namespace gex::report
