#include "backend/cuda/cuda_backend.hpp"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "backend/cuda/kernel_text.hpp"
#include "backend/cuda/merged_launches.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "backend/cuda/ring_kernel_text.hpp"
#include "backend/cuda/step_kernels.hpp"
#include "backend/cuda/super_kernels.hpp"
#include "backend/parsed_codes.hpp"
#include "base/digest.hpp"
#include "base/error.hpp"
#include "cache/object_store.hpp"
#include "loop/kernel.hpp"
#include "nvidia/device.hpp"
#include "problems/matmul_sizes.hpp"

namespace gex::backend::cuda {

namespace {

constexpr const char* kLibrary = "cublas";
// The architecture that code is compiled for if there is no device to query.
constexpr const char* kDefaultArchitecture = "sm_90";

std::string& named_architecture() {
  static auto* name = new std::string;
  return *name;
}

// "sm_90" -> 90; 0 for names of another form.
int compute_capability(std::string_view architecture) {
  int number = 0;
  constexpr std::string_view kPrefix = "sm_";
  if (architecture.starts_with(kPrefix))
    std::from_chars(architecture.data() + kPrefix.size(), architecture.data() + architecture.size(),
                    number);
  return number;
}

// Of devices in data centres: grids are chosen for them.
int usual_multiprocessors(std::string_view architecture) {
  constexpr std::pair<int, int> kKnown[] = {{70, 80}, {80, 108}, {86, 84}, {89, 142}, {90, 132}};
  constexpr int kNewer = 148;
  const int capability = compute_capability(architecture);
  for (const auto& [known, multiprocessors] : kKnown)
    if (capability <= known) return multiprocessors;
  return kNewer;
}

DeviceLimits limits_of(const Target& target) {
  DeviceLimits limits;
  limits.multiprocessors = static_cast<int>(target.multiprocessors);
  limits.architecture = target.architecture;
  limits.dependent_launch = compute_capability(target.architecture) >= 90;
  return limits;
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
    target.multiprocessors = device->multiprocessors;
    return target;
  }

  std::string fingerprint(const Target& target, const CodeOptions&) const override {
    const std::string ring = ring_options_text();
    return str(target.architecture, ", ", target.multiprocessors, " multiprocessors, NVRTC ",
               nvrtc_version(), ring.empty() ? "" : ", ring ", ring);
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
    const ParsedCodes parsed = parse_codes(*program);
    const std::vector<KernelText> texts = texts_of_codes(*program, parsed, target);
    const std::vector<MergedLaunch> merged =
        merged_launches(*program, texts, [&](int code, const std::vector<bool>& shared) {
          return text_of(*program, parsed, code, limits_of(target), shared);
        });
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
    sources.push_back({"copy and fill", kStepKernels});
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
    result.executable.program = std::move(program);
    result.generator = str("nvrtc (", target.architecture, ")");
    return result;
  }

  static std::vector<KernelText> texts_of_codes(const program::Program& program,
                                                const ParsedCodes& parsed, const Target& target) {
    const DeviceLimits limits = limits_of(target);
    std::vector<KernelText> texts;
    for (std::size_t k = 0; k < parsed.codes.size(); ++k)
      texts.push_back(parsed.codes[k].algorithm == kLibrary
                          ? KernelText{}
                          : text_of(program, parsed, static_cast<int>(k), limits));
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
    for (const program::Segment& segment : program.segments) {
      for (std::size_t i = 0; i < segment.steps.size(); ++i) {
        const auto* launch = std::get_if<program::Launch>(&segment.steps[i].op);
        if (launch == nullptr || launch->with_previous || launch->phase >= 0) continue;
        const auto* next = i + 1 < segment.steps.size()
                               ? std::get_if<program::Launch>(&segment.steps[i + 1].op)
                               : nullptr;
        if (next == nullptr || !next->with_previous)
          alone[static_cast<std::size_t>(launch->code)] = true;
      }
    }
    return alone;
  }

  static std::vector<SuperKernel> persistent_kernels(const program::Program& program,
                                                     const ParsedCodes& parsed,
                                                     const Target& target) {
    DeviceLimits limits = limits_of(target);
    limits.persistent = true;
    return super_kernels(program, limits, [&](int code, const std::vector<bool>& exchanged) {
      return text_of(program, parsed, code, limits, exchanged);
    });
  }

  // All launches of a code have the same text, so the dims can be taken from any of them.
  static const program::Launch& launch_of(const program::Program& program, int code) {
    for (const program::Segment& segment : program.segments)
      for (const program::Step& step : segment.steps)
        if (const auto* launch = std::get_if<program::Launch>(&step.op); launch != nullptr)
          if (launch->code == code) return *launch;
    GEX_CHECK(false, "code ", code, " is not launched");
  }

  // Whether no step writes the memory that the launches of a matmul read as their right operand.
  static bool reads_constant_right(const program::Program& program, int code) {
    std::unordered_set<program::BufferId> right, written;
    for (const program::Segment& segment : program.segments) {
      for (const program::Step& step : segment.steps) {
        const auto* launch = std::get_if<program::Launch>(&step.op);
        if (launch != nullptr && launch->code == code && launch->buffers.size() > 1)
          right.insert(program::root_of(program, launch->buffers[1]));
        for (program::BufferId id : program::writes_of(step))
          written.insert(program::root_of(program, id));
      }
    }
    return std::none_of(right.begin(), right.end(), [&](program::BufferId root) {
      using Kind = program::BufferDesc::Kind;
      const Kind kind = program.buffers[static_cast<std::size_t>(root)].kind;
      return written.contains(root) || (kind != Kind::input && kind != Kind::constant);
    });
  }

  static KernelText text_of(const program::Program& program, const ParsedCodes& parsed, int number,
                            const DeviceLimits& limits, const std::vector<bool>& exchanged = {}) {
    const ParsedCode& code = parsed.codes[static_cast<std::size_t>(number)];
    const auto kernel = [&](int k) { return &parsed.kernels[static_cast<std::size_t>(k)]; };
    if (!code.problem) return emit(*kernel(code.kernel), limits, exchanged);
    AttachedKernels attached;
    attached.exchanged = exchanged;
    if (code.kernel >= 0) {
      attached.epilogue = kernel(code.kernel);
      attached.extra_buffers = code.extra_buffers;
      attached.epilogue_dims_begin = problems::dims_count(*code.problem);
    }
    for (const program::Code::Prologue& prologue : code.prologues)
      attached.prologues.push_back({kernel(prologue.kernel), prologue.operand,
                                    prologue.first_buffer, prologue.input_buffers,
                                    prologue.dims_begin});
    attached.constant_right = reads_constant_right(program, number);
    return emit(*code.problem, attached, launch_of(program, number).dims, limits);
  }
};

}  // namespace

const Backend& backend() {
  static const auto* instance = new CudaBackend;
  return *instance;
}

void compile_for(const std::string& architecture) {
  if (compute_capability(architecture) < 70)
    fail(ErrorCode::invalid_argument, "'", architecture,
         "' is no GPU architecture that gex supports: use sm_70 or newer, such as sm_90");
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
