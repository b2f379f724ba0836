#pragma once
// Loop skeletons. Each opens a level of the scope for its body.

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/cpu/llvm/scope.hpp"

namespace gex::codegen {

using Carried = std::vector<llvm::Value*>;

// A loop cut into blocks of `size`, a multiple of its step, counted from lo; `between` is emitted
// between two blocks. A masked last vector that stands after the loop belongs to the last block.
struct Blocks {
  std::int64_t size;
  std::function<void()> between;
};

// for (i = lo; i < hi; i += step) body(i). `carried` enters each iteration as the values the one
// before left in it, and leaves with those after the last. A loop known to run once is no loop.
void emit_loop(Scope& scope, llvm::Value* lo, llvm::Value* hi, std::int64_t step, Carried& carried,
               const std::function<void(llvm::Value* i)>& body, const Blocks* blocks = nullptr);

// if (condition) body(), which may change `carried`.
void emit_if(Scope& scope, llvm::Value* condition, Carried& carried,
             const std::function<void()>& body);

// The same with scope.lanes iterations side by side along `index`. The body is emitted with
// scope.mask set where the last lanes lie beyond hi.
enum class Tail {
  separate,  // full vectors without a mask, then one masked body: fastest, twice the code
  merged,    // one body, always masked: for bodies so long that the mask does not count
};
void emit_vector_loop(Scope& scope, Dim index, llvm::Value* lo, llvm::Value* hi, Tail tail,
                      Carried& carried, const std::function<void()>& body,
                      const Blocks* blocks = nullptr);

// The lanes of a vector whose first lane is number `first` that lie in [lo, hi).
llvm::Value* lanes_between(Ir& ir, int lanes, llvm::Value* first, llvm::Value* lo, llvm::Value* hi);

// for each lane that is on in `mask` (null: all), in order. No level of its own: straight code.
void emit_lane_loop(Ir& ir, int lanes, llvm::Value* mask,
                    const std::function<void(llvm::Value* lane)>& body);

}  // namespace gex::codegen
