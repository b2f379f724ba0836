#include "frontend/python/es_resources.hpp"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace gex::python {
namespace {

thread_local PyObject* raised = nullptr;

void keep(nb::python_error& error) {
  if (raised == nullptr) raised = nb::borrow(error.value()).release().ptr();
}

// Each task is run by the first thread that takes it; its context is not used after all are done.
class Loop {
 public:
  Loop(std::int64_t count, void (*task)(void*, std::int64_t), void* context)
      : task_(task), context_(context), taken_(static_cast<std::size_t>(count)), left_(count) {}

  void run(std::int64_t k) {
    if (taken_[static_cast<std::size_t>(k)].exchange(true)) return;
    task_(context_, k);
    const std::lock_guard lock(mutex_);
    if (--left_ == 0) done_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return left_ == 0; });
  }

 private:
  void (*task_)(void*, std::int64_t);
  void* context_;
  std::vector<std::atomic<bool>> taken_;
  std::mutex mutex_;
  std::condition_variable done_;
  std::int64_t left_;
};

void keep(PyObject* type, const std::string& message) {
  if (raised == nullptr) raised = nb::handle(type)(message.c_str()).release().ptr();
}

}  // namespace

void keep_raised(nb::python_error& error) { keep(error); }

void forget_raised() { Py_CLEAR(raised); }

nb::object take_raised() {
  return raised == nullptr ? nb::none() : nb::steal(std::exchange(raised, nullptr));
}

EsResources::EsResources(nb::object allocate, nb::object release, nb::object submit, int threads)
    : allocate_(std::move(allocate)), release_(std::move(release)), submit_(std::move(submit)) {
  allocator_.user = thread_pool_.user = this;
  allocator_.allocate = [](void* user, std::size_t bytes, std::size_t alignment) {
    return static_cast<EsResources*>(user)->allocate(bytes, alignment);
  };
  allocator_.release = [](void* user, void* memory, std::size_t bytes) {
    static_cast<EsResources*>(user)->release(memory, bytes);
  };
  thread_pool_.threads = threads;
  thread_pool_.run = [](void* user, std::int64_t count, void (*task)(void*, std::int64_t),
                        void* context) {
    static_cast<EsResources*>(user)->run(count, task, context);
  };
}

void EsResources::drop() {
  if (--holders_ > 0) return;
  const nb::gil_scoped_acquire locked;
  delete this;
}

void* EsResources::allocate(std::size_t bytes, std::size_t alignment) {
  const nb::gil_scoped_acquire locked;
  try {
    const nb::object given = allocate_(bytes, alignment);
    if (given.is_none()) return nullptr;
    std::uintptr_t address = 0;
    if (!nb::try_cast(given, address)) {
      keep(PyExc_TypeError, std::string("the allocator's allocate returned ") +
                                nb::repr(given).c_str() + "; it must return an address or None");
      return nullptr;
    }
    if (address % alignment != 0) {
      keep(PyExc_ValueError, "the allocator's allocate returned address " +
                                 std::to_string(address) + ", which is not a multiple of " +
                                 std::to_string(alignment));
      return nullptr;
    }
    if (address != 0) ++holders_;
    return reinterpret_cast<void*>(address);
  } catch (nb::python_error& error) {
    keep(error);
    return nullptr;
  }
}

// There is no caller to raise to: exceptions are printed.
void EsResources::release(void* memory, std::size_t bytes) {
  {
    const nb::gil_scoped_acquire locked;
    try {
      release_(reinterpret_cast<std::uintptr_t>(memory), bytes);
    } catch (nb::python_error& error) {
      error.restore();
      PyErr_WriteUnraisable(release_.ptr());
    }
  }
  drop();
}

void EsResources::run(std::int64_t count, void (*task)(void*, std::int64_t), void* context) {
  const auto loop = std::make_shared<Loop>(count, task, context);
  {
    const nb::gil_scoped_acquire locked;
    try {
      submit_(count, nb::cpp_function([loop](std::int64_t k) {
                const nb::gil_scoped_release unlocked;
                loop->run(k);
              }));
    } catch (nb::python_error& error) {
      keep(error);
    }
  }
  for (std::int64_t k = 0; k < count; ++k) loop->run(k);
  loop->wait();
}

}  // namespace gex::python
