#pragma once
// Loop skeletons. Each opens a scope level for its body.

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/cpu/llvm/scope.hpp"

namespace gex::codegen {

using Carried = std::vector<llvm::Value*>;

// A loop split into blocks of `size`, a multiple of its step, counted from lo; `between` is emitted
// between two blocks. A masked last vector after the loop belongs to the last block.
struct Blocks {
  std::int64_t size;
  std::function<void()> between;
};

// for (i = lo; i < hi; i += step) body(i). `carried` holds the loop-carried values: on entry to an
// iteration those of the previous one, after the loop the final ones. A loop known to run once is
// emitted without a loop.
void emit_loop(Scope& scope, llvm::Value* lo, llvm::Value* hi, std::int64_t step, Carried& carried,
               const std::function<void(llvm::Value* i)>& body, const Blocks* blocks = nullptr);

// if (condition) body(), which may change `carried`.
void emit_if(Scope& scope, llvm::Value* condition, Carried& carried,
             const std::function<void()>& body);

// The same with scope.lanes iterations as vector lanes along `index`. scope.mask is set where the
// last lanes are beyond hi.
enum class Tail {
  separate,  // full vectors without a mask, then one masked body: fastest, twice the code
  merged,    // one body, always masked: for bodies so long that the cost of the mask is negligible
};
void emit_vector_loop(Scope& scope, Dim index, llvm::Value* lo, llvm::Value* hi, Tail tail,
                      Carried& carried, const std::function<void()>& body,
                      const Blocks* blocks = nullptr);

// The mask of lanes, starting with number `first`, that are in [lo, hi).
llvm::Value* lanes_between(Ir& ir, int lanes, llvm::Value* first, llvm::Value* lo, llvm::Value* hi);

// For each lane set in `mask` (null: all), in order, as straight-line code without a scope level.
void emit_lane_loop(Ir& ir, int lanes, llvm::Value* mask,
                    const std::function<void(llvm::Value* lane)>& body);

}  // namespace gex::codegen
