#include "backend/cpu/llvm/fork_guard.hpp"

#include <pthread.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

namespace gex::codegen {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;  // threads inside LLVM
  std::thread::id closed_by;
  std::function<void()> in_child;

  bool open_for_me() const {
    return closed_by == std::thread::id() || closed_by == std::this_thread::get_id();
  }
};

State& state() {
  static auto* const s = new State;  // never destroyed: used until the process ends
  return *s;
}

thread_local int depth = 0;

// Waits for the modules being compiled, not for the batches they belong to.
std::unique_lock<std::mutex> close() {
  State& s = state();
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&] { return s.open_for_me(); });
  s.closed_by = std::this_thread::get_id();
  s.changed.wait(lock, [&] { return s.inside == (depth > 0 ? 1 : 0); });
  return lock;
}

void before_fork() { close().release(); }

void after_fork_in_parent() {
  State& s = state();
  s.closed_by = {};
  s.mutex.unlock();
  s.changed.notify_all();
}

void after_fork_in_child() {
  State& s = state();
  // A new one, without destroying the old: glibc's condition would wait for the parent's threads.
  new (&s.changed) std::condition_variable;
  s.closed_by = {};
  s.mutex.unlock();
  s.in_child();
}

// Never reopened: threads that arrive now wait until the process has exited.
void at_exit() { close(); }

}  // namespace

void ForkGuard::install(std::function<void()> in_child) {
  state().in_child = std::move(in_child);
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  std::atexit(at_exit);
}

ForkGuard::ForkGuard() {
  if (depth++ > 0) return;
  State& s = state();
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&] { return s.open_for_me(); });
  ++s.inside;
}

ForkGuard::~ForkGuard() {
  if (--depth > 0) return;
  State& s = state();
  {
    std::lock_guard lock(s.mutex);
    --s.inside;
  }
  s.changed.notify_all();
}

}  // namespace gex::codegen
