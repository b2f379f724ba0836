#pragma once
// Memory and threads of a Python caller's, as the C interface wants them.

#include <nanobind/nanobind.h>

#include <gex/gex.h>
#include <atomic>
#include <utility>

#include "frontend/python/bindings.hpp"

namespace gex::python {

// Callables that programs keep. Lives as long as the program and every block of memory that it got
// by `allocate`, whoever still holds that.
class EsResources {
 public:
  // `allocate(bytes, alignment)` and `release(address, bytes)`, or None twice; `submit(count,
  // task)`, which has others call task(1) .. task(count - 1), as many as they come to, or None.
  EsResources(nb::object allocate, nb::object release, nb::object submit, int threads);

  const gex_allocator* allocator() const { return allocate_.is_none() ? nullptr : &allocator_; }
  const gex_thread_pool* thread_pool() const { return submit_.is_none() ? nullptr : &thread_pool_; }

  // A share in the resources. Any thread.
  class Held {
   public:
    Held() = default;
    explicit Held(EsResources* resources) : resources_(resources) {}
    Held(Held&& other) noexcept : resources_(std::exchange(other.resources_, nullptr)) {}
    Held& operator=(Held&&) = delete;
    ~Held() {
      if (resources_ != nullptr) resources_->drop();
    }
    EsResources* operator->() const { return resources_; }

   private:
    EsResources* resources_ = nullptr;
  };

 private:
  void drop();
  void* allocate(std::size_t bytes, std::size_t alignment);
  void release(void* memory, std::size_t bytes);
  void run(std::int64_t count, void (*task)(void*, std::int64_t), void* context);

  nb::object allocate_, release_, submit_;
  gex_allocator allocator_ = GEX_ALLOCATOR_INIT;
  gex_thread_pool thread_pool_ = GEX_THREAD_POOL_INIT;
  std::atomic<std::int64_t> holders_{1};
};

// What callables raise can't cross the C interface: it is kept for the thread, until its call is
// back. Both need Python's lock.
void forget_raised();
void keep_raised(nb::python_error& error);  // the first of them
nb::object take_raised();                   // the exception, or None

}  // namespace gex::python
