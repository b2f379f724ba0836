#include "runtime/drivers/cpu/cpu_device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "base/memory_size.hpp"
#include "runtime/drivers/cpu/cpu_recording.hpp"

namespace gex::runtime {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

}  // namespace

bool CpuQueue::read(void* host, const void* device, std::size_t bytes) {
  std::memcpy(host, device, bytes);
  return true;
}

CpuDevice::CpuDevice(CpuResources resources) : resources_(std::move(resources)) {
  if (resources_.workers.run) own_pool_ = std::make_unique<ThreadPool>(resources_.workers);
}

void* CpuDevice::allocate(std::size_t bytes) {
  if (resources_.allocate) {
    void* memory = resources_.allocate(bytes, 64);
    if (memory == nullptr)
      fail(ErrorCode::out_of_memory, "the host program's allocator could not provide ", bytes,
           " bytes; free memory");
    return memory;
  }
  const std::size_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : 64;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = bytes <= total_memory()
                     ? std::aligned_alloc(alignment, std::max(rounded, alignment))
                     : nullptr;
  if (memory == nullptr)
    fail(ErrorCode::out_of_memory, "cannot allocate an arena of ", bytes,
         " bytes; use smaller inputs or free memory");
  if (alignment == kHugePageBytes)
    madvise(memory, rounded, MADV_HUGEPAGE);  // a hint; may be refused
  return memory;
}

void CpuDevice::deallocate(void* memory, std::size_t bytes) noexcept {
  if (resources_.release)
    resources_.release(memory, bytes);
  else
    std::free(memory);
}

void CpuDevice::discard(void* memory, std::size_t bytes) noexcept {
  if (resources_.allocate) return;  // the allocator belongs to the host program
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / kPage * kPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void CpuDevice::write(void* device, const void* host, std::size_t bytes) {
  std::memcpy(device, host, bytes);
}

std::unique_ptr<Loaded> CpuDevice::load(const program::Executable& executable) {
  const program::Program& program = *executable.program;
  for (std::size_t k = 0; k < program.codes.size(); ++k)
    if (k >= executable.functions.size() || !executable.functions[k])
      fail(ErrorCode::unsupported, "code \"", program.codes[k].name, "\" of a program for \"",
           program.target, "\" has no function for the CPU; compile it for target \"cpu\"");
  auto loaded = std::make_unique<Loaded>();
  for (const program::BufferDesc& buffer : program.buffers)
    loaded->constants.push_back(
        buffer.data == nullptr ? nullptr : const_cast<std::byte*>(buffer.data->data()));
  return loaded;
}

std::unique_ptr<Recorder> CpuDevice::make_recorder(const Image&, Loaded&,
                                                   std::span<const std::int64_t>) {
  return make_cpu_recorder();
}

}  // namespace gex::runtime
