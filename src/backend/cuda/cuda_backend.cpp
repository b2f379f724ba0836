#include "backend/cuda/cuda_backend.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "backend/cuda/kernel_text.hpp"
#include "backend/cuda/merged_launches.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "backend/cuda/program_texts.hpp"
#include "backend/cuda/ring_kernel_text.hpp"
#include "backend/cuda/static_codes.hpp"
#include "backend/cuda/step_kernels.hpp"
#include "backend/cuda/super_kernels.hpp"
#include "backend/cuda/tuner.hpp"
#include "backend/parsed_codes.hpp"
#include "base/digest.hpp"
#include "base/error.hpp"
#include "cache/object_store.hpp"
#include "loop/kernel.hpp"
#include "nvidia/device.hpp"
#include "problems/matmul_sizes.hpp"
#include "program/control.hpp"

namespace gex::backend::cuda {

namespace {

// The architecture that code is compiled for if there is no device to query.
constexpr const char* kDefaultArchitecture = "sm_90";
// The oldest with the instructions of the texts: asynchronous copies, products and minima of 16-bit
// floats.
constexpr int kOldestCapability = 80;

std::string& named_architecture() {
  static auto* name = new std::string;
  return *name;
}

// Of devices in data centres: grids are chosen for them.
int usual_multiprocessors(std::string_view architecture) {
  constexpr std::pair<int, int> kKnown[] = {{80, 108}, {86, 84}, {89, 142}, {90, 132}};
  constexpr int kNewer = 148;
  const int capability = compute_capability(architecture);
  for (const auto& [known, multiprocessors] : kKnown)
    if (capability <= known) return multiprocessors;
  return kNewer;
}

DeviceLimits limits_of(const Target& target) {
  return device_limits(target.architecture, static_cast<int>(target.multiprocessors));
}

// What times of launches depend on, besides the texts.
std::string machine_of(const Target& target) {
  const auto device = nvidia::device_properties(target.device);
  return str(device ? device->name : "", ", ", target.architecture, ", ", target.multiprocessors,
             " multiprocessors, NVRTC ", nvrtc_version());
}

// Whether the library can address a matrix with these strides: one of them is 1, and the other is
// at least the size of that dimension. Rows of an expanded or sliding view overlap.
bool library_addresses(std::span<const Dim> strides, Dim rows, Dim cols) {
  const Dim row = strides[2], col = strides[3];
  if (col == Dim(1) || cols == Dim(1)) return rows == Dim(1) || provably_nonnegative(row - cols);
  return row == Dim(1) && provably_nonnegative(col - rows);
}

// Matmuls without attached kernels use the library if it supports the operands' layouts and if one
// capture can serve all sizes of a gear: the library takes its sizes from the host.
bool library_computes(const problems::Problem& problem, const AttachedKernels& attached,
                      std::span<const Dim> dims, std::int64_t few_rows) {
  namespace at = problems::matmul_dims;
  const auto* p = std::get_if<problems::MatmulProblem>(&problem);
  if (p == nullptr || attached.epilogue != nullptr || !attached.prologues.empty() || p->any_rows)
    return false;
  if (dims[at::m].range().hi <= few_rows) return false;  // bound by memory, and can be merged
  const bool dtypes = p->a == p->b && is_float(p->a) && (p->c == p->a || p->c == DType::f32);
  return problems::only_rows_vary(dims) && dtypes && (p->a != DType::f64 || p->c == DType::f64) &&
         dims[at::batch0] == Dim(1) && dims[at::c_strides + 3] == Dim(1) &&
         library_addresses(dims.subspan(at::a_strides, 4), dims[at::m], dims[at::k]) &&
         library_addresses(dims.subspan(at::b_strides, 4), dims[at::k], dims[at::n]);
}

// The kernels attached to a problem in canonical form, as stored in a Program.
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
    if (const std::string& named = named_architecture(); !named.empty()) {
      target.architecture = named;
      target.multiprocessors = usual_multiprocessors(named);
      return target;
    }
    const int count = nvidia::device_count();
    if (count == 0) {
      target.architecture = kDefaultArchitecture;
      target.multiprocessors = usual_multiprocessors(kDefaultArchitecture);
      return target;
    }
    if (target.device >= count)
      fail(ErrorCode::invalid_argument, "there is no device ", target.text(), "; there are ", count,
           " CUDA devices");
    const auto device = nvidia::device_properties(target.device);
    if (!device)
      fail(ErrorCode::device_error, "the CUDA driver returned no properties of ", target.text());
    target.architecture = str("sm_", device->major, device->minor);
    if (compute_capability(target.architecture) < kOldestCapability)
      fail(ErrorCode::unsupported, target.text(), " (", device->name, ", compute capability ",
           device->major, ".", device->minor, ") is too old: gex needs 8.0 or newer");
    target.multiprocessors = device->multiprocessors;
    return target;
  }

  std::string fingerprint(const Target& target, const CodeOptions&) const override {
    const std::string ring = ring_options_text();
    return str(target.architecture, ", ", target.multiprocessors, " multiprocessors, NVRTC ",
               nvrtc_version(), ring.empty() ? "" : ", ring ", ring);
  }

  // There are no kernels for products of 8-bit integers, transposed convolutions, and many rows
  // times quantised weights. separate-axes is for kernels that use vectors.
  PassSwitches pass_switches() const override {
    return {.disabled = {"integer-products", "quantised-products", "select-transposed-convolutions",
                         "separate-axes"},
            .enabled = {"expand-integer-products", "quantised-products-of-few-rows",
                        "expand-quantised-products"}};
  }

  LaunchPlan plan(const loop::Kernel& kernel, const Target& target) const override {
    return plan_of(emit(kernel, limits_of(target)));
  }

  // Launches with equal texts share a code, so the text is part of a code's identity.
  LaunchPlan plan(const problems::Problem& problem, const AttachedKernels& attached,
                  std::span<const Dim> dims, const Target& target) const override {
    if (library_computes(problem, attached, dims, target.costs.few_rows)) {
      LaunchPlan plan;
      plan.grid = 1;
      plan.algorithm = kLibrary;
      plan.library = true;
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
    auto codes = std::make_shared<const ParsedCodes>(parse_codes(*program));
    const ParsedCodes& parsed = *codes;
    const std::vector<KernelText> texts = texts_of_codes(*program, parsed, target);
    const std::vector<MergedLaunch> merged = generic_merged(*program, parsed, texts, target);
    const std::vector<SuperKernel> persistent = persistent_kernels(*program, parsed, target);
    const std::vector<bool> alone = launched_alone(*program);
    std::vector<Source> sources;
    for (std::size_t k = 0; k < texts.size(); ++k)
      if (alone[k] && !texts[k].source.empty())
        sources.push_back({parsed.codes[k].name, texts[k].source});
    // Equal sources are compiled once.
    std::unordered_map<std::string, std::size_t> source_of_merged;
    for (const MergedLaunch& launch : merged)
      if (source_of_merged.emplace(launch.text.source, sources.size()).second)
        sources.push_back({"merged launches", launch.text.source});
    const std::size_t first_persistent = sources.size();
    for (const SuperKernel& kernel : persistent)
      sources.push_back({"SuperKernel", kernel.text.source, kernel.text.specific});
    sources.push_back({"copy and fill", step_kernels(program::has_control(*program))});
    const std::unique_ptr<ObjectStore> objects =
        options.cache == nullptr ? nullptr : std::make_unique<ObjectStore>(options.cache);
    const auto cubins = compile_cubins(sources, target.architecture, objects.get());
    CompiledCode result;
    std::size_t next = 0;
    for (std::size_t k = 0; k < texts.size(); ++k) {
      program::DeviceCode device;
      device.only_merged = !alone[k] && !texts[k].source.empty();
      if (alone[k] && !texts[k].source.empty()) {
        device.entry = texts[k].name;
        device.waits = texts[k].waits;
        device.image = cubins[next++];
      }
      result.executable.device_codes.push_back(std::move(device));
    }
    for (const MergedLaunch& launch : merged)
      result.executable.merged[launch.first] = {
          .image = cubins[source_of_merged.at(launch.text.source)],
          .entry = launch.text.name,
          .waits = launch.text.waits};
    for (std::size_t k = 0; k < persistent.size(); ++k)
      result.executable.merged[persistent[k].first] = {
          .image = cubins[first_persistent + k],
          .entry = persistent[k].text.name,
          .blocks = static_cast<int>(persistent[k].text.grid.constant()),
          .threads = persistent[k].text.block,
          .shared_bytes = persistent[k].text.shared_bytes.constant()};
    result.executable.step_image = cubins.back();
    std::unique_ptr<Tuner> tuner;
    if (options.autotune) tuner = std::make_unique<Tuner>(options.cache, machine_of(target));
    result.specialiser =
        static_codes(program, std::move(codes), limits_of(target),
                     options.keep_static_code ? options.cache : nullptr, std::move(tuner));
    result.executable.program = std::move(program);
    result.generator = str("nvrtc (", target.architecture, ")");
    return result;
  }

  static std::vector<KernelText> texts_of_codes(const program::Program& program,
                                                const ParsedCodes& parsed, const Target& target) {
    const DeviceLimits limits = limits_of(target);
    std::vector<KernelText> texts;
    for (std::size_t k = 0; k < parsed.codes.size(); ++k)
      texts.push_back(text_of_code(program, parsed, static_cast<int>(k), limits));
    return texts;
  }

 private:
  static LaunchPlan plan_of(const KernelText& text) {
    LaunchPlan plan;
    plan.grid = text.grid;
    plan.scratch_bytes = text.shared_bytes;
    plan.workspace_bytes = text.workspace_bytes;
    plan.block = text.block;
    plan.phase = text.phase && text.cluster == 1 && text.block == 256 &&
                 text.static_bytes <= kMostStaticBytes && text.shared_bytes.is_const();
    plan.exchangeable = text.exchangeable;
    plan.mergeable = text.cluster == 1 && text.block > 1 && text.static_bytes <= kMostStaticBytes;
    return plan;
  }

  // By code: whether some launch of it runs as a separate kernel.
  static std::vector<bool> launched_alone(const program::Program& program) {
    std::vector<bool> alone(program.codes.size(), false);
    for (const program::Launch* launch : separate_launches(program))
      alone[static_cast<std::size_t>(launch->code)] = true;
    return alone;
  }

  static std::vector<MergedLaunch> generic_merged(const program::Program& program,
                                                  const ParsedCodes& parsed,
                                                  const std::vector<KernelText>& texts,
                                                  const Target& target) {
    std::map<std::pair<int, std::vector<bool>>, KernelText> sharing;
    return merged_launches(
        program,
        [&](const program::Launch& launch, const std::vector<bool>& shared) -> const KernelText& {
          if (shared.empty()) return texts[static_cast<std::size_t>(launch.code)];
          const auto found = sharing.find({launch.code, shared});
          if (found != sharing.end()) return found->second;
          KernelText text = text_of_code(program, parsed, launch.code, limits_of(target), shared);
          return sharing.emplace(std::pair(launch.code, shared), std::move(text)).first->second;
        });
  }

  static std::vector<SuperKernel> persistent_kernels(const program::Program& program,
                                                     const ParsedCodes& parsed,
                                                     const Target& target) {
    DeviceLimits limits = limits_of(target);
    limits.persistent = true;
    return super_kernels(program, limits, [&](int code, const std::vector<bool>& exchanged) {
      return text_of_code(program, parsed, code, limits, exchanged);
    });
  }
};

}  // namespace

const Backend& backend() {
  static const auto* instance = new CudaBackend;
  return *instance;
}

void compile_for(const std::string& architecture) {
  if (compute_capability(architecture) < kOldestCapability)
    fail(ErrorCode::invalid_argument, "'", architecture,
         "' is not a GPU architecture that gex supports: use sm_80 or newer, such as sm_90");
  named_architecture() = architecture;
}

std::vector<std::string> texts_of(const program::Program& program) {
  const Target target = backend().describe(parse_target(program.target));
  std::vector<std::string> sources;
  for (KernelText& text : CudaBackend::texts_of_codes(program, parse_codes(program), target))
    sources.push_back(std::move(text.part.empty() ? text.source : text.part));
  return sources;
}

}  // namespace gex::backend::cuda
