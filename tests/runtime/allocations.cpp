// Replay allocates nothing: operator new is counted in this binary, over many calls.

#include <atomic>
#include <cstdlib>
#include <new>

#include "harness.hpp"

namespace {
std::atomic<bool> counting{false};
std::atomic<std::int64_t> allocated{0};

void* counted(std::size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) allocated.fetch_add(1);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
// std::stable_sort allocates this way, and frees with the plain operator below.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (counting.load(std::memory_order_relaxed)) allocated.fetch_add(1);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes, std::align_val_t align) {
  if (counting.load(std::memory_order_relaxed)) allocated.fetch_add(1);
  const auto alignment = static_cast<std::size_t>(align);
  if (void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace gex::runtime::testing {
namespace {

// Returns preallocated memory in rotation, and answers calls without allocating.
class QuietHost final : public Host {
 public:
  QuietHost(const std::string& driver, std::size_t bytes) {
    for (int i = 0; i < 4; ++i) memory_.emplace_back(driver, bytes);
  }
  void* allocate_output(int, DType, std::span<const std::int64_t>,
                        std::span<const std::int64_t>) override {
    return memory_[static_cast<std::size_t>(turn_++ % 3)].data();
  }
  void set_view_output(int, int, std::span<const std::int64_t>, std::span<const std::int64_t>,
                       std::int64_t) override {}
  void set_output_view_output(int, int, std::span<const std::int64_t>,
                              std::span<const std::int64_t>, std::int64_t) override {}
  void set_integer_output(int, std::int64_t) override {}
  void set_external_output(int, std::uint64_t) override {}
  void call(const program::Call&, std::span<const TensorRef>, std::span<const std::int64_t>,
            std::span<const TensorRef>, std::span<CallResult> results) override {
    results[0].data = memory_[3].data();
    results[0].handle = 1;
  }
  void release(std::uint64_t) override {}

 private:
  std::vector<DeviceArray> memory_;
  int turn_ = 0;
};

std::int64_t allocations_of(Session& session, const std::vector<InputArg>& inputs, Host& host) {
  allocated = 0;
  counting = true;
  session.run(inputs, host);
  EXPECT_GT(allocated, 0) << "a capture allocates: else the counter counts nothing";
  for (int i = 0; i < 5; ++i) session.run(inputs, host);  // threads, thread-locals
  allocated = 0;
  for (int i = 0; i < 1000; ++i) session.run(inputs, host);
  counting = false;
  return allocated;
}

CONFORMANCE(a_thousand_replays_allocate_nothing) {
  Session session(load_program(R"(program "quiet"
symbol s0 in [1, 100000]
input 0 "x" f32 [s0] -> %0
output 0 "y" fresh f32 [s0] -> %1
output 1 "v" view_of_output 0 f32 [1]
output 2 "n" integer [s0]
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" output 0 f32 [s0] bytes [s0*4]
buffer %2 "a" temp f32 [s0] bytes [s0*4]
buffer %3 "b" temp f32 [s0] bytes [s0*4]
buffer %4 "r" external f32 [s0] bytes [s0*4]
code 0 "add_one"
main 0
segment 0 "main"
  launch "a" code 0 read %0 write %2 grid [s0] scratch [64] work [s0*8]
  copy %3 from %2 bytes [s0*4]
  fill %2 bytes [s0*4] pattern 0 width 4
  call "c" callee 0 (%3 f32 [s0] strides [1]) output %4
  launch "b" code 0 read %4 write %1 grid [s0] work [s0*8]
)",
                               driver),
                  {.driver = driver});
  // A kernel that is split over workers and one that is not.
  for (const std::int64_t size : {64, 50000}) {
    const auto count = static_cast<std::size_t>(size);
    const Tensor x = Tensor::f32(driver, {size}, std::vector<float>(count, 1.0F));
    QuietHost host(driver, count * 4);
    EXPECT_EQ(allocations_of(session, {x.arg()}, host), 0);
  }
  EXPECT_EQ(session.counters().captures, 2);
}

CONFORMANCE(a_thousand_replays_with_an_unchanged_bound_size_allocate_nothing) {
  if (!computes(driver)) return;
  Session session(load_program(R"(program "quiet_bind"
symbol u0 in [0, 64]
input 0 "n" i64 [1] -> %0
input 1 "x" f32 [64] -> %1
output 0 "y" fresh f32 [u0] -> %2
buffer %0 "n" input 0 i64 [1] bytes [8]
buffer %1 "x" input 1 f32 [64] bytes [256]
buffer %2 "y" output 0 f32 [u0] bytes [u0*4]
buffer %3 "t" temp f32 [u0] bytes [u0*4]
code 0 "add_one"
main 0 1
segment 0 "a"
  bind u0 = %0
segment 1 "b"
  launch "a" code 0 read %1 write %3 grid [u0]
  launch "b" code 0 read %3 write %2 grid [u0]
)",
                               driver),
                  {.driver = driver});
  const Tensor n = Tensor::i64(driver, {7});
  const Tensor x = Tensor::f32(driver, {64}, std::vector<float>(64, 1.0F));
  QuietHost host(driver, 256);
  EXPECT_EQ(allocations_of(session, {n.arg(), x.arg()}, host), 0);
}

}  // namespace
}  // namespace gex::runtime::testing
