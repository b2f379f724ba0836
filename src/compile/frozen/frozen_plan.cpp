#include "compile/frozen/frozen_plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "backend/backend.hpp"
#include "base/error.hpp"
#include "lower/views.hpp"
#include "program/bytes.hpp"
#include "runtime/device.hpp"
#include "runtime/memory/usage.hpp"
#include "runtime/session/session.hpp"

namespace gex::compile_detail {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr const char* kSection = "frozen";

// Memory with shared ownership, aligned for vector loads.
std::shared_ptr<std::byte> aligned_memory(std::size_t bytes) {
  const std::size_t rounded =
      std::max((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  using enum runtime::MemoryUse;
  runtime::count_allocated(weights, rounded);
  return {static_cast<std::byte*>(memory), [rounded](std::byte* p) {
            std::free(p);
            runtime::count_freed(weights, rounded);
          }};
}

// The same of a device.
std::shared_ptr<std::byte> device_memory(std::shared_ptr<runtime::DeviceContext> context,
                                         std::size_t bytes) {
  void* memory = context->device->allocate(bytes);
  using enum runtime::MemoryUse;
  runtime::count_allocated(weights, bytes);
  return {static_cast<std::byte*>(memory), [context = std::move(context), bytes](std::byte* p) {
            context->device->deallocate(p, bytes);
            runtime::count_freed(weights, bytes);
          }};
}

// Keeps the results of a run.
class KeepingHost final : public runtime::Host {
 public:
  // `device`: whose memory they get; null: host memory.
  KeepingHost(std::size_t outputs, std::shared_ptr<runtime::DeviceContext> device)
      : memory(outputs), device_(std::move(device)) {}
  void* allocate_output(int k, DType dtype, std::span<const std::int64_t> shape,
                        std::span<const std::int64_t> strides) override {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
      last += std::max<std::int64_t>(shape[d] - 1, 0) * strides[d];
    const std::size_t bytes = static_cast<std::size_t>(last + 1) * size_of(dtype);
    std::shared_ptr<std::byte>& made = memory[static_cast<std::size_t>(k)];
    made = device_ == nullptr ? aligned_memory(bytes) : device_memory(device_, bytes);
    return made.get();
  }
  void set_view_output(int, int, std::span<const std::int64_t>, std::span<const std::int64_t>,
                       std::int64_t) override {
    GEX_CHECK(false, "every result must have its own memory");
  }
  void set_output_view_output(int, int, std::span<const std::int64_t>,
                              std::span<const std::int64_t>, std::int64_t) override {
    GEX_CHECK(false, "every result must have its own memory");
  }
  void set_integer_output(int, std::int64_t) override { GEX_CHECK(false, "results are tensors"); }
  void set_external_output(int, std::uint64_t) override { GEX_CHECK(false, "no calls"); }
  void call(const program::Call&, std::span<const runtime::TensorRef>,
            std::span<const std::int64_t>, std::span<const runtime::TensorRef>,
            std::span<CallResult>) override {
    GEX_CHECK(false, "no calls");
  }
  void release(std::uint64_t) override {}

  std::vector<std::shared_ptr<std::byte>> memory;

 private:
  const std::shared_ptr<runtime::DeviceContext> device_;
};

std::vector<std::int64_t> numbers(const std::vector<Dim>& dims) {
  std::vector<std::int64_t> values;
  for (Dim d : dims) values.push_back(d.constant());
  return values;
}

// Runs where the memory is: on the target's device, or on the CPU.
std::vector<std::shared_ptr<std::byte>> evaluate(std::unique_ptr<Graph> graph,
                                                 CompileOptions options) {
  const std::vector<FrozenInput> frozen = std::move(options.frozen);
  if (!options.frozen_on_device) options.target = "cpu";
  options.frozen.clear();
  options.dump_dir.clear();
  std::vector<std::vector<std::int64_t>> dims;
  dims.reserve(2 * frozen.size());
  std::vector<runtime::InputArg> inputs(frozen.size());
  for (std::size_t i = 0; i < frozen.size(); ++i) {
    const Value& value = *graph->inputs()[i];
    dims.push_back(numbers(value.type().shape));
    dims.push_back(numbers(lower::memory_strides(value)));
    inputs[i].tensor.data = const_cast<void*>(frozen[i].memory.get());
    inputs[i].tensor.dtype = value.type().dtype;
    inputs[i].tensor.shape = dims[2 * i];
    inputs[i].tensor.strides = dims[2 * i + 1];
  }
  Signature signature = Signature::of(*graph);
  for (Signature::Output& output : signature.outputs) output.own_memory = true;
  Compiled compiled = compile(std::move(graph), signature, options);
  runtime::SessionOptions session_options;
  session_options.static_code = false;
  std::shared_ptr<runtime::DeviceContext> device;
  if (options.frozen_on_device) device = runtime::open_device(runtime::driver_of(options.target));
  runtime::Session session(compiled.executable, session_options);
  KeepingHost host(compiled.program->outputs.size(), std::move(device));
  session.run(inputs, host);
  return std::move(host.memory);
}

std::shared_ptr<const void> packed(const FrozenSlot::Packing& packing, const void* source,
                                   const backend::Backend& backend) {
  std::shared_ptr<std::byte> memory = aligned_memory(static_cast<std::size_t>(packing.bytes));
  const auto* from = static_cast<const std::byte*>(source) + packing.offset;
  backend.pack(packing.problem, packing.dims, packing.grid, from, memory.get());
  return memory;
}

}  // namespace

std::vector<std::shared_ptr<const void>> bind_frozen(FrozenPlan plan,
                                                     const CompileOptions& options) {
  const backend::Backend& backend = backend::backend_for(parse_target(options.target).kind);
  std::vector<std::shared_ptr<const void>> sources, memory;
  for (const FrozenInput& input : options.frozen) sources.push_back(input.memory);
  if (plan.folded != nullptr)
    for (std::shared_ptr<std::byte>& result : evaluate(std::move(plan.folded), options))
      sources.push_back(std::move(result));
  for (const FrozenSlot& slot : plan.slots) {
    const auto source = static_cast<std::size_t>(slot.source);
    GEX_CHECK(source < (slot.packing ? memory : sources).size(), "frozen memory without a source");
    memory.push_back(slot.packing ? packed(*slot.packing, memory[source].get(), backend)
                                  : sources[source]);
  }
  return memory;
}

void save_frozen(const FrozenPlan& plan, program::Artefact& artefact) {
  program::ByteWriter out;
  out.text(plan.folded == nullptr ? "" : print(*plan.folded));
  out.u64(plan.slots.size());
  for (const FrozenSlot& slot : plan.slots) {
    out.i64(slot.source);
    out.text(slot.packing ? problems::print(slot.packing->problem) : "");
    if (!slot.packing) continue;
    for (std::int64_t number : {slot.packing->offset, slot.packing->bytes, slot.packing->grid})
      out.i64(number);
    out.u64(slot.packing->dims.size());
    for (std::int64_t d : slot.packing->dims) out.i64(d);
  }
  artefact.sections.push_back({kSection, out.take()});
}

FrozenPlan load_frozen(const program::Artefact& artefact) {
  program::ByteReader in(artefact.section(kSection));
  FrozenPlan plan;
  if (const std::string text = in.text(); !text.empty()) {
    plan.folded = parse_graph(text);
    verify(*plan.folded);
  }
  plan.slots.resize(in.count(16));
  for (std::size_t k = 0; k < plan.slots.size(); ++k) {
    FrozenSlot& slot = plan.slots[k];
    const std::int64_t source = in.i64();
    const std::string problem = in.text();
    const std::int64_t sources = static_cast<std::int64_t>(problem.empty() ? INT32_MAX : k);
    if (source < 0 || source >= sources)
      fail(ErrorCode::parse_error, "frozen memory ", k, " has source number ", source);
    slot.source = static_cast<int>(source);
    if (problem.empty()) continue;
    FrozenSlot::Packing packing{problems::parse_problem(problem)};
    packing.offset = in.i64();
    packing.bytes = in.i64();
    packing.grid = in.i64();
    packing.dims.resize(in.count(8));
    for (std::int64_t& d : packing.dims) d = in.i64();
    if (!backend::backend_for(Target::Kind::cpu).has_packing(packing.problem) ||
        packing.offset < 0 || packing.bytes < 0 || packing.grid < 0)
      fail(ErrorCode::parse_error, "frozen memory ", k, " has an invalid packing");
    slot.packing = std::move(packing);
  }
  in.must_end();
  return plan;
}

}  // namespace gex::compile_detail
