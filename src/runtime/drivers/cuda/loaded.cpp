#include <algorithm>
#include <unordered_map>

#include "base/error.hpp"
#include "problems/problem.hpp"
#include "runtime/drivers/cuda/cuda_device.hpp"
#include "runtime/memory/usage.hpp"

namespace gex::runtime::cuda {

namespace {

// Gears of captured graphs are powers of two: a sequence that grows from 24 to 151 needs 4
// captures. Only arena memory is padded: kernels stop at the actual sizes.
constexpr int kGearSteps = 1;

}  // namespace

CudaLoaded::CudaLoaded(CudaDevice& the_device, const program::Executable& executable)
    : device(the_device) {
  const program::Program& program = *executable.program;
  const DriverApi& api = device.api();
  device.make_current();
  const auto load = [&](const std::string& image) {
    Module module = nullptr;
    check(api, api.module_load(&module, image.data()), "loading code");
    modules.push_back(module);
    return module;
  };
  for (std::size_t k = 0; k < program.codes.size(); ++k) {
    functions.push_back(nullptr);
    matmuls.emplace_back();
    if (k >= executable.device_codes.size())
      fail(ErrorCode::unsupported, "code \"", program.codes[k].name, "\" of a program for \"",
           program.target, "\" has no code for a GPU; compile it for target \"cuda\"");
    const program::DeviceCode& code = executable.device_codes[k];
    if (code.only_merged) continue;
    if (code.image == nullptr) {
      const problems::Problem problem = problems::parse_problem(program.codes[k].problem);
      matmuls.back() = std::get<problems::MatmulProblem>(problem);
      continue;
    }
    check(api, api.module_function(&functions.back(), load(*code.image), code.entry.c_str()),
          "finding a kernel in its image");
    if (code.waits) waiting.insert(functions.back());
  }
  std::unordered_map<const std::string*, Function> by_image;
  for (const auto& [launch, code] : executable.merged) {
    Function& function = by_image[code.image.get()];
    if (function == nullptr)
      check(api, api.module_function(&function, load(*code.image), code.entry.c_str()),
            "finding a merged kernel in its image");
    merged.emplace(launch, function);
    if (code.waits) waiting.insert(function);
    if (code.blocks > 0) persistent[function] = {code.blocks, code.threads, code.shared_bytes};
  }
  if (executable.step_image != nullptr) {
    const Module module = load(*executable.step_image);
    check(api, api.module_function(&copy, module, "gex_copy"), "finding gex_copy");
    check(api, api.module_function(&fill, module, "gex_fill"), "finding gex_fill");
  }
  for (const program::BufferDesc& buffer : program.buffers) {
    constants.push_back(nullptr);
    if (buffer.data == nullptr) continue;
    constants.back() = device.allocate(buffer.data->bytes());
    device.write(constants.back(), buffer.data->data(), buffer.data->bytes());
    count_allocated(MemoryUse::constants, buffer.data->bytes());
    constant_bytes += buffer.data->bytes();
  }
  if (device.graphs()) gears.steps = kGearSteps;  // immediate launches need no gears
}

CudaLoaded::~CudaLoaded() {
  device.make_current();
  for (Module module : modules) device.api().module_unload(module);
  for (void* constant : constants)
    if (constant != nullptr) device.deallocate(constant, 0);
  count_freed(MemoryUse::constants, constant_bytes);
}

}  // namespace gex::runtime::cuda
