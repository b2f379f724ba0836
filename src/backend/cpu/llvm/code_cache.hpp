#pragma once
// The generator's caches: code by structure, and idle LLVM target machines.

#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cpu/generator.hpp"
#include "backend/cpu/llvm/jit.hpp"
#include "loop/kernel.hpp"
#include "program/kernel_abi.hpp"

namespace gex::codegen {

// One function to compile: a kernel in canonical form and the sizes that are constants in it.
// Immutable once `ready` is set.
struct Job {
  loop::Kernel kernel;
  std::vector<Dim> symbols;  // of the canonical kernel: the function's dims
  std::vector<std::pair<Dim, std::int64_t>> constants;
  bool fast_math = false;
  std::string name;
  std::string label;               // what the first kernel of this form is called, for tools
  ObjectStore* objects = nullptr;  // where its code is stored; only read before `ready`
  program::Callable code;
  std::promise<void> done;
  std::shared_future<void> ready = done.get_future().share();

  bool is_done() const {
    return ready.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  // Code with all sizes known is the final code for its kernel, so it is worth more optimisation.
  Effort effort() const {
    return constants.size() == symbols.size() ? Effort::thorough : Effort::quick;
  }
  bool same_as(const Job& o) const {
    return fast_math == o.fast_math && constants == o.constants && kernel == o.kernel;
  }
};
using JobPtr = std::shared_ptr<Job>;

// Code by structure. When full, old entries are dropped; their users still own the code.
class Cache {
 public:
  // The job for this kernel, and whether the caller must compile it.
  std::pair<JobPtr, bool> find_or_add(JobPtr job, Hash key) {
    std::lock_guard lock(mutex_);
    auto [first, last] = jobs_.equal_range(key);
    for (auto it = first; it != last; ++it)
      if (it->second->same_as(*job)) return {it->second, false};
    jobs_.emplace(key, job);
    order_.push_back({key, job});
    if (order_.size() > kMost) {
      erase(order_.front().first, order_.front().second);
      order_.pop_front();
    }
    return {job, true};
  }
  // Drops jobs whose compiling thread is gone. For a forked child, before other threads exist.
  void forget_unfinished() {
    std::erase_if(jobs_, [](const auto& entry) { return !entry.second->is_done(); });
    std::erase_if(order_, [](const auto& entry) { return !entry.second->is_done(); });
  }
  void forget(const JobPtr& job) {
    std::lock_guard lock(mutex_);
    for (auto it = jobs_.begin(); it != jobs_.end(); ++it) {
      if (it->second != job) continue;
      jobs_.erase(it);
      return;
    }
  }

 private:
  static constexpr std::size_t kMost = 4096;
  void erase(Hash key, const JobPtr& job) {
    auto [first, last] = jobs_.equal_range(key);
    for (auto it = first; it != last; ++it) {
      if (it->second != job) continue;
      jobs_.erase(it);
      return;
    }
  }
  std::mutex mutex_;
  std::unordered_multimap<Hash, JobPtr> jobs_;
  std::deque<std::pair<Hash, JobPtr>> order_;
};

// LLVM's target machines are expensive to create and serve one thread at a time.
class CompilerPool {
 public:
  explicit CompilerPool(Effort effort) : effort_(effort) {}
  std::unique_ptr<Compiler> take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Compiler>(effort_);
    auto compiler = std::move(free_.back());
    free_.pop_back();
    return compiler;
  }
  void give(std::unique_ptr<Compiler> compiler) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(compiler));
  }

 private:
  std::mutex mutex_;
  Effort effort_;
  std::vector<std::unique_ptr<Compiler>> free_;
};

}  // namespace gex::codegen
