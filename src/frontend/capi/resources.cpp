#include "frontend/capi/resources.hpp"

#include <cstdlib>
#include <new>

#include "base/memory_size.hpp"
#include "frontend/capi/boundary.hpp"

namespace gex::capi {

Memory::Memory(const gex_allocator* allocator) {
  if (allocator == nullptr) return;
  const gex_allocator defaults = {};
  allocator_ = read_versioned(allocator, defaults, sizeof(gex_allocator), "allocator");
  if (allocator_.allocate == nullptr || allocator_.release == nullptr)
    fail(ErrorCode::invalid_argument, "an allocator needs both functions, allocate and release");
}

void* Memory::allocate(std::size_t bytes, std::size_t alignment) const {
  void* memory = nullptr;
  if (is_callers())
    memory = allocator_.allocate(allocator_.user, bytes, alignment);
  else if (bytes <= total_memory())
    memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr)
    fail(ErrorCode::out_of_memory, "out of memory: ", bytes, " bytes were requested, ",
         is_callers() ? "which the allocator of the program does not have"
                      : str("and the machine has ", total_memory(), " in all"));
  return memory;
}

void Memory::release(void* memory, std::size_t bytes) const {
  if (is_callers())
    allocator_.release(allocator_.user, memory, bytes);
  else
    std::free(memory);
}

std::shared_ptr<runtime::DeviceContext> device_of(const gex_compile_options& options,
                                                  const std::string& target,
                                                  const std::shared_ptr<const Memory>& memory) {
  if (target != "cpu") {
    if (options.thread_pool != nullptr)
      fail(ErrorCode::invalid_argument, "a program for ", target,
           " can't use a thread pool: omit it");
    return nullptr;
  }
  runtime::CpuResources resources;
  if (memory->is_callers()) {
    resources.allocate = [memory](std::size_t bytes, std::size_t alignment) {
      return memory->allocate(bytes, alignment);
    };
    resources.release = [memory](void* block, std::size_t bytes) { memory->release(block, bytes); };
  }
  if (options.thread_pool != nullptr) {
    const gex_thread_pool defaults = {};
    const gex_thread_pool pool =
        read_versioned(options.thread_pool, defaults, sizeof(gex_thread_pool), "thread_pool");
    if (pool.run == nullptr || pool.threads < 1)
      fail(ErrorCode::invalid_argument, "a thread pool needs the function run and threads, got ",
           pool.threads);
    resources.workers = {pool.threads,
                         [pool](std::int64_t count, ExternalWorkers::Task task, void* context) {
                           pool.run(pool.user, count, task, context);
                         }};
  }
  if (!resources.allocate && !resources.workers.run) return nullptr;
  return runtime::open_cpu(std::move(resources));
}

}  // namespace gex::capi
