#include "codegen/llvm/gate.hpp"

#include <pthread.h>

#include <chrono>
#include <cstdlib>

namespace gex::codegen {
namespace {

// Exit does not wait for a batch: only for the module at hand, and not even for that if it is long.
constexpr auto kPatienceAtExit = std::chrono::milliseconds(100);

struct State {
  std::shared_timed_mutex mutex;
  std::function<void()> in_child;
};

State& state() {
  static auto* const s = new State;  // never destroyed: used until the very end
  return *s;
}

void before_fork() { state().mutex.lock(); }
void after_fork_in_parent() { state().mutex.unlock(); }
void after_fork_in_child() {
  state().mutex.unlock();
  state().in_child();
}
// Never opened again: whoever comes now waits until the process is gone.
void at_exit() { (void)state().mutex.try_lock_for(kPatienceAtExit); }

}  // namespace

void Gate::install(std::function<void()> in_child) {
  state().in_child = std::move(in_child);
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  std::atexit(at_exit);
}

std::shared_lock<std::shared_timed_mutex> Gate::pass() { return std::shared_lock(state().mutex); }

}  // namespace gex::codegen
