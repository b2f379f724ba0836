#include "runtime/memory/frozen.hpp"

#include <utility>

#include "base/error.hpp"
#include "runtime/memory/usage.hpp"

namespace gex::runtime {

using program::BufferDesc;

FrozenConstants::FrozenConstants(const program::Program& program,
                                 std::vector<std::shared_ptr<const void>> memory, bool on_device,
                                 Device& device, Loaded& loaded)
    : memory_(std::move(memory)), device_(device), loaded_(loaded) {
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferDesc& buffer = program.buffers[i];
    if (buffer.kind != BufferDesc::Kind::constant || buffer.slot < 0) continue;
    const auto slot = static_cast<std::size_t>(buffer.slot);
    if (slot >= memory_.size() || memory_[slot] == nullptr)
      fail(ErrorCode::invalid_argument, "program \"", program.name, "\" needs frozen memory ",
           buffer.slot, " for \"", buffer.name, "\"; pass it in SessionOptions::frozen");
    // Only read: verify() refuses steps that write constants.
    void* address = const_cast<void*>(memory_[slot].get());
    std::size_t copied = 0;
    if (!on_device && !device.reads_host_memory()) {
      const auto bytes = static_cast<std::size_t>(buffer.bytes.constant());
      address = device.allocate(bytes);
      count_allocated(MemoryUse::weights, bytes);
      copied = bytes;
      device.write(address, memory_[slot].get(), bytes);
    }
    loaded.constants[i] = address;
    given_.push_back({i, copied});
  }
}

FrozenConstants::~FrozenConstants() {
  for (const auto& [buffer, copied] : given_) {
    void* memory = std::exchange(loaded_.constants[buffer], nullptr);  // not the program's to free
    if (copied == 0) continue;
    device_.deallocate(memory, copied);
    count_freed(MemoryUse::weights, copied);
  }
}

}  // namespace gex::runtime
