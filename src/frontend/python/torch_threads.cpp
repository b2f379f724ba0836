#include "frontend/python/torch_threads.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/cpu_count.hpp"
#include "base/error.hpp"
#include "base/host_workers.hpp"

namespace gex::python {

namespace {

using Range = void (*)(std::int64_t begin, std::int64_t end, void* context);
using ParallelFor = std::int32_t (*)(std::int64_t begin, std::int64_t end, std::int64_t grain,
                                     Range range, void* context);
using NumThreads = std::int32_t (*)(std::uint32_t* count);

// Null where this PyTorch has no such function.
template <class Function>
Function find_in_torch(const char* name) {
  void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  const auto function = reinterpret_cast<Function>(dlsym(library, name));
  dlclose(library);  // PyTorch keeps it loaded
  return function;
}

}  // namespace

void follow_torch_threads() {
  static const auto num_threads = find_in_torch<NumThreads>("torch_get_num_threads");
  static const auto most = static_cast<std::uint32_t>(default_thread_count());
  // Threads may have numbers of their own: the last one that was set counts, not the last caller's.
  static std::atomic<std::uint32_t> followed{0};
  static thread_local std::uint32_t seen = 0;
  std::uint32_t count = 0;
  if (num_threads == nullptr || num_threads(&count) != 0 || count == seen || count == 0) return;
  seen = count;
  if (followed.exchange(count) != count)
    ThreadPool::global().set_threads(static_cast<int>(std::min(count, most)));
}

void offer_torch_threads() {
  const auto parallel_for = find_in_torch<ParallelFor>("torch_parallel_for");
  if (parallel_for == nullptr) return;
  HostWorkers::global().offer(
      {ThreadPool::global().threads(),
       [parallel_for](std::int64_t count, ExternalWorkers::Task task, void* context) {
         struct Call {
           ExternalWorkers::Task task;
           void* context;
         } call{task, context};
         const std::int32_t error = parallel_for(
             0, count, 1,
             [](std::int64_t begin, std::int64_t end, void* shared) {
               const auto& c = *static_cast<Call*>(shared);
               for (std::int64_t k = begin; k < end; ++k) c.task(c.context, k);
             },
             &call);
         GEX_CHECK(error == 0, "torch_parallel_for failed with error ", error);
       }});
}

}  // namespace gex::python
