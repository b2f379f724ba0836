// Every kernel of cuda_cases() on a GPU, against the reference executor.

#include <algorithm>

#include "backend/backend.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "cuda_cases.hpp"
#include "runtime/device.hpp"
#include "runtime/session/session.hpp"

namespace gex::codegen {
namespace {

// One launch of the kernel over inputs that are written in place.
std::shared_ptr<program::Executable> one_launch(const CudaCase& c, const cuda::KernelText& kernel) {
  auto program = std::make_shared<program::Program>();
  program->name = kernel.name;
  program->codes.push_back({.name = kernel.name});
  program::Launch launch;
  launch.name = kernel.name;
  launch.code = 0;
  for (std::size_t b = 0; b < c.data.buffers.size(); ++b) {
    const HostTensor& tensor = c.data.buffers[b];
    program::BufferDesc buffer;
    buffer.name = c.data.kernel.buffers[b].name;
    buffer.kind = program::BufferDesc::Kind::input;
    buffer.dtype = tensor.dtype();
    for (std::int64_t size : tensor.shape()) buffer.shape.emplace_back(size);
    buffer.bytes = static_cast<std::int64_t>(tensor.bytes());
    buffer.slot = static_cast<int>(b);
    program::InputDesc input;
    input.name = buffer.name;
    input.dtype = buffer.dtype;
    input.shape = buffer.shape;
    input.buffer = static_cast<int>(b);
    program->inputs.push_back(input);
    program->buffers.push_back(buffer);
    launch.buffers.push_back(static_cast<int>(b));
    launch.writes.push_back(c.data.kernel.buffers[b].role != loop::Buffer::Role::in);
  }
  if (!(kernel.workspace_bytes == Dim(0))) {
    program::BufferDesc workspace;
    workspace.name = "workspace";
    workspace.kind = program::BufferDesc::Kind::temp;
    workspace.dtype = DType::u8;
    workspace.bytes = evaluate(c, kernel.workspace_bytes);
    workspace.shape = {workspace.bytes};
    launch.buffers.push_back(static_cast<int>(program->buffers.size()));
    launch.writes.push_back(true);
    program->buffers.push_back(workspace);
  }
  for (std::int64_t dim : c.data.dims) launch.dims.emplace_back(dim);
  launch.grid = evaluate(c, kernel.grid);
  launch.scratch_bytes = evaluate(c, kernel.shared_bytes);
  launch.block = kernel.block;
  program::Step step;
  step.op = launch;
  program->segments.push_back({"main", {step}});
  program->main = {0};
  auto executable = std::make_shared<program::Executable>();
  const std::string architecture = backend::find_target("cuda").architecture;
  executable->device_codes.push_back(
      {backend::cuda::compile_cubins({{kernel.name, kernel.source}}, architecture, nullptr).front(),
       kernel.name});
  executable->program = std::move(program);
  return executable;
}

class NoHost final : public runtime::Host {
 public:
  void* allocate_output(int, DType, std::span<const std::int64_t>,
                        std::span<const std::int64_t>) override {
    return nullptr;
  }
  void set_view_output(int, int, std::span<const std::int64_t>, std::span<const std::int64_t>,
                       std::int64_t) override {}
  void set_output_view_output(int, int, std::span<const std::int64_t>,
                              std::span<const std::int64_t>, std::int64_t) override {}
  void set_integer_output(int, std::int64_t) override {}
  void set_external_output(int, std::uint64_t) override {}
  void call(const program::Call&, std::span<const runtime::TensorRef>,
            std::span<const std::int64_t>, std::span<const runtime::TensorRef>,
            std::span<CallResult>) override {}
  void release(std::uint64_t) override {}
};

TEST(CudaDevice, generated_kernels_compute_what_the_reference_computes) {
  const auto drivers = runtime::available_drivers();
  if (std::count(drivers.begin(), drivers.end(), "cuda_graph") == 0)
    GTEST_SKIP() << "NO GPU: generated kernels were not run on one\n";
  const auto context = runtime::open_device("cuda_graph");
  for (const CudaCase& c : cuda_cases()) {
    const cuda::KernelText kernel = cuda::emit(c.data.kernel);
    SCOPED_TRACE(kernel.source.substr(cuda::prelude().size()));
    runtime::Session session(one_launch(c, kernel), {.driver = "cuda_graph"});
    std::vector<void*> memory;
    std::vector<std::vector<std::int64_t>> strides;
    std::vector<runtime::InputArg> inputs;
    for (const HostTensor& tensor : c.data.buffers) {
      memory.push_back(context->device->allocate(tensor.bytes()));
      context->device->write(memory.back(), tensor.data(), tensor.bytes());
      std::vector<std::int64_t> dense(tensor.shape().size(), 1);
      for (std::size_t d = dense.size(); d-- > 1;) dense[d - 1] = dense[d] * tensor.shape()[d];
      strides.push_back(std::move(dense));
    }
    for (std::size_t b = 0; b < memory.size(); ++b) {
      runtime::InputArg input;
      input.tensor = {memory[b], c.data.buffers[b].dtype(), c.data.buffers[b].shape(), strides[b]};
      inputs.push_back(input);
    }
    NoHost host;
    session.run(inputs, host);
    const std::vector<HostTensor> expected = reference(c.data);
    const auto queue = context->device->make_queue();
    for (std::size_t b = 0; b < expected.size(); ++b) {
      HostTensor got = c.data.buffers[b];
      queue->read(got.data(), memory[b], got.bytes());
      EXPECT_LE(distance(got, expected[b]), allowed(c, got.dtype()))
          << "buffer " << c.data.kernel.buffers[b].name << " of " << kernel.name;
      context->device->deallocate(memory[b], got.bytes());
    }
  }
}

}  // namespace
}  // namespace gex::codegen
