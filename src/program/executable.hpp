#pragma once
// A Program and what a backend made of its codes: functions of this process for the CPU, device
// images for a GPU. Sessions run Executables.

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/dtype.hpp"
#include "program/kernel_abi.hpp"
#include "program/program.hpp"

namespace gex::program {

// Device code: a kernel in an image, or a matmul computed by the vendor's library.
struct DeviceCode {
  std::shared_ptr<const std::string> image;  // null: the vendor's library
  std::string entry;                         // name of the kernel in the image
  bool only_merged = false;                  // only run merged with others, so there is no image
  // The kernel itself waits for its predecessor, so it may start before that one has finished.
  bool waits = false;
  // Persistent kernel: its number of blocks, which must all run at once, their threads and shared
  // memory.
  int blocks = 0;
  int threads = 0;
  std::int64_t shared_bytes = 0;
};

struct Executable {
  std::shared_ptr<const Program> program;
  std::vector<Callable> functions;       // CPU: by code
  std::vector<DeviceCode> device_codes;  // GPU: by code
  // GPU: launches that run as one kernel (Launch::with_previous), by the first of them.
  std::unordered_map<const Launch*, DeviceCode> merged;
  // GPU: kernels gex_copy and gex_fill for copy and fill steps; null if there are none.
  std::shared_ptr<const std::string> step_image;
};

}  // namespace gex::program
