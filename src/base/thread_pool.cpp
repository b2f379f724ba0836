#include "base/thread_pool.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpu_count.hpp"
#include "base/error.hpp"
#include "base/log.hpp"

namespace gex {

namespace {

// About the cost of waking a sleeping thread: spinning longer does not pay.
constexpr auto kSpin = std::chrono::microseconds(50);
// A Region that begins this soon after the last one finds the workers awake: an operator of another
// library on all cores takes longer than this.
constexpr auto kQuickReturn = std::chrono::microseconds(30);
// Workers stay awake while nine in ten Regions begin that soon, and only after many have.
constexpr int kLateCosts = 8;
constexpr int kPromptEnough = 32;
constexpr int kMostPrompt = 64;
// Chunks per thread: enough to balance uneven bodies.
constexpr std::int64_t kPiecesPerThread = 4;

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Calls `done` until it returns true or the time is up.
template <class Done>
bool spin_until(Done done) {
  auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      pause_cpu();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

}  // namespace

// The workers and the loop they share. On the heap, so that a forked child can abandon its
// parent's.
struct WorkerCrew {
  explicit WorkerCrew(int threads);
  ~WorkerCrew();

  void run(std::int64_t n, std::int64_t piece, ThreadPool::Body body, void* context);
  void park() { awake.store(false, std::memory_order_relaxed); }
  int threads() const { return static_cast<int>(workers.size()) + 1; }

  const int requested;  // the system may have started fewer

 private:
  void work(int worker);
  bool enter(std::uint64_t& last_loop);
  void leave();
  void take_pieces(int worker);

  // A thread's share of the chunks: started by its owner, finished by any thread.
  struct alignas(64) Share {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  // High half: loop number; then kOpen while the loop may be entered, and the number of workers
  // inside. The fields of the loop change only while it is closed and empty.
  static constexpr std::uint64_t kOpen = std::uint64_t{1} << 31;
  static constexpr std::uint64_t kInside = kOpen - 1;
  static constexpr std::uint64_t kNextLoop = std::uint64_t{1} << 32;
  alignas(64) std::atomic<std::uint64_t> ticket{0};
  alignas(64) std::atomic<std::uint32_t> begun{0};     // sleeping workers wait on it
  alignas(64) std::atomic<std::uint32_t> finished{0};  // the caller waits on it
  std::atomic<bool> awake{false};
  std::atomic<bool> stopping{false};
  std::atomic<bool> failed{false};

  ThreadPool::Body body = nullptr;
  void* context = nullptr;
  std::int64_t n = 0;
  std::int64_t piece = 1;
  std::exception_ptr error;
  std::unique_ptr<Share[]> shares;
  int share_count = 0;
  std::vector<std::thread> workers;
};

WorkerCrew::WorkerCrew(int threads)
    : requested(threads), shares(std::make_unique<Share[]>(static_cast<std::size_t>(threads))) {
  // Workers block all signals: Ctrl-C is for the program's own threads.
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  workers.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int w = 1; w < threads; ++w) workers.emplace_back([this, w] { work(w); });
  } catch (const std::system_error& e) {
    log(LogArea::run, LogLevel::warning, "only ", workers.size() + 1, " of ", threads,
        " threads could be started: ", e.what());
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

WorkerCrew::~WorkerCrew() {
  stopping.store(true);
  begun.fetch_add(1);
  begun.notify_all();
  for (std::thread& t : workers) t.join();
}

void WorkerCrew::work(int worker) {
  pthread_setname_np(pthread_self(), "gex-worker");
  std::uint64_t last_loop = 0;
  for (;;) {
    std::uint32_t signal = begun.load();
    if (stopping.load()) return;
    if (enter(last_loop)) {
      take_pieces(worker);
      leave();
    }
    spin_until([&] { return !awake.load(std::memory_order_relaxed) || begun.load() != signal; });
    begun.wait(signal);  // returns at once if a loop has started meanwhile
  }
}

// False if the current loop is closed or was already entered.
bool WorkerCrew::enter(std::uint64_t& last_loop) {
  std::uint64_t t = ticket.load();
  while ((t & kOpen) && t / kNextLoop != last_loop) {
    if (ticket.compare_exchange_weak(t, t + 1)) {
      last_loop = t / kNextLoop;
      return true;
    }
  }
  return false;
}

void WorkerCrew::leave() {
  std::uint64_t before = ticket.fetch_sub(1);
  if (!(before & kOpen) && (before & kInside) == 1) {
    finished.fetch_add(1);
    finished.notify_one();
  }
}

void WorkerCrew::take_pieces(int worker) {
  for (int s = 0; s < share_count; ++s) {
    Share& share = shares[static_cast<std::size_t>((worker + s) % share_count)];
    while (!failed.load(std::memory_order_relaxed) &&
           share.next.load(std::memory_order_relaxed) < share.end) {
      std::int64_t at = share.next.fetch_add(1, std::memory_order_relaxed);
      if (at >= share.end) break;
      try {
        body(context, at * piece, std::min(n, (at + 1) * piece), worker);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();  // run() throws it
      }
    }
  }
}

void WorkerCrew::run(std::int64_t count, std::int64_t piece_size, ThreadPool::Body f, void* c) {
  std::int64_t pieces = (count + piece_size - 1) / piece_size;
  share_count = static_cast<int>(std::min<std::int64_t>(pieces, threads()));
  for (int s = 0; s < share_count; ++s) {
    Share& share = shares[static_cast<std::size_t>(s)];
    share.next.store(pieces * s / share_count, std::memory_order_relaxed);
    share.end = pieces * (s + 1) / share_count;
  }
  body = f;
  context = c;
  n = count;
  piece = piece_size;
  failed.store(false, std::memory_order_relaxed);
  awake.store(true, std::memory_order_relaxed);
  ticket.store((ticket.load() / kNextLoop + 1) * kNextLoop | kOpen);
  begun.fetch_add(1);
  begun.notify_all();

  take_pieces(0);

  auto empty = [&] { return (ticket.load() & kInside) == 0; };
  ticket.fetch_and(~kOpen);
  if (!spin_until(empty)) {
    for (;;) {
      std::uint32_t signal = finished.load();
      if (empty()) break;
      finished.wait(signal);
    }
  }
  if (failed.load()) std::rethrow_exception(std::exchange(error, nullptr));
}

namespace {

// One task per thread, with the thread's number as worker; tasks share the chunks, so the others do
// the work of a thread that is late or never starts.
void run_external(const ExternalWorkers& workers, std::int64_t n, std::int64_t piece,
                  ThreadPool::Body body, void* context) {
  struct Loop {
    std::int64_t n, piece;
    ThreadPool::Body body;
    void* context;
    std::atomic<std::int64_t> next{0};
    std::atomic<bool> failed{false};
    std::exception_ptr error;
  } loop{n, piece, body, context};
  workers.run(
      workers.threads,
      [](void* shared, std::int64_t worker) {
        auto& l = *static_cast<Loop*>(shared);
        for (;;) {
          const std::int64_t begin = l.next.fetch_add(1, std::memory_order_relaxed) * l.piece;
          if (begin >= l.n || l.failed.load(std::memory_order_relaxed)) return;
          try {
            l.body(l.context, begin, std::min(l.n, begin + l.piece), static_cast<int>(worker));
          } catch (...) {
            if (!l.failed.exchange(true)) l.error = std::current_exception();  // thrown below
          }
        }
      },
      &loop);
  if (loop.failed.load()) std::rethrow_exception(loop.error);
}

}  // namespace

ThreadPool::ThreadPool() : target_(default_thread_count()) {
  pthread_atfork(nullptr, nullptr, [] { global().after_fork_in_child(); });
}

ThreadPool::ThreadPool(ExternalWorkers external)
    : external_(std::move(external)), target_(external_.threads) {
  GEX_CHECK(external_.threads >= 1 && external_.run, "external workers without threads or run");
}

ThreadPool& ThreadPool::global() {
  // Never destroyed: exiting the process waits for no thread.
  static ThreadPool* pool = new ThreadPool;
  return *pool;
}

void ThreadPool::after_fork_in_child() {
  crew_ = nullptr;  // its threads exist only in the parent; nothing in it can be freed safely
  owned_.store(false);
  generation_.fetch_add(1);
}

void ThreadPool::set_threads(int count) {
  if (count < 1)
    fail(ErrorCode::invalid_argument, "the thread count must be positive, got ", count);
  target_.store(count);
}

bool ThreadPool::note_return() {
  const bool prompt = std::chrono::steady_clock::now() - last_end_ < kQuickReturn;
  promptness_ = std::clamp(promptness_ + (prompt ? 1 : -kLateCosts), 0, kMostPrompt);
  return promptness_ >= kPromptEnough;
}

bool ThreadPool::expects_return() {
  last_end_ = std::chrono::steady_clock::now();
  return promptness_ >= kPromptEnough;
}

ThreadPool::Region::Region(ThreadPool& pool) : pool_(pool) {
  int wanted = pool.threads();
  if (wanted == 1 || pool.external_.run || pool.owned_.exchange(true)) return;
  generation_ = pool.generation_.load();
  if (pool.crew_ && pool.crew_->requested != wanted) {
    delete pool.crew_;
    pool.crew_ = nullptr;
  }
  if (!pool.crew_) pool.crew_ = new WorkerCrew(wanted);
  crew_ = pool.crew_;
  awake_ = pool.note_return();
}

ThreadPool::Region::~Region() {
  if (!crew_ || generation_ != pool_.generation_.load()) return;
  if (!pool_.expects_return()) crew_->park();
  pool_.owned_.store(false);
}

void ThreadPool::Region::park() {
  awake_ = false;
  if (crew_ && generation_ == pool_.generation_.load()) crew_->park();
}

int ThreadPool::Region::threads() const {
  if (pool_.external_.run) return pool_.external_.threads;
  return crew_ && generation_ == pool_.generation_.load() ? crew_->threads() : 1;
}

void ThreadPool::Region::run(std::int64_t n, std::int64_t grain, Body body, void* context) {
  if (n <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  int count = threads();
  if (count == 1 || n <= grain) {
    body(context, 0, n, 0);
    return;
  }
  // Chunks are multiples of the grain, so their boundaries depend only on the grain.
  std::int64_t grains = (n - 1) / grain + 1;
  std::int64_t grains_per_piece = (grains - 1) / (count * kPiecesPerThread) + 1;
  if (pool_.external_.run) {
    run_external(pool_.external_, n, grains_per_piece * grain, body, context);
    return;
  }
  awake_ = true;
  crew_->run(n, grains_per_piece * grain, body, context);
}

}  // namespace gex
