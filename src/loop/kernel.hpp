#pragma once
// The loop IR: one Kernel = one launch.
//
//   symbols s0 in [1, 4096], s1
//   kernel softmax(x: in f32[s0, s1], y: out f32[s0, s1]) grid(i < s0) {
//     local m: f32[]
//     stage largest reduce(j < s1) {
//       v0 = load x[i, j] : f32
//       acc a: f32 = -inf <- v0           # accumulator, start value, element
//       combine max                       # or { v0 = lhs a : f32 ... yield v2 }
//       v1 = acc a : f32
//       store m[] = v1
//     }
//     ...
//   }
//
// Expressions: `const 1.5`, `index i*4 + 1`, `load x[i, v2] if v3 else v0`, `cast v0`, `acc a` and
// every primitive of math.def (`mul v1, v2`), each with its dtype; an i64 expression that indexes
// memory may promise a range: `v2 = load ids[i] : i64 in [0, 9]`. Stores:
// `store y[i, v4] = v5 mode add if v6 shared ordered`. Texts written by hand may be looser: see
// parse.cpp and tests/loop/kernels.
//
// Semantics. The grid is the set of independent points; the points may run in any order and in
// parallel. At each point the stages run in order. A stage runs its `domain` loops (points
// independent of each other); at each domain point its `reduce` loops run in order of their
// indices, folding elements into the accumulators: acc = combine(acc, element). An expression is
// evaluated in the innermost loop it depends on (grid, domain or reduce index, or accumulator). A
// store runs where its index and value live: stores that mention a reduce index run at each
// element, all others once after the reduce loops. In a scan, accumulators read by stores at an
// element have the value after that element.
//
// Indices are Dims over size symbols, loop indices (Dim::index) and *value symbols*: an i64
// expression turned into a symbol by its name, for gathers and scatters.
//
// Bits: a backend may keep several partial accumulators and merge them in an order that depends on
// structure and extents alone, never on threads or on which sizes are constants. Sums of floats are
// taken in blocks of bounded length that are merged in f64, so errors do not grow; scans are not.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dim/dim.hpp"
#include "base/dtype.hpp"
#include "base/hash.hpp"

namespace gex::loop {

enum class Prim : std::uint8_t {
#define GEX_PRIM(name, ...) name,
#include "loop/math.def"
};
int arity_of(Prim prim);
std::string_view name_of(Prim prim);
std::optional<Prim> prim_from_name(std::string_view name);

using ExprId = std::int32_t;
inline constexpr ExprId kNoExpr = -1;

struct Expr {
  enum class Kind : std::uint8_t {
    constant,  // imm (floats, bool) or imm_int (integers)
    index,     // the i64 value of `dim`
    load,      // buffer[index...], or `fill` where `pred` is false (memory is then not accessed)
    prim,      // prim(args)
    cast,      // args[0] converted: floats to ints truncate, anything to bool is != 0
    acc,       // accumulator `slot` of the stage's reduction; with dtype f64: before rounding
    lhs,
    rhs,  // operands of a combine body: accumulator `slot` of the left / right state
  };
  Kind kind = Kind::constant;
  DType dtype = DType::f32;
  Prim prim = Prim::add;
  std::vector<ExprId> args;
  double imm = 0;
  std::int64_t imm_int = 0;
  Dim dim;
  int buffer = -1;
  std::vector<Dim> index;
  ExprId pred = kNoExpr;
  ExprId fill = kNoExpr;
  int slot = 0;
  bool operator==(const Expr&) const;  // constants by bits: NaN equals NaN, -0 is not 0
};

struct Buffer {
  enum class Role : std::uint8_t { in, out, inout, local };
  std::string name;
  Role role = Role::in;
  DType dtype = DType::f32;
  std::vector<Dim> shape;
  // In elements; empty = dense row-major. Offsets are not limited to `shape`.
  std::vector<Dim> strides;
  bool operator==(const Buffer&) const = default;
};

struct Range {
  Dim index;  // Dim::index(name, extent)
  Dim extent() const { return *index.extent(); }
  const std::string& name() const { return index.name(); }
  bool operator==(const Range&) const = default;
};

struct Store {
  enum class Mode : std::uint8_t { set, add, mul, max, min };
  int buffer = -1;
  std::vector<Dim> index;
  ExprId value = kNoExpr;
  ExprId pred = kNoExpr;  // no store where false
  Mode mode = Mode::set;  // other modes read, combine and write back
  // shared: several grid points may write one element; the backend makes the update atomic or, if
  // `ordered` is also set, runs the grid in order on one worker (results must not depend on
  // timing). ordered: several domain points may write one element; they run in the order of their
  // indices.
  bool shared = false;
  bool ordered = false;
  bool operator==(const Store&) const = default;
};

// A small pure function of two states; exprs are constant, prim, cast, lhs and rhs only.
struct Combine {
  std::vector<Expr> exprs;
  std::vector<ExprId> results;  // one per accumulator
  bool operator==(const Combine&) const = default;
};

struct Accumulator {
  std::string name;
  DType dtype = DType::f32;
  double init = 0;
  std::int64_t init_int = 0;
  bool operator==(const Accumulator&) const;  // init by bits
};

struct Reduction {
  bool scan = false;
  std::vector<Accumulator> accumulators;
  std::vector<ExprId> elements;  // one per accumulator, in the stage's exprs
  Combine combine;
  bool operator==(const Reduction&) const = default;
};

struct Stage {
  std::string name;
  std::vector<Range> domain;
  std::vector<Range> reduce;  // empty iff no reduction
  std::vector<Expr> exprs;    // SSA: args and value symbols refer backwards
  std::optional<Reduction> reduction;
  std::vector<Store> stores;
  bool operator==(const Stage&) const = default;
};

struct Kernel {
  std::string name;
  std::vector<Buffer> buffers;  // parameters first, in call order; locals after them
  std::vector<Range> grid;
  std::vector<Stage> stages;

  int num_params() const;
  std::vector<Dim> symbols()
      const;  // size symbols in order of first appearance: the `dims` arguments
  Dim grid_size() const;
  Dim scratch_bytes() const;  // of all locals, each rounded up to 64 bytes
  bool ordered() const;       // some store is shared and ordered: run [0, grid) on one worker
  bool operator==(const Kernel&) const = default;
};

// The value symbol of expression `id`: Dim::symbol("v<id>", ...). All value symbols of one
// expression in a stage have the same range. No other symbol may have such a name.
Dim value_symbol(ExprId id, DimRange range = {});
std::optional<ExprId> value_symbol_id(Dim symbol);

std::vector<Dim> strides_of(const Buffer& buffer);
Dim linear_offset(const Buffer& buffer, std::span<const Dim> index);  // in elements

void verify(const Kernel& kernel);  // throws UserError(invalid_graph)
std::string print(const Kernel& kernel);
Kernel parse_kernel(std::string_view text);
// Kernels that differ only in names of buffers, symbols and indices have equal hashes; `canonical`
// renames them, so that two layers of a model share one compiled kernel. `symbols` receives the
// original symbols in the order of the canonical kernel's dims.
Kernel canonical(const Kernel& kernel, std::vector<Dim>& symbols);
Hash structural_hash(const Kernel& kernel);

}  // namespace gex::loop
