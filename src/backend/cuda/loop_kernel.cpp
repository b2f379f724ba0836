// Loop kernels: loop_mode.hpp describes how grid points are assigned to threads.

#include <algorithm>

#include "backend/cuda/kernel_text.hpp"
#include "backend/cuda/loop_mode.hpp"
#include "backend/cuda/scalar_text.hpp"
#include "backend/cuda/vector_writer.hpp"
#include "base/error.hpp"
#include "loop/walk.hpp"

namespace gex::backend::cuda {

using loop::ExprId;
using loop::Kernel;
using loop::Range;
using loop::Stage;
using loop::Store;

namespace {

constexpr int kWaves = 16;                       // blocks for each multiprocessor, at most
constexpr std::int64_t kShortWarpLoop = 256;     // inner loops up to this stay in one warp
constexpr std::int64_t kWarpLoop = 1024;         // and up to this where there are many points
constexpr int kTeamsEach = 4;                    // points for each multiprocessor: many
constexpr std::int64_t kWarpLocals = 48 * 1024;  // bytes that all warps of a block keep

class LoopEmitter : private VectorWriter {
 public:
  // `symbols`: of the launch, in its order.
  LoopEmitter(const Kernel& kernel, std::vector<Dim> symbols, const DeviceLimits& limits,
              const std::vector<bool>& exchanged)
      : VectorWriter(kernel, exchanged),
        symbols_(std::move(symbols)),
        limits_(limits),
        mode_(mode_of(kernel)),
        inner_(inner_points(kernel)) {
    small_code_ = limits.persistent;
  }

  KernelText emit() {
    KernelText out;
    out.name = "gex_" + identifier(kernel_.name);
    out.block = mode_ == Mode::one_thread ? 1 : kBlock;
    const Dim points = kernel_.grid_size();
    const Dim blocks = mode_ == Mode::one_thread || mode_ == Mode::owners ? Dim(1)
                       : mode_ == Mode::lanes
                           ? ceildiv(points_of(separating_ranges(kernel_)), kBlock)
                       : mode_ == Mode::points  ? ceildiv(points, kBlock)
                       : mode_ == Mode::columns ? ceildiv(points, 32)
                                                : points;
    out.grid = min(blocks, Dim(limits_.multiprocessors * kWaves));
    const Dim locals = kernel_.scratch_bytes();
    out.shared_bytes = 0;
    out.workspace_bytes = 0;
    if (!(locals == Dim(0))) {
      const Dim shared = max(locals, min(locals * Dim(kBlock / 32), Dim(kWarpLocals)));
      const Dim limit(shared_limit());
      out.shared_bytes = min(shared, limit);
      // Locals that do not fit into shared memory lie in the workspace.
      if (locals.range().hi > shared_limit())
        out.workspace_bytes = min(floordiv(locals, limit + 1), Dim(1)) * out.grid * locals;
    }
    has_workspace_ = !(out.workspace_bytes == Dim(0));
    for (const Stage& stage : kernel_.stages) reduction_storage(stage);
    body();
    std::ostringstream text;
    text << "GEX_FN void run(const i64* words, Blocks block) {\n"
         << shared_.str()
         << (limits_.dependent_launch && !limits_.persistent ? "  wait_for_inputs();\n" : "")
         << text_.str() << "}\n";
    out.part = text.str();
    out.waits = limits_.dependent_launch;
    out.static_bytes = static_bytes_;
    out.phase = mode_ != Mode::one_thread && !has_workspace_ && symbols_.empty();
    out.exchangeable = exchangeable_params(kernel_);
    out.words = kernel_.num_params() + (has_workspace_ ? 1 : 0) + static_cast<int>(symbols_.size());
    finish_source(out);
    return out;
  }

 private:
  std::int64_t shared_limit() const { return limits_.shared_bytes - 16 * 1024; }

  bool atomic(const Store& s) const override {
    return s.shared && mode_ != Mode::one_thread && mode_ != Mode::lanes && mode_ != Mode::owners;
  }

  // ---- reductions ----

  std::string join_name(const Stage& stage, std::size_t k) const {
    return "join" + std::to_string(&stage - kernel_.stages.data()) + "_" + std::to_string(k);
  }

  static bool joins_threads(const Stage& stage) { return stage.reduction && stage.domain.empty(); }

  void declare_shared(const std::string& type, const std::string& name, int count) {
    shared_ << "  __shared__ " << type << " " << name << "[" << count << "];\n";
    static_bytes_ += std::int64_t{8} * count;  // no type is larger
  }

  void reduction_storage(const Stage& stage) {
    if ((mode_ != Mode::teams && mode_ != Mode::columns) || !joins_threads(stage)) return;
    const bool all = stage.reduction->scan || mode_ == Mode::columns;
    for (std::size_t k = 0; k < stage.reduction->accumulators.size(); ++k)
      declare_shared(register_type(stage.reduction->accumulators[k].dtype), join_name(stage, k),
                     all ? kBlock : kBlock / 32);
  }

  Part joined_at(const Stage& stage, const std::string& index) const {
    return [this, &stage, index](std::size_t k) { return join_name(stage, k) + "[" + index + "]"; };
  }
  static std::string acc(std::size_t k) { return "acc" + std::to_string(k); }
  static std::string carry(std::size_t k) { return "carry" + std::to_string(k); }

  void save_accumulators(const Stage& stage, const std::string& index) {
    for (std::size_t k = 0; k < stage.reduction->accumulators.size(); ++k)
      line(joined_at(stage, index)(k) + " = " + acc(k) + ";");
  }

  void team_sync() { line("if (team > 32) __syncthreads(); else __syncwarp();"); }

  // Each thread of a team reduces a part of the elements, then the results are combined within
  // warps, then across the team.
  void joined_reduction(const Stage& stage) {
    const std::size_t count = stage.reduction->accumulators.size();
    open("");
    declare_accumulators(stage);
    vector_fold(stage, "lane", "team");
    line("#pragma unroll");
    open("for (int lanes = 16; lanes > 0; lanes /= 2)");
    combine(stage, [](std::size_t k) { return "from_lane_below(" + acc(k) + ", lanes)"; });
    close();
    open("if (team > 32)");
    open("if (lane % 32 == 0)");
    save_accumulators(stage, "lane / 32");
    close();
    line("__syncthreads();");
    for (std::size_t k = 0; k < count; ++k) line(acc(k) + " = " + joined_at(stage, "0")(k) + ";");
    open("for (int warp = 1; warp < " + std::to_string(kBlock / 32) + "; ++warp)");
    combine(stage, joined_at(stage, "warp"));
    close();
    close();
    open("if (lane == 0)");
    stores(stage, false);
    close();
    close();
  }

  // As fold(), with vector loads.
  void vector_fold(const Stage& stage, const std::string& start, const std::string& step) {
    const std::vector<ExprId>& elements = stage.reduction->elements;
    vector_loops(stage, stage.reduce, start, step, [&] {
      stores(stage, true, std::set<ExprId>(elements.begin(), elements.end()));
      combine(stage, [&](std::size_t k) { return "e" + std::to_string(elements[k]); });
    });
  }

  // An inclusive scan, blockDim elements at a time: within these, each thread combines with the
  // results 1, 2, 4, ... elements to the left (Hillis-Steele); `carry` is the state after all
  // earlier elements.
  void block_scan(const Stage& stage) {
    const std::size_t count = stage.reduction->accumulators.size();
    open("");
    declare_accumulators(stage, "carry");
    open("for (i64 first = 0, all = " + dim(points_of(stage.reduce)) +
         "; first < all; first += blockDim.x)");
    line("const i64 scanned = first + threadIdx.x;");
    line("const bool active = scanned < all;");
    declare_accumulators(stage);
    open("if (active)");
    split(stage.reduce, "scanned");
    const std::vector<ExprId>& parts = stage.reduction->elements;
    expressions(stage, std::set<ExprId>(parts.begin(), parts.end()));
    for (std::size_t k = 0; k < count; ++k) line(acc(k) + " = e" + std::to_string(parts[k]) + ";");
    close();
    save_accumulators(stage, "threadIdx.x");
    line("__syncthreads();");
    open("for (u32 reach = 1; reach < blockDim.x; reach *= 2)");
    open("if (threadIdx.x >= reach)");
    combine(stage, joined_at(stage, "threadIdx.x - reach"), acc, acc);
    close();
    line("__syncthreads();");
    save_accumulators(stage, "threadIdx.x");
    line("__syncthreads();");
    close();
    combine(stage, carry, acc, acc);
    open("if (active)");
    split(stage.reduce, "scanned");
    stores(stage, true);
    close();
    line("const u32 last = (u32)(int_min(all - first, blockDim.x) - 1);");
    combine(stage, carry, joined_at(stage, "last"), carry);
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
      line(pointer_type(b) + " const b" + std::to_string(b) + " = " +
           pointer(b, "words[" + std::to_string(b) + "]") + ";");
    }
    const int first_dim = params + (has_workspace_ ? 1 : 0);
    for (std::size_t i = 0; i < symbols_.size(); ++i) {
      names_[symbols_[i]] = "s" + std::to_string(i);
      line("const i64 s" + std::to_string(i) + " = " +
           (limits_.values.empty() ? "words[" + std::to_string(at(first_dim) + i) + "]"
                                   : std::to_string(limits_.values[i]) + "ll") +
           ";");
    }
    line("const i64 points = " + dim(kernel_.grid_size()) + ";");
    if (mode_ == Mode::teams) return teams(params);
    if (mode_ == Mode::columns) return columns();
    if (mode_ == Mode::lanes) return lanes();
    if (mode_ == Mode::owners) return owners();
    const std::string first = "block.index * (i64)blockDim.x + threadIdx.x";
    const std::string step = "block.count * (i64)blockDim.x";
    const Stage& only = kernel_.stages.front();
    if (kernel_.stages.size() == 1 && !only.reduction && only.domain.empty() &&
        !kernel_.grid.empty() && mode_ == Mode::points)
      return vector_loops(only, kernel_.grid, first, step, [&] { stores(only, false); });
    open("for (i64 point = " + first + "; point < points; point += " + step + ")");
    if (!kernel_.grid.empty()) split(kernel_.grid, "point");
    for (const Stage& stage : kernel_.stages) loops(stage.domain, "0", "1", [&] { point(stage); });
    close();
  }

  void columns() {
    const Stage& stage = kernel_.stages.front();
    const int parts = kBlock / 32;
    line("const int column = threadIdx.x % 32, part = threadIdx.x / 32;");
    open("for (i64 first = block.index * 32ll; first < points; first += block.count * 32ll)");
    line("const i64 point = int_min(first + column, points - 1);");
    split(kernel_.grid, "point");
    declare_accumulators(stage);
    fold(stage, "part", std::to_string(parts));
    save_accumulators(stage, "threadIdx.x");
    line("__syncthreads();");
    open("if (part == 0 && first + column < points)");
    open("for (int other = 1; other < " + std::to_string(parts) + "; ++other)");
    combine(stage, joined_at(stage, "other * 32 + column"));
    close();
    stores(stage, false);
    close();
    line("__syncthreads();");
    close();
  }

  // One thread for each value of the separating indices; it runs the other indices in order.
  void lanes() {
    const std::vector<Range> parallel = separating_ranges(kernel_);
    std::vector<Range> in_order;
    for (const Range& range : kernel_.grid)
      if (std::find(parallel.begin(), parallel.end(), range) == parallel.end())
        in_order.push_back(range);
    open("for (i64 lane = block.index * (i64)blockDim.x + threadIdx.x, lanes = " +
         dim(points_of(parallel)) + "; lane < lanes; lane += block.count * (i64)blockDim.x)");
    split(parallel, "lane");
    loops(in_order, "0", "1", [&] {
      for (const Stage& stage : kernel_.stages)
        loops(stage.domain, "0", "1", [&] { point(stage); });
    });
    close();
  }

  // The block computes blockDim points, one per thread; then each thread executes, in order, the
  // stores to the addresses that it owns.
  void owners() {
    const Stage& stage = kernel_.stages.front();
    std::vector<const Store*> ordered;
    for (const Store& s : stage.stores)
      if (needs_order(kernel_, s)) ordered.push_back(&s);
    for (std::size_t k = 0; k < ordered.size(); ++k) {
      declare_shared("i64", str("place", k), kBlock);
      declare_shared(register_type(stage.exprs[at(ordered[k]->value)].dtype), str("value", k),
                     kBlock);
    }
    open("for (i64 first = 0; first < points; first += blockDim.x)");
    line("const i64 point = first + threadIdx.x;");
    for (std::size_t k = 0; k < ordered.size(); ++k)
      line("place" + std::to_string(k) + "[threadIdx.x] = -1;");
    open("if (point < points)");
    if (!kernel_.grid.empty()) split(kernel_.grid, "point");
    deferred_ = &ordered;
    stores(stage, false);
    deferred_ = nullptr;
    close();
    line("__syncthreads();");
    open("for (u32 t = 0; t < blockDim.x; ++t)");
    for (std::size_t k = 0; k < ordered.size(); ++k) {
      const std::string place = "place" + std::to_string(k) + "[t]";
      open("if (" + place + " >= 0 && (u64)" + place + " % blockDim.x == threadIdx.x)");
      update(*ordered[k], "b" + std::to_string(ordered[k]->buffer) + "[" + place + "]",
             "value" + std::to_string(k) + "[t]");
      close();
    }
    close();
    line("__syncthreads();");
    close();
  }

  void store(const Store& s) override {
    const auto found = deferred_ == nullptr ? std::vector<const Store*>::const_iterator()
                                            : std::find(deferred_->begin(), deferred_->end(), &s);
    if (deferred_ == nullptr || found == deferred_->end()) return VectorWriter::store(s);
    const std::string k = std::to_string(found - deferred_->begin());
    if (s.pred != loop::kNoExpr) open("if (e" + std::to_string(s.pred) + ")");
    line("place" + k + "[threadIdx.x] = " +
         dim(loop::linear_offset(kernel_.buffers[at(s.buffer)], s.index)) + ";");
    line("value" + k + "[threadIdx.x] = e" + std::to_string(s.value) + ";");
    if (s.pred != loop::kNoExpr) close();
  }

  // Whether a stage needs the whole block.
  bool needs_block() const {
    return std::any_of(kernel_.stages.begin(), kernel_.stages.end(), [](const Stage& stage) {
      return stage.reduction && stage.reduction->scan && stage.domain.empty();
    });
  }

  void teams(int params) {
    const Dim locals = kernel_.scratch_bytes();
    const bool has_locals = !(locals == Dim(0));
    line("const i64 local_bytes = " + dim(locals) + ";");
    line(needs_block() ? "const int team = " + std::to_string(kBlock) + ";"
                       : "const int team = " + dim(inner_) + " <= (points < " +
                             std::to_string(limits_.multiprocessors * kTeamsEach) + " ? " +
                             std::to_string(kShortWarpLoop) + " : " + std::to_string(kWarpLoop) +
                             ") && local_bytes * " + std::to_string(kBlock / 32) +
                             " <= " + std::to_string(kWarpLocals) +
                             " ? 32 : " + std::to_string(kBlock) + ";");
    line("const int lane = (int)threadIdx.x % team, team_number = (int)threadIdx.x / team;");
    line("const i64 teams = " + std::to_string(kBlock) + " / team;");
    if (has_locals) {
      shared_ << "  GEX_DECLARE_LOCALS\n";
      line("unsigned char* const memory = " +
           (has_workspace_
                ? "local_bytes > " + std::to_string(shared_limit()) + " ? (unsigned char*)words[" +
                      std::to_string(params) + "] + block.index * local_bytes : "
                : std::string()) +
           "gex_locals + team_number * local_bytes;");
    }
    Dim offset = 0;
    for (std::size_t b = at(params); b < kernel_.buffers.size(); ++b) {
      const loop::Buffer& buffer = kernel_.buffers[b];
      line(memory_type(buffer.dtype) + "* const b" + std::to_string(b) + " = (" +
           memory_type(buffer.dtype) + "*)(memory + " + dim(offset) + ");");
      offset += loop::local_bytes(buffer);
    }
    open(
        "for (i64 point = block.index * teams + team_number; point < points; point += block.count "
        "* "
        "teams)");
    if (!kernel_.grid.empty()) split(kernel_.grid, "point");
    for (const Stage& stage : kernel_.stages) emit_stage(stage);
    close();
  }

  void emit_stage(const Stage& stage) {
    const bool ordered = std::any_of(stage.stores.begin(), stage.stores.end(),
                                     [](const Store& s) { return s.ordered; });
    const bool scan = stage.reduction && stage.reduction->scan && stage.domain.empty();
    const bool in_order = ordered || (scan && !independent(stage.reduce));
    if (in_order || (stage.domain.empty() && !stage.reduction)) {
      open("if (lane == 0)");
      loops(stage.domain, "0", "1", [&] { point(stage); });
      close();
    } else if (scan) {
      block_scan(stage);
    } else if (joins_threads(stage)) {
      joined_reduction(stage);
    } else if (stage.reduction) {
      loops(stage.domain, "lane", "team", [&] { point(stage); });
    } else {
      vector_loops(stage, stage.domain, "lane", "team", [&] { stores(stage, false); });
    }
    team_sync();
  }

  const std::vector<Dim> symbols_;
  const DeviceLimits& limits_;
  const Mode mode_;
  const Dim inner_;
  bool has_workspace_ = false;
  const std::vector<const Store*>* deferred_ =
      nullptr;  // stores deferred to the thread that owns the address
  std::ostringstream shared_;
  std::int64_t static_bytes_ = 0;
};

}  // namespace

KernelText emit(const Kernel& kernel, const DeviceLimits& limits,
                const std::vector<bool>& exchanged) {
  const Kernel flat = with_flat_grid(kernel);
  return LoopEmitter(flat, kernel.symbols(), limits, exchanged).emit();
}

}  // namespace gex::backend::cuda
