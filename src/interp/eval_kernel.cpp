#include "interp/eval_kernel.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/error.hpp"
#include "interp/kernel_tape.hpp"

namespace gex::interp {
namespace {

using loop::load_scalar;
using loop::normalise;
using loop::ScalarValue;

// Shared stores of all interpreted kernels use one lock: correct, and fast enough here.
std::mutex& shared_store_lock() {
  static std::mutex lock;
  return lock;
}

// Index arithmetic wraps: an arbitrary loaded value must fail the bounds check, not overflow.
std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t wrapping_mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

class Run {
 public:
  Run(const KernelTape& tape, void* const* buffers, const std::int64_t* dims, std::byte* scratch)
      : tape_(tape), regs_(tape.image) {
    for (std::size_t i = 0; i < tape.symbols.size(); ++i) reg(tape.symbols[i]) = dims[i];
    execute(tape.prologue);
    auto params = static_cast<std::size_t>(tape.kernel.num_params());
    bases_.assign(buffers, buffers + params);
    for (int bytes : tape.local_bytes) {
      bases_.push_back(scratch);
      scratch += reg(bytes);
    }
  }

  void range(std::int64_t begin, std::int64_t end) {
    for (std::int64_t point = begin; point < end; ++point) {
      std::int64_t rest = point;
      for (std::size_t g = tape_.grid.size(); g-- > 0;) {
        const Loop& l = tape_.grid[g];
        reg(l.index) = rest % reg(l.extent);
        rest /= reg(l.extent);
      }
      for (const StageTape& stage : tape_.stages) {
        stage_ = &stage;
        stale_element_ = stale_point_ = 0;
        domain(0);
      }
    }
  }

 private:
  std::int64_t& reg(int r) { return regs_[static_cast<std::size_t>(r)].i; }
  ScalarValue& value(int r) { return regs_[static_cast<std::size_t>(r)]; }

  void changed(std::size_t level) {
    stale_element_ = std::min(stale_element_, level);
    stale_point_ = std::min(stale_point_, level);
  }

  void domain(std::size_t depth) {
    if (depth == stage_->domain.size()) return point();
    const Loop& l = stage_->domain[depth];
    execute(l.setup);
    for (std::int64_t i = 0, n = reg(l.extent); i < n; ++i) {
      reg(l.index) = i;
      changed(depth + 1);
      domain(depth + 1);
    }
  }

  void point() {
    if (!stage_->slots.empty()) {
      for (const auto& s : stage_->slots) value(s.acc) = value(s.init);
      reduce(0);
      if (stage_->wide)
        for (const auto& s : stage_->slots) value(s.rounded) = normalise(s.dtype, value(s.acc));
    }
    refresh(stage_->point, stale_point_);
    execute(stage_->point.after);
    for (const StoreStep& s : stage_->point.stores) store(s);
  }

  void reduce(std::size_t depth) {
    if (depth == stage_->reduce.size()) return element();
    const Loop& l = stage_->reduce[depth];
    execute(l.setup);
    for (std::int64_t i = 0, n = reg(l.extent); i < n; ++i) {
      reg(l.index) = i;
      stale_element_ = std::min(stale_element_, stage_->domain.size() + depth + 1);
      reduce(depth + 1);
    }
  }

  void element() {
    refresh(stage_->element, stale_element_);
    execute(stage_->combine);
    for (const auto& s : stage_->slots) value(s.temporary) = value(s.result);
    for (const auto& s : stage_->slots) value(s.acc) = value(s.temporary);
    if (stage_->element.stores.empty()) return;
    execute(stage_->element.after);
    for (const StoreStep& s : stage_->element.stores) store(s);
  }

  // Runs the levels whose index has changed since the last time, outermost first.
  void refresh(const Leaf& leaf, std::size_t& stale) {
    for (; stale < leaf.levels.size(); ++stale) execute(leaf.levels[stale]);
  }

  void execute(const Code& code) {
    for (const Instruction& in : code) {
      ScalarValue& dst = value(in.dst);
      switch (in.op) {
        case Instruction::Op::add:
          dst.i = wrapping_add(reg(in.a), reg(in.b));
          break;
        case Instruction::Op::mul:
          dst.i = wrapping_mul(reg(in.a), reg(in.b));
          break;
        case Instruction::Op::floordiv:
          dst = int_floordiv_(value(in.a), value(in.b), value(in.b));
          break;
        case Instruction::Op::mod:
          dst = int_mod_(value(in.a), value(in.b), value(in.b));
          break;
        case Instruction::Op::min:
          dst.i = std::min(reg(in.a), reg(in.b));
          break;
        case Instruction::Op::max:
          dst.i = std::max(reg(in.a), reg(in.b));
          break;
        case Instruction::Op::prim:
          dst = normalise(in.dtype, in.fn(value(in.a), value(in.b), value(in.c)));
          break;
        case Instruction::Op::cast:
          dst = convert(value(in.a), in.from, in.dtype);
          break;
        case Instruction::Op::load:
          if (in.b >= 0 && reg(in.b) == 0) {
            dst = value(in.c);
          } else {
            const Access& a = tape_.accesses[static_cast<std::size_t>(in.a)];
            std::int64_t at = offset(a, "load");
            dst = load_scalar(a.dtype, bases_[static_cast<std::size_t>(a.buffer)], at);
          }
          break;
      }
    }
  }

  void store(const StoreStep& s) {
    if (s.pred >= 0 && reg(s.pred) == 0) return;
    const Access& a = tape_.accesses[static_cast<std::size_t>(s.access)];
    std::int64_t at = offset(a, "store");
    void* base = bases_[static_cast<std::size_t>(a.buffer)];
    std::unique_lock<std::mutex> lock;
    if (s.shared) lock = std::unique_lock(shared_store_lock());
    ScalarValue v = value(s.value);
    if (s.combine) v = normalise(a.dtype, s.combine(load_scalar(a.dtype, base, at), v, v));
    store_scalar(a.dtype, base, at, v);
  }

  std::int64_t offset(const Access& a, const char* what) {
    std::int64_t at = 0;
    for (const Access::Axis& axis : a.axes) {
      std::int64_t i = reg(axis.index);
      if (i < 0 || i >= reg(axis.size)) out_of_range(a, what);
      at += i * reg(axis.stride);
    }
    return at;
  }

  [[noreturn]] void out_of_range(const Access& a, const char* what) {
    std::string index, shape;
    for (const Access::Axis& axis : a.axes) {
      index += str(index.empty() ? "" : ", ", reg(axis.index));
      shape += str(shape.empty() ? "" : ", ", reg(axis.size));
    }
    const loop::Buffer& b = tape_.kernel.buffers[static_cast<std::size_t>(a.buffer)];
    auto number = stage_ - tape_.stages.data();
    fail(ErrorCode::invalid_argument, "kernel '", tape_.kernel.name, "', stage ", number, ": ",
         what, " ", b.name, "[", index, "] is outside ", b.dtype, "[", shape, "]");
  }

  const KernelTape& tape_;
  const loop::PrimFn int_mod_ = prim_function(loop::Prim::mod, DType::i64);
  const loop::PrimFn int_floordiv_ = prim_function(loop::Prim::floordiv, DType::i64);
  std::vector<ScalarValue> regs_;
  std::vector<void*> bases_;
  const StageTape* stage_ = nullptr;
  // The outermost level of each leaf whose code must run again.
  std::size_t stale_element_ = 0, stale_point_ = 0;
};

std::int64_t evaluate_dim(Dim d, std::span<const Dim> symbols, std::span<const std::int64_t> dims) {
  return d.eval([&](Dim s) {
    auto at = std::find(symbols.begin(), symbols.end(), s) - symbols.begin();
    return dims[static_cast<std::size_t>(at)];
  });
}

}  // namespace

void eval_kernel(const loop::Kernel& kernel, std::span<void* const> buffers,
                 std::span<const std::int64_t> dims) {
  auto symbols = kernel.symbols();
  auto params = static_cast<std::size_t>(kernel.num_params());
  if (buffers.size() != params || dims.size() != symbols.size())
    fail(ErrorCode::invalid_argument, "kernel '", kernel.name, "' takes ", params, " buffers and ",
         symbols.size(), " sizes, got ", buffers.size(), " and ", dims.size());
  KernelTape tape(kernel);
  std::vector<std::byte> scratch(
      static_cast<std::size_t>(evaluate_dim(kernel.scratch_bytes(), symbols, dims)));
  Run(tape, buffers.data(), dims.data(), scratch.data())
      .range(0, evaluate_dim(kernel.grid_size(), symbols, dims));
}

program::Callable interpreted(const loop::Kernel& kernel) {
  auto tape = std::make_shared<const KernelTape>(kernel);
  program::Callable callable;
  callable.fn = [](const void* context, void* const* buffers, const std::int64_t* dims,
                   std::int64_t begin, std::int64_t end, std::byte* scratch) {
    Run(*static_cast<const KernelTape*>(context), buffers, dims, scratch).range(begin, end);
  };
  callable.context = tape.get();
  callable.owner = tape;
  return callable;
}

}  // namespace gex::interp
