#pragma once
// A Kernel flattened for the executor: every Dim and expression is one instruction on numbered
// registers, sorted by the loop in which it runs.

#include <cstdint>
#include <vector>

#include "loop/kernel.hpp"
#include "loop/scalar.hpp"

namespace gex::interp {

struct Instruction {
  enum class Op : std::uint8_t { add, mul, floordiv, mod, min, max, prim, cast, load };
  Op op = Op::add;
  DType dtype = DType::i64;
  DType from = DType::i64;  // cast
  int dst = 0;
  int a = 0, b = 0, c = 0;  // load: a = access number, b = predicate or -1, c = fill
  loop::PrimFn fn = nullptr;
};
using Code = std::vector<Instruction>;

struct Access {
  struct Axis {
    int index, stride, size;  // registers
  };
  int buffer = 0;
  DType dtype = DType::f32;
  std::vector<Axis> axes;
};

struct StoreStep {
  int access = 0;
  int value = 0;
  int pred = -1;
  loop::PrimFn combine = nullptr;  // null: set
  bool shared = false;
};

struct Loop {
  int index = 0, extent = 0;  // registers
  Code setup;                 // computes the extent if it depends on outer loops
};

// What runs at one kind of innermost point: the code of every enclosing loop level (run again only
// when that loop's index has changed), then what reads accumulators, then the stores.
struct Leaf {
  std::vector<Code> levels;
  Code after;
  std::vector<StoreStep> stores;
};

struct StageTape {
  std::vector<Loop> domain, reduce;
  Leaf element;  // at each point of the reduce loops
  Leaf point;    // at each point of the domain, after the reduce loops
  Code combine;
  bool wide = false;  // the fold rounds: it is computed in f64
  struct Slot {
    DType dtype;
    int acc, init, result, temporary;  // registers
    int rounded;                       // acc in its own dtype, after the fold
  };
  std::vector<Slot> slots;
};

struct KernelTape {
  explicit KernelTape(const loop::Kernel& kernel);

  loop::Kernel kernel;
  std::vector<loop::ScalarValue> image;  // initial registers: constants
  std::vector<int> symbols;              // registers of the size symbols
  Code prologue;                         // what depends only on sizes
  std::vector<Loop> grid;
  std::vector<int> local_bytes;  // registers, one for each local
  std::vector<Access> accesses;
  std::vector<StageTape> stages;
};

}  // namespace gex::interp
