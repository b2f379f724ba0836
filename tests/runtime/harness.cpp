#include "harness.hpp"

#include <cstdlib>

#include "backend/backend.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "backend/cuda/step_kernels.hpp"
#include "runtime/device.hpp"

namespace gex::runtime::testing {

namespace {

struct TestKernel {
  program::KernelFn fn;
  std::string body;
};

std::map<std::string, TestKernel>& kernels() {
  static std::map<std::string, TestKernel> table;
  return table;
}

GEX_TEST_KERNEL(add_one, { ((float*)buffers[1])[point] = ((const float*)buffers[0])[point] + 1; })

bool is_cuda(const std::string& driver) { return driver.rfind("cuda", 0) == 0; }

std::string cuda_source(const std::string& name, const std::string& body,
                        const program::Launch& launch) {
  return "#define int64_t long long\nextern \"C\" __global__ void " + name +
         "(const int64_t* words) {\n  void* const* buffers = (void* const*)words;\n" +
         "  const int64_t* dims = words + " + std::to_string(launch.buffers.size()) +
         ";\n  int64_t grid = dims[" + std::to_string(launch.dims.size()) +
         "];\n  if (threadIdx.x != 0) return;\n" +
         "  for (int64_t point = blockIdx.x; point < grid; point += gridDim.x) " + body + "\n}\n";
}

void add_device_codes(program::Program& program, program::Executable& executable) {
  std::vector<backend::cuda::Source> sources(program.codes.size());
  for (program::Segment& segment : program.segments) {
    for (program::Step& step : segment.steps) {
      auto* launch = std::get_if<program::Launch>(&step.op);
      if (launch == nullptr) continue;
      launch->block = 32;
      const std::string& name = program.codes[static_cast<std::size_t>(launch->code)].name;
      sources[static_cast<std::size_t>(launch->code)] = {
          name, cuda_source(name, kernels().at(name).body, *launch)};
    }
  }
  sources.push_back({"copy and fill", backend::cuda::step_kernels(true)});
  const std::string architecture = backend::find_target("cuda").architecture;
  const auto cubins = backend::cuda::compile_cubins(sources, architecture, nullptr);
  for (std::size_t k = 0; k < program.codes.size(); ++k)
    executable.device_codes.push_back({cubins[k], program.codes[k].name});
  executable.step_image = cubins.back();
}

}  // namespace

bool add_kernel(const char* name, program::KernelFn fn, const char* body) {
  return kernels().emplace(name, TestKernel{fn, body}).second;
}

std::string count_up(int temporaries) {
  std::string text = R"(program "count_up"
symbol s0 in [1, 100000]
input 0 "x" f32 [s0] -> %0
output 0 "y" fresh f32 [s0] -> %1
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" output 0 f32 [s0] bytes [s0*4]
)";
  for (int k = 0; k < temporaries; ++k)
    text += str("buffer %", k + 2, " \"t", k, "\" temp f32 [s0] bytes [s0*4]\n");
  text += "code 0 \"add_one\"\nmain 0\nsegment 0 \"main\"\n";
  for (int k = 0; k <= temporaries; ++k)
    text += str("  launch \"step", k, "\" code 0 read %", k == 0 ? 0 : k + 1, " write %",
                k == temporaries ? 1 : k + 2, " dims [s0] grid [s0] work [s0*8]\n");
  return text;
}

std::shared_ptr<program::Executable> load_program(const std::string& text,
                                                  const std::string& driver) {
  auto program = std::make_shared<program::Program>(program::parse_program(text));
  auto executable = std::make_shared<program::Executable>();
  for (const program::Code& code : program->codes) {
    const auto found = kernels().find(code.name);
    executable->functions.emplace_back();
    if (found != kernels().end()) executable->functions.back().fn = found->second.fn;
  }
  if (is_cuda(driver)) add_device_codes(*program, *executable);
  executable->program = std::move(program);
  return executable;
}

std::shared_ptr<program::Executable> with_function(program::Program program,
                                                   program::Callable function) {
  auto executable = std::make_shared<program::Executable>();
  executable->functions.push_back(std::move(function));
  executable->program = std::make_shared<const program::Program>(std::move(program));
  return executable;
}

DeviceArray::DeviceArray(std::string driver, std::size_t bytes)
    : driver_(std::move(driver)), bytes_(bytes) {
  const auto context = is_cuda(driver_) ? open_device(driver_) : nullptr;
  if (context != nullptr) {
    void* memory = context->device->allocate(bytes);
    memory_ = {memory, [context, bytes](void* p) { context->device->deallocate(p, bytes); }};
  } else {
    // One byte more than requested: empty tensors have an address too. ASan detects writes past it.
    memory_ = {std::calloc(bytes + 1, 1), std::free};
  }
}

void DeviceArray::upload(const void* from) {
  if (bytes_ == 0) return;
  if (is_cuda(driver_)) {
    open_device(driver_)->device->write(memory_.get(), from, bytes_);
  } else {
    std::memcpy(memory_.get(), from, bytes_);
  }
}

void DeviceArray::download(void* to) const {
  if (bytes_ == 0) return;
  if (is_cuda(driver_)) {
    open_device(driver_)->device->make_queue()->read(to, memory_.get(), bytes_);
  } else {
    std::memcpy(to, memory_.get(), bytes_);
  }
}

Tensor::Tensor(const std::string& driver, DType the_dtype, std::vector<std::int64_t> the_shape,
               std::size_t bytes)
    : dtype(the_dtype), shape(std::move(the_shape)), memory(driver, bytes) {
  std::int64_t dense = 1;
  strides.resize(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = dense;
    dense *= std::max<std::int64_t>(1, shape[i]);
  }
}

InputArg Tensor::arg() const {
  InputArg out;
  out.tensor = {memory.data(), dtype, shape, strides};
  return out;
}

void* TestHost::allocate_output(int k, DType dtype, std::span<const std::int64_t> shape,
                                std::span<const std::int64_t> strides) {
  std::size_t last = 0;
  bool empty = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    empty = empty || shape[i] == 0;
    last += static_cast<std::size_t>((shape[i] - 1) * strides[i]);
  }
  Output& output = outputs[k];
  output = {};
  output.dtype = dtype;
  output.shape.assign(shape.begin(), shape.end());
  output.strides.assign(strides.begin(), strides.end());
  output.memory = DeviceArray(driver_, empty ? 0 : (last + 1) * size_of(dtype));
  return output.memory.data();
}

void TestHost::set_view_output(int k, int of_input, std::span<const std::int64_t> shape,
                               std::span<const std::int64_t> strides, std::int64_t offset) {
  Output& output = outputs[k];
  output.view_of_input = of_input;
  output.shape.assign(shape.begin(), shape.end());
  output.strides.assign(strides.begin(), strides.end());
  output.offset = offset;
}

void TestHost::set_output_view_output(int k, int of_output, std::span<const std::int64_t> shape,
                                      std::span<const std::int64_t> strides, std::int64_t offset) {
  Output& output = outputs[k];
  output.view_of_output = of_output;
  output.shape.assign(shape.begin(), shape.end());
  output.strides.assign(strides.begin(), strides.end());
  output.offset = offset;
}

void TestHost::set_integer_output(int k, std::int64_t value) { outputs[k].integer = value; }

void TestHost::set_external_output(int k, std::uint64_t handle) {
  outputs[k].handle = handle;
  outputs[k].memory = results_.at(handle);
}

void TestHost::call(const program::Call& call, std::span<const TensorRef> inputs,
                    std::span<const std::int64_t> integers, std::span<const TensorRef> expected,
                    std::span<CallResult> results) {
  called.push_back(call.name);
  handlers.at(call.name)(inputs, integers, expected, results);
}

void TestHost::release(std::uint64_t handle) {
  released.push_back(handle);
  results_.erase(handle);
}

Host::CallResult TestHost::make_result(std::size_t bytes, const void* contents) {
  DeviceArray memory(driver_, bytes);
  if (contents != nullptr) memory.upload(contents);
  CallResult result;
  result.data = memory.data();
  result.handle = next_handle_++;
  results_.emplace(result.handle, std::move(memory));
  return result;
}

std::vector<float> read_f32(const std::string& driver, const TensorRef& tensor, std::size_t count) {
  std::vector<float> out(count);
  if (is_cuda(driver)) {
    open_device(driver)->device->make_queue()->read(out.data(), tensor.data, count * 4);
  } else {
    std::memcpy(out.data(), tensor.data, count * 4);
  }
  return out;
}

bool computes(const std::string& driver) { return driver != "null"; }

std::vector<ConformanceCase>& conformance_cases() {
  static std::vector<ConformanceCase> cases;
  return cases;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace gex::runtime::testing
