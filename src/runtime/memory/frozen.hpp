#pragma once
// Frozen constants: memory given to the Session for its whole lifetime. A device uses its own
// memory directly, and host memory if it can read that; otherwise it gets a copy, made once.

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/device.hpp"

namespace gex::runtime {

class FrozenConstants {
 public:
  // Stores the addresses in `loaded`. UserError if a slot of the Program has no memory.
  // `on_device`: all of the memory is of the device.
  FrozenConstants(const program::Program& program, std::vector<std::shared_ptr<const void>> memory,
                  bool on_device, Device& device, Loaded& loaded);
  ~FrozenConstants();
  FrozenConstants(const FrozenConstants&) = delete;
  FrozenConstants& operator=(const FrozenConstants&) = delete;

 private:
  const std::vector<std::shared_ptr<const void>> memory_;
  Device& device_;
  Loaded& loaded_;
  std::vector<std::pair<std::size_t, std::size_t>> given_;  // buffer, bytes of its copy or 0
};

}  // namespace gex::runtime
