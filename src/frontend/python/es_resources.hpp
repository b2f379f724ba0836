#pragma once
// Memory and threads of a Python caller, in the form of the C interface.

#include <nanobind/nanobind.h>

#include <gex/gex.h>
#include <atomic>
#include <utility>

#include "frontend/python/bindings.hpp"

namespace gex::python {

// Callables that programs keep. Lives as long as the program and every block of memory allocated by
// it.
class EsResources {
 public:
  // `allocate(bytes, alignment)` and `release(address, bytes)`, or both None; `submit(count,
  // task)`, which has other threads call task(1) .. task(count - 1) as far as they get, or None.
  EsResources(nb::object allocate, nb::object release, nb::object submit, int threads);

  const gex_allocator* allocator() const { return allocate_.is_none() ? nullptr : &allocator_; }
  const gex_thread_pool* thread_pool() const { return submit_.is_none() ? nullptr : &thread_pool_; }

  // Shared ownership of the resources. Any thread.
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

// Exceptions of callables can't cross the C interface: they are kept per thread until the call
// returns. Both need the GIL.
void forget_raised();
void keep_raised(nb::python_error& error);  // the first of them
nb::object take_raised();                   // the exception, or None

}  // namespace gex::python
