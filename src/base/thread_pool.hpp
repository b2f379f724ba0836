#pragma once
// The one pool of CPU workers. Code that wants them opens a Region, runs loops in it, closes it.
//
// The calling thread is worker 0 and never waits for a worker to wake up: it takes over work that
// nobody has begun. Workers spin briefly between the loops of a Region and sleep outside of one, so
// they cost nothing to whoever computes next. Only where Regions have followed each other within
// microseconds many times over (small models called in a loop: nobody else had time for anything in
// between) do they wait awake for the next one, as briefly. One Region at a time owns the workers;
// any other (a second caller thread, a Region inside a loop body) runs its loops on its own thread
// alone.
//
// After fork() the child has no workers; its first Region starts new ones. A loop body must not
// fork.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <type_traits>

namespace gex {

struct WorkerCrew;  // the threads and the loop they share

// Threads that belong to somebody else.
struct ExternalWorkers {
  int threads = 1;
  // Calls task(context, k) for every k below count, on any threads, and returns when all are done.
  using Task = void (*)(void* context, std::int64_t k);
  std::function<void(std::int64_t count, Task task, void* context)> run;
};

class ThreadPool {
 public:
  static ThreadPool& global();
  // Regions of this pool spread their loops over these, several at once if it comes to that.
  explicit ThreadPool(ExternalWorkers external);

  int threads() const { return target_.load(std::memory_order_relaxed); }
  // From the next Region on. UserError if count < 1.
  void set_threads(int count);

  // Handles [begin, end). `worker` is below threads() and unique among the calls running at once.
  using Body = void (*)(void* context, std::int64_t begin, std::int64_t end, int worker);

  class Region {
   public:
    explicit Region(ThreadPool& pool);
    ~Region();
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    // Splits [0, n) into pieces of at least `grain` (the last may be smaller) and returns when all
    // are done. The first exception of a body is thrown here, after which no new piece is begun.
    // Allocates nothing. Not to be called from a body of this Region: open another one there.
    void run(std::int64_t n, std::int64_t grain, Body body, void* context);

    template <class F>
    void parallel_for(std::int64_t n, std::int64_t grain, F&& f) {
      using Callable = std::remove_reference_t<F>;
      run(
          n, grain,
          [](void* context, std::int64_t begin, std::int64_t end, int worker) {
            (*static_cast<Callable*>(context))(begin, end, worker);
          },
          const_cast<std::remove_const_t<Callable>*>(&f));
    }

    // Sends the workers to sleep until the next run(), before code that wants the cores itself.
    void park();
    // How many threads run() spreads over: 1 if the workers belong to another Region.
    int threads() const;
    // Whether run() finds workers that are not asleep, or likely so: then sharing is cheap.
    bool workers_awake() const { return awake_; }

   private:
    ThreadPool& pool_;
    WorkerCrew* crew_ = nullptr;  // null: this thread alone
    std::uint32_t generation_ = 0;
    bool awake_ = false;
  };

 private:
  ThreadPool();
  bool note_return();     // a Region begins: whether the workers wait awake for it from now on
  bool expects_return();  // a Region ends: whether the next one is likely to begin at once
  void after_fork_in_child();

  const ExternalWorkers external_;  // run is empty: own workers
  std::atomic<int> target_;
  std::atomic<bool> owned_{false};
  std::atomic<std::uint32_t> generation_{0};  // counts forks: a crew of the parent is not ours
  // All that follows is touched by the owner only.
  WorkerCrew* crew_ = nullptr;
  std::chrono::steady_clock::time_point last_end_;  // of a Region
  int promptness_ = 0;  // rises with Regions that begin soon after the last, falls with others
};

}  // namespace gex
