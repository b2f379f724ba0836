#include <algorithm>

#include "base/error.hpp"
#include "runtime/drivers/cuda/compile.hpp"
#include "runtime/drivers/cuda/cuda_device.hpp"

namespace gex::runtime::cuda {

namespace {

// The next size that a capture is made for: powers of two up to 16, then four steps to an octave,
// so that at most a quarter of the memory is padding.
std::int64_t next_gear(std::int64_t size) {
  if (size <= 1) return size;
  std::int64_t octave = 1;
  while (octave * 2 < size) octave *= 2;
  const std::int64_t step = octave < 16 ? octave : octave / 4;
  return (size + step - 1) / step * step;
}

// A symbol that a library launch uses for anything but its rows must keep its exact value.
void find_exact(const program::Program& program,
                const std::vector<std::optional<MatmulProblem>>& problems,
                std::vector<Dim>& exact) {
  for (const program::Segment& segment : program.segments) {
    for (const program::Step& step : segment.steps) {
      const auto* launch = std::get_if<program::Launch>(&step.op);
      if (launch == nullptr) continue;
      const auto& problem = problems[static_cast<std::size_t>(launch->code)];
      if (!problem) continue;
      const bool rows_free = problem->rows_may_be_padded() && launch->dims[0] == Dim(1);
      for (std::size_t i = 0; i < launch->dims.size(); ++i)
        if (i != 1 || !rows_free) launch->dims[i].collect_symbols(exact);
    }
  }
}

}  // namespace

CudaLoaded::CudaLoaded(CudaDevice& the_device, const program::Program& program)
    : device(the_device) {
  const DriverApi& api = device.api();
  device.make_current();
  for (const program::Code& code : program.codes) {
    functions.push_back(nullptr);
    problems.emplace_back();
    if (code.target == "cublas") {
      problems.back() = parse_matmul(code.source);
      continue;
    }
    if (code.target != "cuda")
      fail(ErrorCode::unsupported, "code \"", code.name, "\" is for target \"", code.target,
           "\"; a CUDA driver runs \"cuda\" and \"cublas\"");
    const auto cubin = compile_cubin(code.name, code.source, device.architecture());
    Module module = nullptr;
    check(api, api.module_load(&module, cubin->data()), "loading code");
    modules.push_back(module);
    check(api, api.module_function(&functions.back(), module, code.name.c_str()),
          "finding a kernel by the name of its code");
  }
  for (const program::BufferDesc& buffer : program.buffers) {
    constants.push_back(nullptr);
    if (buffer.data == nullptr) continue;
    constants.back() = device.allocate(buffer.data->bytes());
    device.write(constants.back(), buffer.data->data(), buffer.data->bytes());
  }
  std::vector<Dim> exact;
  find_exact(program, problems, exact);
  for (Dim symbol : program.symbols) {
    if (program::is_bound_symbol(program, symbol)) continue;
    const bool free = std::find(exact.begin(), exact.end(), symbol) == exact.end();
    gears.push_back(free ? symbol.range() : DimRange{0, -1});
  }
}

CudaLoaded::~CudaLoaded() {
  device.make_current();
  for (Module module : modules) device.api().module_unload(module);
  for (void* constant : constants)
    if (constant != nullptr) device.deallocate(constant, 0);
}

void CudaLoaded::round_up(std::span<std::int64_t> key) const {
  if (!device.graphs()) return;  // immediate launches take any size as it is
  for (std::size_t i = 0; i < key.size(); ++i)
    if (gears[i].lo <= gears[i].hi) key[i] = std::min(next_gear(key[i]), gears[i].hi);
}

}  // namespace gex::runtime::cuda
