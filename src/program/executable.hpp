#pragma once
// A Program and what a backend made of its codes: functions of this process for the CPU, device
// images for a GPU. Sessions run Executables.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "program/kernel_abi.hpp"
#include "program/program.hpp"

namespace gex::program {

// Device code: a kernel in an image, or a matmul computed by the vendor's library.
struct DeviceCode {
  std::shared_ptr<const std::string> image;  // null: the vendor's library
  std::string entry;                         // name of the kernel in the image
};

struct Executable {
  std::shared_ptr<const Program> program;
  std::vector<Callable> functions;       // CPU: by code
  std::vector<DeviceCode> device_codes;  // GPU: by code
  // GPU: kernels gex_copy and gex_fill for copy and fill steps; null if there are none.
  std::shared_ptr<const std::string> step_image;
};

}  // namespace gex::program
