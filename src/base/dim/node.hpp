#pragma once
// Implementation of Dim: the interned node, its construction, and the total order over nodes.
// Private to src/base/dim.

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/dim/dim.hpp"

namespace gex {

struct DimNode {
  Dim::Kind kind = Dim::Kind::constant;
  bool has_division = false;  // a factor of this monomial is a floordiv or mod
  bool has_index = false;     // contains an index symbol
  bool needs_facts = false;   // contains an index or a division, so there are facts to collect
  Hash hash = 0;
  std::int64_t value = 0;  // constant: the value; mul: the coefficient; else 1
  DimRange range;
  std::uint64_t symbol_mask = 0;      // Bloom filter of the symbols it contains
  const DimNode* monomial = nullptr;  // the node without its coefficient; null for sums
  const DimNode* extent = nullptr;    // index symbols
  std::vector<Dim> operands;
  std::vector<Dim> factors;  // of a monomial, so without coefficient; an atom is its own factor
  std::string name;
};

struct DimFactory {
  static Dim wrap(const DimNode* node) { return Dim(node); }
  static Dim constant(std::int64_t value);
  static Dim symbol(std::string_view name, DimRange range, const DimNode* extent);
  // An atom (floordiv, mod, min, max) exactly as given, no rule applied.
  static Dim atom(Dim::Kind kind, Dim a, Dim b);
  // coefficient * product of sorted atoms; exactly as given.
  static Dim mul(std::int64_t coefficient, std::span<const Dim> sorted_atoms);
  // Sorted summands, a non-zero constant first; at least two.
  static Dim add(std::span<const Dim> summands);
};

// The factors of a monomial (a node that is neither constant nor sum and has no coefficient).
inline std::span<const Dim> atoms_of(Dim monomial) { return monomial.node()->factors; }

// <0, 0, >0; by content.
int compare_content(Dim a, Dim b);
// Graded lexicographic: higher degree first. A monomial order, so polynomial division ends.
int compare_monomials(Dim a, Dim b);

// Interval arithmetic that saturates at DimRange::kInf.
DimRange range_add(DimRange a, DimRange b);
DimRange range_mul(DimRange a, DimRange b);
DimRange range_scale(DimRange a, std::int64_t k);
DimRange range_floordiv(DimRange a, DimRange b);
DimRange range_mod(DimRange a, DimRange b);

std::int64_t floor_div(std::int64_t a, std::int64_t b);  // b != 0, result must fit
std::int64_t floor_mod(std::int64_t a, std::int64_t b);

// Per-thread cache of binary operations. Nodes are never freed and operations are pure, so an entry
// never becomes stale.
class OpCache {
 public:
  enum class Op : std::uint8_t { none, add, sub, mul, floordiv, mod, min, max };
  template <class Compute>
  static Dim get(Op op, Dim a, Dim b, Compute compute) {
    std::size_t slot =
        (std::hash<Dim>()(a) * 31 + std::hash<Dim>()(b) * 17 + static_cast<std::size_t>(op)) %
        kSize;
    const Entry& hit = entries_[slot];
    if (hit.op == op && hit.a == a.node() && hit.b == b.node()) return DimFactory::wrap(hit.result);
    Dim result = compute();
    entries_[slot] = {op, a.node(), b.node(), result.node()};
    return result;
  }

 private:
  struct Entry {
    Op op;
    const DimNode* a;
    const DimNode* b;
    const DimNode* result;
  };
  static constexpr std::size_t kSize = 1024;
  static thread_local Entry entries_[kSize];
};

}  // namespace gex
