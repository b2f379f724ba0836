// A replay takes the session's lock once: locks of mutexes are recorded in this binary.

#include <dlfcn.h>
#include <pthread.h>

#include <array>
#include <atomic>

#include "harness.hpp"

// Sanitizers replace the function themselves.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

namespace {
// Of the thread that records: the mutexes that it locks, in order.
struct Locks {
  std::array<const void*, 4096> taken{};
  std::size_t count = 0;
};
thread_local Locks* recording = nullptr;
}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Function = int (*)(pthread_mutex_t*);
  static std::atomic<Function> real = nullptr;  // no guard: it would take a lock
  if (real == nullptr) real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  Locks* const locks = recording;
  if (locks != nullptr && locks->count < locks->taken.size()) locks->taken[locks->count++] = mutex;
  return real.load()(mutex);
}

namespace gex::runtime::testing {
namespace {

template <class Run>
std::vector<const void*> locks_of(const Run& run) {
  Locks locks;
  recording = &locks;
  run();
  recording = nullptr;
  const auto* const first = locks.taken.data();
  return std::vector<const void*>(first, first + locks.count);
}

CONFORMANCE(a_replay_takes_the_lock_of_the_session_once) {
  Session session(load_program(R"(program "locks"
symbol s0 in [1, 1000]
input 0 "x" f32 [s0] -> %0
output 0 "y" fresh f32 [s0] -> %1
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" output 0 f32 [s0] bytes [s0*4]
buffer %2 "a" temp f32 [s0] bytes [s0*4]
code 0 "add_one"
main 0
segment 0 "main"
  launch "a" code 0 read %0 write %2 grid [s0]
  launch "b" code 0 read %2 write %1 grid [s0]
)",
                               driver),
                  {.driver = driver});
  const Tensor x = Tensor::f32(driver, {64}, std::vector<float>(64, 1.0F));
  TestHost host(driver);
  const std::vector<InputArg> inputs = {x.arg()};
  for (int i = 0; i < 10; ++i) session.run(inputs, host);
  // Reading the counters takes the session's lock and no other.
  const std::vector<const void*> own = locks_of([&] { (void)session.counters(); });
  ASSERT_EQ(own.size(), 1u);
  for (int i = 0; i < 20; ++i) {
    const std::vector<const void*> taken = locks_of([&] { session.run(inputs, host); });
    EXPECT_EQ(std::count(taken.begin(), taken.end(), own[0]), 1);
  }
}

}  // namespace
}  // namespace gex::runtime::testing

#endif
