#pragma once
// How the memory of a Program's frozen constants is computed from the frozen inputs. Nothing else
// in a compiled program depends on their contents, so a cached program is bound to new memory with
// it.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "compile/compile.hpp"
#include "problems/problem.hpp"
#include "program/artefact.hpp"

namespace gex::compile_detail {

// The contents of one slot of SessionOptions::frozen.
struct FrozenSlot {
  // A copy in the layout that the kernel reads, written by the pack function of `problem`.
  struct Packing {
    problems::Problem problem;
    std::int64_t offset = 0, bytes = 0;  // in the source
    std::vector<std::int64_t> dims;
    std::int64_t grid = 0;
  };
  // Packed: an earlier slot. Else the number of a frozen input, or after those the number of a
  // result of the folded part.
  int source = -1;
  std::optional<Packing> packing;
};

struct FrozenPlan {
  // Computes what depends only on frozen contents from the frozen inputs, in order; or null.
  std::unique_ptr<Graph> folded;
  std::vector<FrozenSlot> slots;
};

// The memory of each slot. The folded part is compiled with `options` and run.
std::vector<std::shared_ptr<const void>> bind_frozen(FrozenPlan plan,
                                                     const CompileOptions& options);

void save_frozen(const FrozenPlan& plan, program::Artefact& artefact);
FrozenPlan load_frozen(const program::Artefact& artefact);  // UserError

}  // namespace gex::compile_detail
