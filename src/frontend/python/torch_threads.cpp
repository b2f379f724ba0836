#include "frontend/python/torch_threads.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/cpu_count.hpp"
#include "base/thread_pool.hpp"

namespace gex::python {

namespace {

using NumThreads = std::int32_t (*)(std::uint32_t* count);

// Null where this PyTorch has no such function.
NumThreads find_num_threads() {
  void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  const auto function = reinterpret_cast<NumThreads>(dlsym(library, "torch_get_num_threads"));
  dlclose(library);  // PyTorch keeps it loaded
  return function;
}

}  // namespace

void follow_torch_threads() {
  static const NumThreads num_threads = find_num_threads();
  static const auto most = static_cast<std::uint32_t>(default_thread_count());
  // Threads may have different numbers: the last one that was set counts, not the last caller's.
  static std::atomic<std::uint32_t> followed{0};
  static thread_local std::uint32_t seen = 0;
  std::uint32_t count = 0;
  if (num_threads == nullptr || num_threads(&count) != 0 || count == seen || count == 0) return;
  seen = count;
  if (followed.exchange(count) != count)
    ThreadPool::global().set_threads(static_cast<int>(std::min(count, most)));
}

}  // namespace gex::python
