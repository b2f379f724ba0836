#include "runtime/background/background.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <system_error>
#include <thread>

#include "runtime/background/fork.hpp"

namespace gex::runtime {

namespace {

// Low, but not idle priority: on a busy machine exit and fork wait for the kernel being compiled.
constexpr int kNiceness = 10;

constexpr int kJobsThatMakeStatics = 16;

struct Worker {
  ForkSafeMutex mutex{[] { get().forget_thread(); }};
  ForkSafeCondition changed;
  std::deque<std::function<void()>> jobs;
  bool started = false, running = false;
  int jobs_done = 0;
  std::atomic<bool> stopping{false};

  static Worker& get() {
    static Worker* worker =
        new Worker;  // never destroyed: the thread may outlive static destructors
    return *worker;
  }

  // In a forked child: the thread and its jobs exist only in the parent.
  void forget_thread() {
    started = running = false;
    jobs.clear();
    changed.renew();
  }

  void add(std::function<void()> job) {
    {
      const std::lock_guard lock(mutex);
      if (stopping.load()) return;
      jobs.push_back(std::move(job));
      if (!started) start();
    }
    changed->notify_all();
  }

  // Exit handlers run in reverse order of registration. A job that uses a library for the first
  // time creates statics that are destroyed before handlers registered earlier run; most are
  // created by the first jobs, so the handler is registered again after them.
  void stop_at_exit() {
    if (jobs_done < kJobsThatMakeStatics) std::atexit([] { get().stop(); });
  }

  void start() {
    stop_at_exit();
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all,
                    &old);  // the background thread must not receive the program's signals
    try {
      std::thread made([this] { loop(); });
      made.detach();
      started = true;
    } catch (const std::system_error&) {
      jobs.clear();  // the thread could not be started: generic code keeps running
    }
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }

  void loop() {
    pthread_setname_np(pthread_self(), "gex-compile");
    setpriority(PRIO_PROCESS, 0, kNiceness);  // on Linux this affects only the calling thread
    std::unique_lock lock(mutex);
    while (true) {
      changed->wait(lock, [this] { return !jobs.empty(); });
      const std::function<void()> job = std::move(jobs.front());
      jobs.pop_front();
      running = true;
      lock.unlock();
      if (!stopping.load()) job();
      lock.lock();
      running = false;
      ++jobs_done;
      stop_at_exit();
      changed->notify_all();
    }
  }

  // A running job uses libraries whose destructors are about to run: wait until it reaches its next
  // check, which is the end of the kernel being compiled.
  void stop() {
    stopping.store(true);
    std::unique_lock lock(mutex);
    jobs.clear();
    changed->wait(lock, [this] { return !running; });
  }
};

}  // namespace

void run_in_background(std::function<void()> job) { Worker::get().add(std::move(job)); }

void stop_background() { Worker::get().stop(); }

bool background_stopping() { return Worker::get().stopping.load(std::memory_order_relaxed); }

void wait_for_background() {
  Worker& worker = Worker::get();
  std::unique_lock lock(worker.mutex);
  worker.changed->wait(lock, [&] { return worker.jobs.empty() && !worker.running; });
}

}  // namespace gex::runtime
