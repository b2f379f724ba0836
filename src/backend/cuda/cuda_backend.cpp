#include "backend/cuda/cuda_backend.hpp"

#include <algorithm>

#include "backend/cuda/kernel_text.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "backend/cuda/step_kernels.hpp"
#include "backend/parsed_codes.hpp"
#include "base/digest.hpp"
#include "base/error.hpp"
#include "cache/object_store.hpp"
#include "loop/kernel.hpp"
#include "nvidia/api.hpp"

namespace gex::backend::cuda {

namespace {

constexpr const char* kLibrary = "cublas";
// What code is compiled for where there is no device to ask.
constexpr const char* kDefaultArchitecture = "sm_90";
constexpr int kDefaultMultiprocessors = 132;

DeviceLimits limits_of(const Target& target) {
  DeviceLimits limits;
  limits.multiprocessors = static_cast<int>(target.multiprocessors);
  limits.architecture = target.architecture;
  return limits;
}

// Strides of one operand: rows and columns.
bool has_unit_stride(std::span<const Dim> strides) {
  return strides[2] == Dim(1) || strides[3] == Dim(1);
}

// Products that need nothing attached go to the library where it can read and write the operands.
bool library_computes(const problems::Problem& problem, const AttachedKernels& attached,
                      std::span<const Dim> dims) {
  namespace at = problems::matmul_dims;
  const auto* p = std::get_if<problems::MatmulProblem>(&problem);
  if (p == nullptr || attached.epilogue != nullptr || !attached.prologues.empty() || p->any_rows)
    return false;
  const bool dtypes = p->a == p->b && is_float(p->a) && (p->c == p->a || p->c == DType::f32);
  return dtypes && (p->a != DType::f64 || p->c == DType::f64) && dims[at::batch0] == Dim(1) &&
         has_unit_stride(dims.subspan(at::a_strides, 4)) &&
         has_unit_stride(dims.subspan(at::b_strides, 4)) && dims[at::c_strides + 3] == Dim(1);
}

// The kernels around a problem in their canonical form, as a Program holds them.
struct CanonicalKernels {
  std::vector<loop::Kernel> kernels;
  AttachedKernels attached;

  explicit CanonicalKernels(const AttachedKernels& original) : attached(original) {
    kernels.reserve(original.prologues.size() + 1);
    const auto canonical = [&](const loop::Kernel& kernel) {
      std::vector<Dim> symbols;
      kernels.push_back(loop::canonical(kernel, symbols));
      return &kernels.back();
    };
    if (original.epilogue != nullptr) attached.epilogue = canonical(*original.epilogue);
    for (AttachedKernels::Prologue& prologue : attached.prologues)
      prologue.kernel = canonical(*prologue.kernel);
  }
};

class CudaBackend final : public Backend {
 public:
  Target describe(Target target) const override {
    std::string why_not;
    const nvidia::DriverApi* api = nvidia::driver_api(why_not);
    int count = 0;
    if (api == nullptr || api->init(0) != 0 || api->device_count(&count) != 0 || count == 0) {
      target.architecture = kDefaultArchitecture;
      target.multiprocessors = kDefaultMultiprocessors;
      return target;
    }
    if (target.device >= count)
      fail(ErrorCode::invalid_argument, "there is no device ", target.text(), "; there are ", count,
           " CUDA devices");
    int device = 0, major = 0, minor = 0, multiprocessors = 0;
    const bool known =
        api->device_get(&device, target.device) == 0 &&
        api->device_attribute(&major, nvidia::kAttributeComputeMajor, device) == 0 &&
        api->device_attribute(&minor, nvidia::kAttributeComputeMinor, device) == 0 &&
        api->device_attribute(&multiprocessors, nvidia::kAttributeMultiprocessors, device) == 0;
    if (!known)
      fail(ErrorCode::device_error, "the CUDA driver tells nothing about ", target.text());
    target.architecture = str("sm_", major, minor);
    target.multiprocessors = multiprocessors;
    return target;
  }

  std::string fingerprint(const Target& target, const CodeOptions&) const override {
    return str(target.architecture, ", ", target.multiprocessors, " multiprocessors, NVRTC ",
               nvrtc_version());
  }

  LaunchPlan plan(const loop::Kernel& kernel, const Target& target) const override {
    return plan_of(emit(kernel, limits_of(target)));
  }

  // Codes are shared by launches with equal texts, so the text is part of what tells them apart.
  LaunchPlan plan(const problems::Problem& problem, const AttachedKernels& attached,
                  std::span<const Dim> dims, const Target& target) const override {
    if (library_computes(problem, attached, dims)) {
      LaunchPlan plan;
      plan.grid = 1;
      plan.algorithm = kLibrary;
      return plan;
    }
    const CanonicalKernels canonical(attached);
    const KernelText text = emit(problem, canonical.attached, dims, limits_of(target));
    LaunchPlan plan = plan_of(text);
    plan.algorithm = digest_of(text.source).hex().substr(0, 12);
    return plan;
  }

  CompiledCode compile(std::shared_ptr<const program::Program> program,
                       const CodeOptions& options) const override {
    const Target target = describe(parse_target(program->target));
    const DeviceLimits limits = limits_of(target);
    const ParsedCodes parsed = parse_codes(*program);
    std::vector<Source> sources;
    std::vector<std::string> entries;
    for (std::size_t k = 0; k < parsed.codes.size(); ++k) {
      const ParsedCode& code = parsed.codes[k];
      if (code.algorithm == kLibrary) continue;
      KernelText text = text_of(*program, parsed, static_cast<int>(k), limits);
      entries.push_back(std::move(text.name));
      sources.push_back({code.name, std::move(text.source)});
    }
    sources.push_back({"copy and fill", kStepKernels});
    const std::unique_ptr<ObjectStore> objects =
        options.cache == nullptr ? nullptr : std::make_unique<ObjectStore>(options.cache);
    const auto cubins = compile_cubins(sources, target.architecture, objects.get());
    CompiledCode result;
    std::size_t next = 0;
    for (const ParsedCode& code : parsed.codes) {
      program::DeviceCode device;
      if (code.algorithm != kLibrary) {
        device.entry = entries[next];
        device.image = cubins[next++];
      }
      result.executable.device_codes.push_back(std::move(device));
    }
    result.executable.step_image = cubins.back();
    result.executable.program = std::move(program);
    result.generator = str("nvrtc (", target.architecture, ")");
    return result;
  }

 private:
  static LaunchPlan plan_of(const KernelText& text) {
    LaunchPlan plan;
    plan.grid = text.grid;
    plan.scratch_bytes = text.shared_bytes;
    plan.workspace_bytes = text.workspace_bytes;
    plan.block = text.block;
    return plan;
  }

  // All launches of a code have the same text: any of them tells its dims.
  static const program::Launch& launch_of(const program::Program& program, int code) {
    for (const program::Segment& segment : program.segments)
      for (const program::Step& step : segment.steps)
        if (const auto* launch = std::get_if<program::Launch>(&step.op); launch != nullptr)
          if (launch->code == code) return *launch;
    GEX_CHECK(false, "code ", code, " is not launched");
  }

  static KernelText text_of(const program::Program& program, const ParsedCodes& parsed, int number,
                            const DeviceLimits& limits) {
    const ParsedCode& code = parsed.codes[static_cast<std::size_t>(number)];
    const auto kernel = [&](int k) { return &parsed.kernels[static_cast<std::size_t>(k)]; };
    if (!code.problem) return emit(*kernel(code.kernel), limits);
    AttachedKernels attached;
    if (code.kernel >= 0) {
      attached.epilogue = kernel(code.kernel);
      attached.extra_buffers = code.extra_buffers;
      attached.epilogue_dims_begin = problems::dims_count(*code.problem);
    }
    for (const program::Code::Prologue& prologue : code.prologues)
      attached.prologues.push_back({kernel(prologue.kernel), prologue.operand,
                                    prologue.first_buffer, prologue.input_buffers,
                                    prologue.dims_begin});
    return emit(*code.problem, attached, launch_of(program, number).dims, limits);
  }
};

}  // namespace

const Backend& backend() {
  static const auto* instance = new CudaBackend;
  return *instance;
}

}  // namespace gex::backend::cuda
