// Transformations of kernels: merging of loops and substitution of sizes.

#include <algorithm>
#include <unordered_map>

#include "backend/cpu/llvm/plan.hpp"

namespace gex::codegen {

using loop::Expr;
using loop::Kernel;
using loop::Range;
using loop::Stage;
using loop::Store;

namespace {

using Replacements = std::unordered_map<Dim, Dim>;

Dim replaced(Dim d, const Replacements& map) {
  return d.substitute([&](Dim s) -> std::optional<Dim> {
    auto at = map.find(s);
    return at == map.end() ? std::nullopt : std::optional<Dim>(at->second);
  });
}

void replace_in(Stage& stage, const Replacements& map) {
  for (Expr& e : stage.exprs) {
    e.dim = replaced(e.dim, map);
    for (Dim& d : e.index) d = replaced(d, map);
  }
  for (Store& s : stage.stores)
    for (Dim& d : s.index) d = replaced(d, map);
}

// Whether e depends on (outer, inner) only through outer*extent(inner) + inner.
bool walks_as_one(Dim e, Dim outer, Dim inner) {
  auto by_outer = affine_in(e, outer);
  if (!by_outer || by_outer->coefficient.depends_on(inner)) return false;
  auto by_inner = affine_in(by_outer->rest, inner);
  if (!by_inner) return false;
  return provably_eq(by_outer->coefficient, by_inner->coefficient * *inner.extent());
}

bool stage_walks_as_one(const Kernel& kernel, const Stage& stage, Dim outer, Dim inner) {
  auto fits = [&](int buffer, const std::vector<Dim>& index) {
    return walks_as_one(
        loop::linear_offset(kernel.buffers[static_cast<std::size_t>(buffer)], index), outer, inner);
  };
  for (const Expr& e : stage.exprs) {
    if (e.kind == Expr::Kind::index && !walks_as_one(e.dim, outer, inner)) return false;
    if (e.kind == Expr::Kind::load && !fits(e.buffer, e.index)) return false;
  }
  for (const Store& s : stage.stores)
    if (!fits(s.buffer, s.index)) return false;
  for (const auto* loops : {&stage.domain, &stage.reduce})
    for (const Range& r : *loops)
      if (r.extent().depends_on(outer) || r.extent().depends_on(inner)) return false;
  return true;
}

bool is_affine(Dim e, Dim outer, Dim inner) {
  auto by_outer = affine_in(e, outer);
  return by_outer && !by_outer->coefficient.depends_on(inner) && affine_in(by_outer->rest, inner);
}

// Two loops that became one.
struct MergedPair {
  Dim outer, inner, merged;

  void replace_in_index(std::vector<Dim>& index) const {
    // The inner index may grow beyond its extent where only multiples of both are added. Quotients
    // and remainders need the two indices themselves, even if the offset as a whole does not.
    const bool plain =
        std::ranges::all_of(index, [&](Dim d) { return is_affine(d, outer, inner); });
    const Dim extent = *inner.extent();
    const Replacements map =
        plain ? whole()
              : Replacements{{outer, floordiv(merged, extent)}, {inner, mod(merged, extent)}};
    for (Dim& d : index) d = replaced(d, map);
  }

  void replace_in(Stage& stage) const {
    for (Expr& e : stage.exprs) {
      e.dim = replaced(e.dim, whole());
      replace_in_index(e.index);
    }
    for (Store& s : stage.stores) replace_in_index(s.index);
  }

 private:
  Replacements whole() const { return {{outer, Dim(0)}, {inner, merged}}; }
};

// Merges loops[at] and loops[at + 1].
MergedPair merge_pair(std::vector<Range>& loops, std::size_t at) {
  Dim outer = loops[at].index, inner = loops[at + 1].index;
  Dim merged = Dim::index(inner.name(), *outer.extent() * *inner.extent());
  loops[at] = Range{merged};
  loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  return {outer, inner, merged};
}

void merge_grid(Kernel& kernel) {
  for (std::size_t at = kernel.grid.size(); at-- > 1;) {
    Dim outer = kernel.grid[at - 1].index, inner = kernel.grid[at].index;
    bool fits = true;
    for (const Stage& s : kernel.stages) fits = fits && stage_walks_as_one(kernel, s, outer, inner);
    if (!fits) continue;
    const MergedPair pair = merge_pair(kernel.grid, at - 1);
    for (Stage& s : kernel.stages) pair.replace_in(s);
  }
}

void merge_stage_loops(const Kernel& kernel, Stage& stage, std::vector<Range>& loops) {
  for (std::size_t at = loops.size(); at-- > 1;) {
    if (!stage_walks_as_one(kernel, stage, loops[at - 1].index, loops[at].index)) continue;
    merge_pair(loops, at - 1).replace_in(stage);
  }
}

// Removes loops of one iteration.
Replacements drop_units(std::vector<Range>& loops) {
  Replacements map;
  std::erase_if(loops, [&](const Range& r) {
    if (r.extent() != Dim(1)) return false;
    map.emplace(r.index, Dim(0));
    return true;
  });
  return map;
}

// Along an axis without a stride all elements are one: loads don't depend on its index, and run
// outside of its loop. Nothing may be read of a buffer without elements, whose loops are not run.
void read_repeats_once(Kernel& kernel) {
  for (Stage& stage : kernel.stages)
    for (Expr& e : stage.exprs) {
      if (e.kind != Expr::Kind::load) continue;
      const loop::Buffer& buffer = kernel.buffers[static_cast<std::size_t>(e.buffer)];
      if (std::ranges::any_of(buffer.shape, [](Dim n) { return n.range().lo < 1; })) continue;
      for (std::size_t d = 0; d < buffer.strides.size(); ++d)
        if (buffer.strides[d] == Dim(0)) e.index[d] = Dim(0);
    }
}

// Loop index symbols include their extents, so they change when a size in the extent becomes known.
void specialise_loops(std::vector<Range>& loops, Replacements& map) {
  for (Range& r : loops) {
    Dim fresh = Dim::index(r.name(), replaced(r.extent(), map));
    map.insert_or_assign(r.index, fresh);
    r.index = fresh;
  }
}

}  // namespace

Kernel drop_dead_stores(const Kernel& kernel) {
  Kernel result = kernel;
  for (bool changed = true; changed;) {
    std::vector<bool> read(kernel.buffers.size());
    for (const Stage& stage : result.stages)
      for (const Expr& e : stage.exprs)
        if (e.kind == Expr::Kind::load) read[static_cast<std::size_t>(e.buffer)] = true;
    changed = false;
    for (Stage& stage : result.stages) {
      changed |= 0 < std::erase_if(stage.stores, [&](const Store& s) {
                   auto b = static_cast<std::size_t>(s.buffer);
                   return kernel.buffers[b].role == loop::Buffer::Role::local && !read[b];
                 });
    }
    std::erase_if(result.stages, [](const Stage& stage) { return stage.stores.empty(); });
  }
  return result;
}

Kernel merge_loops(const Kernel& kernel) {
  Kernel result = kernel;
  read_repeats_once(result);
  Replacements units = drop_units(result.grid);
  for (Stage& stage : result.stages) {
    Replacements map = drop_units(stage.domain);
    map.insert(units.begin(), units.end());
    if (!map.empty()) replace_in(stage, map);
  }
  merge_grid(result);
  for (Stage& stage : result.stages) {
    merge_stage_loops(result, stage, stage.domain);
    merge_stage_loops(result, stage, stage.reduce);
  }
  return result;
}

Kernel specialise(const Kernel& kernel,
                  const std::vector<std::pair<Dim, std::int64_t>>& constants) {
  Kernel result = kernel;
  if (constants.empty()) return result;
  Replacements map;
  for (const auto& [symbol, value] : constants) map.emplace(symbol, Dim(value));
  for (auto& buffer : result.buffers) {
    for (Dim& d : buffer.shape) d = replaced(d, map);
    for (Dim& d : buffer.strides) d = replaced(d, map);
  }
  specialise_loops(result.grid, map);
  for (Stage& stage : result.stages) {
    Replacements local = map;
    specialise_loops(stage.domain, local);
    specialise_loops(stage.reduce, local);
    replace_in(stage, local);
  }
  return result;
}

}  // namespace gex::codegen
