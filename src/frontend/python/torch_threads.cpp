#include "frontend/python/torch_threads.hpp"

#include <dlfcn.h>

#include <cstdint>

#include "base/error.hpp"
#include "base/host_workers.hpp"

namespace gex::python {

namespace {

using Range = void (*)(std::int64_t begin, std::int64_t end, void* context);
using ParallelFor = std::int32_t (*)(std::int64_t begin, std::int64_t end, std::int64_t grain,
                                     Range range, void* context);

}  // namespace

void offer_torch_threads() {
  void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return;
  const auto parallel_for = reinterpret_cast<ParallelFor>(dlsym(library, "torch_parallel_for"));
  dlclose(library);  // PyTorch keeps it loaded
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
