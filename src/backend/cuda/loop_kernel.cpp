#include "backend/cuda/kernel_text.hpp"

#include <algorithm>

#include "backend/cuda/body_writer.hpp"
#include "backend/cuda/scalar_text.hpp"
#include "base/error.hpp"
#include "loop/walk.hpp"

namespace gex::backend::cuda {

using loop::ExprId;
using loop::Kernel;
using loop::Range;
using loop::Stage;
using loop::Store;

namespace {

constexpr int kElementBlock = 256;       // threads of a block that runs a point in each thread
constexpr int kPointBlock = 256;         // threads of a block that works on one point
constexpr int kWaves = 16;               // blocks for each multiprocessor, at most
constexpr std::int64_t kShortLoop = 64;  // inner loops up to this stay in one thread

enum class Mode { thread_per_point, block_per_point, one_thread };

bool atomic_add_exists(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64;
}

Mode mode_of(const Kernel& kernel) {
  Dim inner = 1;
  bool locals = false, ordered_domain = false;
  for (const loop::Buffer& buffer : kernel.buffers)
    locals = locals || buffer.role == loop::Buffer::Role::local;
  for (const Stage& stage : kernel.stages) {
    Dim points = 1;
    for (const auto* ranges : {&stage.domain, &stage.reduce})
      for (const Range& range : *ranges) points *= range.extent();
    inner = max(inner, points);
    for (const Store& store : stage.stores) {
      const DType dtype = kernel.buffers[at(store.buffer)].dtype;
      const bool needs_order =
          store.shared &&
          (store.ordered || (store.mode != Store::Mode::set &&
                             (store.mode != Store::Mode::add || !atomic_add_exists(dtype))));
      if (needs_order) return Mode::one_thread;
      ordered_domain = ordered_domain || store.ordered;
    }
  }
  if (locals) return Mode::block_per_point;
  // Points that must walk their domain in order leave nothing to spread over a block.
  if (ordered_domain || inner.range().hi <= kShortLoop) return Mode::thread_per_point;
  return Mode::block_per_point;
}

class LoopEmitter : private BodyWriter {
 public:
  LoopEmitter(const Kernel& kernel, const DeviceLimits& limits)
      : BodyWriter(kernel), limits_(limits), mode_(mode_of(kernel)) {}

  KernelText emit() {
    KernelText out;
    out.name = "gex_" + identifier(kernel_.name);
    out.block = mode_ == Mode::one_thread        ? 1
                : mode_ == Mode::block_per_point ? kPointBlock
                                                 : kElementBlock;
    const Dim blocks = mode_ == Mode::one_thread ? Dim(1)
                       : mode_ == Mode::block_per_point
                           ? kernel_.grid_size()
                           : ceildiv(kernel_.grid_size(), kElementBlock);
    out.grid = min(blocks, Dim(limits_.multiprocessors * kWaves));
    out.shared_bytes = kernel_.scratch_bytes();
    for (const Stage& stage : kernel_.stages) reduction_storage(stage);
    body();
    std::ostringstream text;
    text << prelude() << "\nextern \"C\" __global__ void __launch_bounds__(" << out.block << ") "
         << out.name << "(const i64* words) {\n"
         << shared_.str() << text_.str() << "}\n";
    out.source = text.str();
    return out;
  }

 private:
  bool atomic(const Store& s) const override { return s.shared && mode_ != Mode::one_thread; }

  // ---- reductions ----

  void reduction_storage(const Stage& stage) {
    const int number = static_cast<int>(&stage - kernel_.stages.data());
    if (mode_ != Mode::block_per_point || !joins_threads(stage)) return;
    for (std::size_t k = 0; k < stage.reduction->accumulators.size(); ++k)
      shared_ << "  __shared__ " << register_type(stage.reduction->accumulators[k].dtype) << " join"
              << number << "_" << k << "[" << kPointBlock << "];\n";
  }

  static bool joins_threads(const Stage& stage) { return stage.reduction && stage.domain.empty(); }

  // The threads of the block fold shares of the elements and join them in a tree.
  void joined_reduction(const Stage& stage) {
    const std::string prefix = "join" + std::to_string(&stage - kernel_.stages.data()) + "_";
    open("");
    declare_accumulators(stage);
    fold(stage, "threadIdx.x", "blockDim.x");
    const std::size_t count = stage.reduction->accumulators.size();
    const auto save = [&] {
      for (std::size_t k = 0; k < count; ++k)
        line(prefix + std::to_string(k) + "[threadIdx.x] = acc" + std::to_string(k) + ";");
    };
    save();
    line("__syncthreads();");
    open("for (u32 half = blockDim.x / 2; half > 0; half /= 2)");
    open("if (threadIdx.x < half)");
    combine(stage,
            [&](std::size_t k) { return prefix + std::to_string(k) + "[threadIdx.x + half]"; });
    save();
    close();
    line("__syncthreads();");
    close();
    open("if (threadIdx.x == 0)");
    stores(stage, false);
    close();
    close();
  }

  // An inclusive scan: the block takes blockDim elements at a time; within them partial results
  // reach 1, 2, 4 ... elements to the left; `carry` is the state after the elements before.
  void block_scan(const Stage& stage) {
    const std::string prefix = "join" + std::to_string(&stage - kernel_.stages.data()) + "_";
    const std::size_t count = stage.reduction->accumulators.size();
    const Part acc = [](std::size_t k) { return "acc" + std::to_string(k); };
    const Part carry = [](std::size_t k) { return "carry" + std::to_string(k); };
    const auto shared_at = [&](const std::string& index) -> Part {
      return [=](std::size_t k) { return prefix + std::to_string(k) + "[" + index + "]"; };
    };
    const auto save = [&] {
      for (std::size_t k = 0; k < count; ++k)
        line(shared_at("threadIdx.x")(k) + " = " + acc(k) + ";");
      line("__syncthreads();");
    };
    Dim elements = 1;
    for (const Range& range : stage.reduce) elements *= range.extent();
    open("");
    declare_accumulators(stage, "carry");
    open("for (i64 first = 0, all = " + dim(elements) + "; first < all; first += blockDim.x)");
    line("const i64 scanned = first + threadIdx.x;");
    line("const bool active = scanned < all;");
    declare_accumulators(stage);
    open("if (active)");
    split(stage.reduce, "scanned");
    const std::vector<ExprId>& parts = stage.reduction->elements;
    expressions(stage, std::set<ExprId>(parts.begin(), parts.end()));
    for (std::size_t k = 0; k < count; ++k) line(acc(k) + " = e" + std::to_string(parts[k]) + ";");
    close();
    save();
    open("for (u32 reach = 1; reach < blockDim.x; reach *= 2)");
    open("if (threadIdx.x >= reach)");
    combine(stage, shared_at("threadIdx.x - reach"), acc, acc);
    close();
    line("__syncthreads();");
    save();
    close();
    combine(stage, carry, acc, acc);
    open("if (active)");
    split(stage.reduce, "scanned");
    stores(stage, true);
    close();
    line("const u32 last = (u32)(int_min(all - first, blockDim.x) - 1);");
    combine(stage, carry, shared_at("last"), carry);
    line("__syncthreads();");
    close();
    for (std::size_t k = 0; k < count; ++k)
      line("const " + register_type(stage.reduction->accumulators[k].dtype) + " " + acc(k) + " = " +
           carry(k) + ";");
    open("if (threadIdx.x == 0)");
    stores(stage, false);
    close();
    close();
  }

  // ---- kernel ----

  void body() {
    depth_ = 1;
    const int params = kernel_.num_params();
    for (int b = 0; b < params; ++b) {
      const loop::Buffer& buffer = kernel_.buffers[at(b)];
      const std::string type =
          (buffer.role == loop::Buffer::Role::in ? "const " : "") + memory_type(buffer.dtype);
      line(type + "* const b" + std::to_string(b) + " = (" + type + "*)words[" + std::to_string(b) +
           "];");
    }
    const std::vector<Dim> symbols = kernel_.symbols();
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      names_[symbols[i]] = "s" + std::to_string(i);
      line("const i64 s" + std::to_string(i) + " = words[" + std::to_string(at(params) + i) + "];");
    }
    locals(params);
    line("const i64 points = " + dim(kernel_.grid_size()) + ";");
    if (mode_ == Mode::block_per_point) {
      open("for (i64 point = blockIdx.x; point < points; point += gridDim.x)");
    } else {
      open(
          "for (i64 point = blockIdx.x * (i64)blockDim.x + threadIdx.x; point < points; "
          "point += gridDim.x * (i64)blockDim.x)");
    }
    if (!kernel_.grid.empty()) split(kernel_.grid, "point");
    for (const Stage& stage : kernel_.stages) emit_stage(stage);
    close();
  }

  void locals(int params) {
    Dim offset = 0;
    for (std::size_t b = at(params); b < kernel_.buffers.size(); ++b) {
      const loop::Buffer& buffer = kernel_.buffers[b];
      if (b == at(params)) shared_ << "  GEX_DECLARE_LOCALS\n";
      line(memory_type(buffer.dtype) + "* const b" + std::to_string(b) + " = (" +
           memory_type(buffer.dtype) + "*)(gex_locals + " + dim(offset) + ");");
      offset += loop::local_bytes(buffer);
    }
  }

  void emit_stage(const Stage& stage) {
    if (mode_ != Mode::block_per_point) {
      loops(stage.domain, "0", "1", [&] { point(stage); });
      return;
    }
    const bool ordered = std::any_of(stage.stores.begin(), stage.stores.end(),
                                     [](const Store& s) { return s.ordered; });
    const bool scan = stage.reduction && stage.reduction->scan && stage.domain.empty();
    const bool in_order = ordered || (scan && !independent(stage.reduce));
    if (in_order || (stage.domain.empty() && !stage.reduction)) {
      open("if (threadIdx.x == 0)");
      loops(stage.domain, "0", "1", [&] { point(stage); });
      close();
    } else if (scan) {
      block_scan(stage);
    } else if (joins_threads(stage)) {
      joined_reduction(stage);
    } else {
      loops(stage.domain, "threadIdx.x", "blockDim.x", [&] { point(stage); });
    }
    line("__syncthreads();");
  }

  const DeviceLimits& limits_;
  const Mode mode_;
  std::ostringstream shared_;
};

}  // namespace

KernelText emit(const Kernel& kernel, const DeviceLimits& limits) {
  return LoopEmitter(kernel, limits).emit();
}

}  // namespace gex::backend::cuda
