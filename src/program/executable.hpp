#pragma once
// A Program together with what a backend made of its codes: functions of this process for the CPU,
// device images for a GPU. Sessions run Executables.

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/dtype.hpp"
#include "program/kernel_abi.hpp"
#include "program/program.hpp"

namespace gex::program {

// Code of a device: a kernel in an image, or a product that the vendor's library computes.
struct DeviceCode {
  std::shared_ptr<const std::string> image;  // null: the library
  std::string entry;                         // name of the kernel in the image
  bool only_merged = false;                  // no launch runs it alone, so there is no image
  // It waits itself for the kernel before it, and so may begin before that one has ended.
  bool waits = false;
};

struct Executable {
  std::shared_ptr<const Program> program;
  std::vector<Callable> functions;       // CPU: by code
  std::vector<DeviceCode> device_codes;  // GPU: by code
  // GPU: launches that run as one kernel (Launch::with_previous), by the first of them.
  std::unordered_map<const Launch*, DeviceCode> merged;
  // GPU: kernels gex_copy and gex_fill for copy and fill steps; null where there are none.
  std::shared_ptr<const std::string> step_image;
};

}  // namespace gex::program
