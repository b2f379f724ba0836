#pragma once
// The pool of CPU workers. Code opens a Region, runs loops in it and closes it.
//
// The calling thread is worker 0 and never waits for a worker to wake up: it takes over chunks that
// nobody has started. Workers spin briefly between the loops of a Region and sleep outside of one,
// so they cost other code nothing. Only if Regions repeatedly follow each other within microseconds
// (small models called in a loop) do they also spin briefly after a Region. One Region at a time
// owns the workers; any other (a second caller thread, a Region inside a loop body) runs its loops
// on its own thread only.
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

// Threads provided by the host program.
struct ExternalWorkers {
  int threads = 1;
  // Calls task(context, k) for every k below count, on any threads, and returns when all are done.
  using Task = void (*)(void* context, std::int64_t k);
  std::function<void(std::int64_t count, Task task, void* context)> run;
};

class ThreadPool {
 public:
  static ThreadPool& global();
  // Regions of this pool run their loops on these threads; several may do so at the same time.
  explicit ThreadPool(ExternalWorkers external);

  int threads() const { return target_.load(std::memory_order_relaxed); }
  // Takes effect with the next Region. UserError if count < 1.
  void set_threads(int count);

  // Handles [begin, end). `worker` is below threads() and unique among concurrent calls.
  using Body = void (*)(void* context, std::int64_t begin, std::int64_t end, int worker);

  class Region {
   public:
    explicit Region(ThreadPool& pool);
    ~Region();
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    // Splits [0, n) into chunks of at least `grain` (the last may be smaller) and returns when all
    // are done. Rethrows the first exception of a body; no new chunk is started after it. Allocates
    // nothing. Must not be called from a body of this Region: open another Region there.
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

    // Puts the workers to sleep until the next run(), before code that uses the cores itself.
    void park();
    // Number of threads that run() uses: 1 if another Region owns the workers.
    int threads() const;
    // Whether run() will probably find the workers awake: then sharing work is cheap.
    bool workers_awake() const { return awake_; }

   private:
    ThreadPool& pool_;
    WorkerCrew* crew_ = nullptr;  // null: only this thread
    std::uint32_t generation_ = 0;
    bool awake_ = false;
  };

 private:
  ThreadPool();
  bool note_return();     // a Region begins: whether the workers stay awake for the next one
  bool expects_return();  // a Region ends: whether the next one will probably begin at once
  void after_fork_in_child();

  const ExternalWorkers external_;  // run is empty: own workers
  std::atomic<int> target_;
  std::atomic<bool> owned_{false};
  std::atomic<std::uint32_t> generation_{0};  // counts forks, to detect workers of the parent
  // Only the owner accesses the following fields.
  WorkerCrew* crew_ = nullptr;
  std::chrono::steady_clock::time_point last_end_;  // of a Region
  int promptness_ = 0;  // rises with Regions that begin soon after the last one, falls with others
};

}  // namespace gex
