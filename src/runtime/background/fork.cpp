#include "runtime/background/fork.hpp"

#include <pthread.h>

#include <algorithm>
#include <vector>

namespace gex::runtime {

struct ForkRegistry {
  std::mutex mutex;
  std::vector<ForkSafeMutex*> members;

  static ForkRegistry& get() {
    static ForkRegistry* registry = [] {
      auto* made = new ForkRegistry;  // never destroyed: a fork may happen at any time
      pthread_atfork(before, in_parent, in_child);
      return made;
    }();
    return *registry;
  }

  static void before() {
    get().mutex.lock();
    for (ForkSafeMutex* member : get().members) member->mutex_.lock();
  }
  static void in_parent() {
    for (ForkSafeMutex* member : get().members) member->mutex_.unlock();
    get().mutex.unlock();
  }
  static void in_child() {
    in_parent();
    for (ForkSafeMutex* member : get().members)
      if (member->in_child_) member->in_child_();
  }
};

ForkSafeMutex::ForkSafeMutex(std::function<void()> in_child) : in_child_(std::move(in_child)) {
  ForkRegistry& registry = ForkRegistry::get();
  const std::lock_guard lock(registry.mutex);
  registry.members.push_back(this);
}

ForkSafeMutex::~ForkSafeMutex() {
  ForkRegistry& registry = ForkRegistry::get();
  const std::lock_guard lock(registry.mutex);
  std::erase(registry.members, this);
}

}  // namespace gex::runtime
