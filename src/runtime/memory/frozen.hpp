#pragma once
// Frozen constants: memory that the Session was given for good. A device that reads host memory
// uses it where it lies; any other gets a copy, made once.

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/device.hpp"

namespace gex::runtime {

class FrozenConstants {
 public:
  // Enters the addresses into `loaded`. UserError if some slot of the Program has no memory.
  FrozenConstants(const program::Program& program, std::vector<std::shared_ptr<const void>> memory,
                  Device& device, Loaded& loaded);
  ~FrozenConstants();
  FrozenConstants(const FrozenConstants&) = delete;
  FrozenConstants& operator=(const FrozenConstants&) = delete;

 private:
  const std::vector<std::shared_ptr<const void>> memory_;
  Device& device_;
  Loaded& loaded_;
  std::vector<std::pair<std::size_t, std::size_t>> copies_;  // buffer, bytes
};

}  // namespace gex::runtime
