#pragma once
// Dim: an exact size or index: a number, a symbol, or an expression over symbols, in canonical form
// and interned, so that handles are equal if and only if the canonical expressions are.
//
// Canonical form: a sum  c0 + c1*t1 + c2*t2 + ...  with integer coefficients over sorted terms; a
// term is a product of sorted atoms; an atom is a symbol, floordiv(a,b), mod(a,b), min(a,b) or
// max(a,b) that no rule could remove. Division and remainder are Python's (towards minus infinity).
//
// Two uses: tensor sizes (symbols such as s0 with a constant range, from the user's model) and loop
// indices (symbols made by Dim::index, 0 <= i < extent where the extent is itself a Dim). The
// second kind lets (i*s1 + j)//s1 become i when j's extent is s1: reshapes disappear from index
// maps.
//
// Interning is thread-safe; nodes live as long as the process.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.hpp"

namespace gex {

struct DimNode;  // interned; defined in node.hpp

struct DimRange {
  static constexpr std::int64_t kInf = std::numeric_limits<std::int64_t>::max() / 4;
  std::int64_t lo = -kInf;
  std::int64_t hi = kInf;  // inclusive
  bool operator==(const DimRange&) const = default;
};

class Dim {
 public:
  enum class Kind : std::uint8_t { constant, symbol, add, mul, floordiv, mod, min, max };

  Dim() : Dim(std::int64_t{0}) {}
  Dim(std::int64_t value);                      // NOLINT: a number is a Dim
  Dim(int value) : Dim(std::int64_t{value}) {}  // NOLINT

  // A size symbol. Two symbols are the same if name and range are.
  static Dim symbol(std::string_view name, DimRange range = {0, DimRange::kInf});
  // A loop index, 0 <= name < extent. Same if name and extent are.
  static Dim index(std::string_view name, Dim extent);

  Kind kind() const;
  bool is_const() const { return kind() == Kind::constant; }
  bool is_symbol() const { return kind() == Kind::symbol; }
  std::optional<std::int64_t> as_const() const;
  std::int64_t constant() const;      // InternalError if not constant
  const std::string& name() const;    // symbols only
  std::optional<Dim> extent() const;  // symbols made by index() only
  std::span<const Dim> operands()
      const;  // add: the summands (constant first if non-zero); mul: the
              // factors (integer coefficient first if not 1); else (a, b)

  DimRange range() const;  // constant bounds, from symbol ranges by interval arithmetic
  Hash hash() const;       // by content, the same in every process
  // A total order by content (not by address), so that everything sorted by it is reproducible.
  friend bool content_less(Dim a, Dim b);

  friend bool operator==(Dim a, Dim b) { return a.node_ == b.node_; }
  friend Dim operator+(Dim a, Dim b);
  friend Dim operator-(Dim a, Dim b);
  friend Dim operator*(Dim a, Dim b);
  friend Dim operator-(Dim a);
  Dim& operator+=(Dim b) { return *this = *this + b; }
  Dim& operator*=(Dim b) { return *this = *this * b; }

  bool depends_on(Dim symbol) const;
  // Adds each symbol not yet in `out`, in order of first appearance.
  void collect_symbols(std::vector<Dim>& out) const;
  Dim substitute(const std::function<std::optional<Dim>(Dim symbol)>& replace) const;
  // UserError(not_found) if a symbol has no value; UserError on division by zero or overflow.
  std::int64_t eval(const std::function<std::int64_t(Dim symbol)>& value_of) const;

  std::string text() const;  // "s0*8 + 1", "(s0 + 7)//8", "min(s0, 4)", "s0 % 8"

  const DimNode* node() const { return node_; }

 private:
  explicit Dim(const DimNode* node) : node_(node) {}
  friend struct DimFactory;
  const DimNode* node_;
};

bool content_less(Dim a, Dim b);
Dim floordiv(Dim a, Dim b);
Dim mod(Dim a, Dim b);
Dim min(Dim a, Dim b);
Dim max(Dim a, Dim b);
inline Dim ceildiv(Dim a, Dim b) { return floordiv(a + b - Dim(1), b); }
Dim product(std::span<const Dim> dims);

inline std::ostream& operator<<(std::ostream& out, Dim d) { return out << d.text(); }

// True or false if it holds for every value of the symbols, else nothing.
std::optional<bool> known_eq(Dim a, Dim b);
std::optional<bool> known_lt(Dim a, Dim b);
std::optional<bool> known_le(Dim a, Dim b);
bool provably_eq(Dim a, Dim b);  // known_eq == true
bool provably_nonnegative(Dim a);

// e = coefficient*symbol + rest, neither part depending on the symbol; nothing if e is not affine
// in the symbol.
struct AffineParts {
  Dim coefficient;
  Dim rest;
};
std::optional<AffineParts> affine_in(Dim e, Dim symbol);

// Parses the output of text(). `lookup` resolves names; UserError(parse_error) names the offending
// token.
Dim parse_dim(std::string_view text,
              const std::function<std::optional<Dim>(std::string_view)>& lookup);

// Many Dims over a fixed list of symbols, compiled to one flat tape: evaluation allocates nothing
// and shares common subexpressions. For replay.
class DimTape {
 public:
  DimTape() = default;
  explicit DimTape(std::vector<Dim> symbols);
  int add(Dim e);  // slot of the result; equal Dims share a slot. UserError(not_found) for foreign
                   // symbols
  int slots() const { return static_cast<int>(code_.size()); }
  std::span<const Dim> symbols() const { return symbols_; }
  // values.size() == symbols().size(), out.size() >= slots().
  void eval(std::span<const std::int64_t> values, std::span<std::int64_t> out) const;

 private:
  struct Instruction {
    std::uint8_t op;
    std::int32_t a, b;
    std::int64_t imm;
  };
  std::vector<Dim> symbols_;
  std::vector<Instruction> code_;
  std::unordered_map<const DimNode*, int> slot_of_;
};

}  // namespace gex

template <>
struct std::hash<gex::Dim> {
  std::size_t operator()(gex::Dim d) const noexcept {
    return reinterpret_cast<std::size_t>(d.node()) >> 4;
  }
};
