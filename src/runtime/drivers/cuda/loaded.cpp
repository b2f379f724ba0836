#include <algorithm>
#include <unordered_map>

#include "base/environment.hpp"
#include "base/error.hpp"
#include "problems/problem.hpp"
#include "runtime/drivers/cuda/cuda_device.hpp"
#include "runtime/memory/usage.hpp"

namespace gex::runtime::cuda {

namespace {

// Gears of captured graphs are powers of two: a sequence that grows from 24 to 151 needs 4
// captures. Only arena memory is padded: kernels stop at the actual sizes.
constexpr int kGearSteps = 1;

constexpr const char* kSetCondition = "gex_set_condition";

// More than 48 KB must be requested explicitly, and static arrays of the kernel count.
constexpr std::int64_t kDefaultShared = 16 * 1024;

}  // namespace

CudaLoaded::CudaLoaded(CudaDevice& the_device, const program::Executable& executable)
    : device(the_device) {
  const program::Program& program = *executable.program;
  const DriverApi& api = device.api();
  device.make_current();
  const DuringCaptures allowed(api);
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
    if (code.blocks > 0) add_persistent(function, code);
  }
  if (executable.step_image != nullptr) {
    const Module module = load(*executable.step_image);
    check(api, api.module_function(&copy, module, "gex_copy"), "finding gex_copy");
    check(api, api.module_function(&fill, module, "gex_fill"), "finding gex_fill");
    if (api.module_function(&set_condition, module, kSetCondition) != 0) set_condition = nullptr;
  }
  if (device.graphs()) find_control();
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

void CudaLoaded::find_control() {
  if (!switch_in_environment("GEX_CUDA_CONTROL_NODES").value_or(false))
    why_no_control = "GEX_CUDA_CONTROL_NODES=1 is not set";
  else if (conditional_api(why_no_control) != nullptr && set_condition == nullptr)
    why_no_control = "NVRTC is older than 12.4, whose kernels set conditions";
  records_control = why_no_control.empty();
}

Function CudaLoaded::function_of(const program::DeviceCode& code) const {
  const std::lock_guard lock(mutex_);
  const DuringCaptures allowed(device.api());
  StaticFunction& loaded = static_[code.image.get()];
  if (loaded.function == nullptr) {
    loaded.image = code.image;
    check(device.api(), device.api().module_load(&loaded.module, code.image->data()),
          "loading static code");
    check(device.api(),
          device.api().module_function(&loaded.function, loaded.module, code.entry.c_str()),
          "finding a kernel of static code");
  }
  return loaded.function;
}

// Its blocks wait for each other, so all of them must run at once, one on each multiprocessor.
void CudaLoaded::add_persistent(Function function, const program::DeviceCode& code) {
  if (code.blocks > device.multiprocessors())
    fail(ErrorCode::unsupported, "a SuperKernel of ", code.blocks, " blocks can't run on a GPU of ",
         device.multiprocessors(), " multiprocessors; compile it on this machine");
  persistent[function] = {code.blocks, code.threads, code.shared_bytes};
}

void CudaLoaded::allow_shared(Function function, std::int64_t bytes) const {
  if (bytes <= kDefaultShared) return;
  const std::lock_guard lock(mutex_);
  std::int64_t& limit = shared_limits_[function];
  if (bytes <= limit) return;
  check(device.api(),
        device.api().function_set_attribute(function, kFunctionMaxDynamicShared,
                                            static_cast<int>(bytes)),
        "asking for shared memory");
  limit = bytes;
}

CudaLoaded::~CudaLoaded() {
  device.make_current();
  const DuringCaptures allowed(device.api());
  device.api().context_synchronize();  // kernels of the last call may still run
  for (const auto& [image, loaded] : static_)
    if (loaded.module != nullptr) device.api().module_unload(loaded.module);
  for (Module module : modules) device.api().module_unload(module);
  for (void* constant : constants)
    if (constant != nullptr) device.deallocate(constant, 0);
  count_freed(MemoryUse::constants, constant_bytes);
}

}  // namespace gex::runtime::cuda
