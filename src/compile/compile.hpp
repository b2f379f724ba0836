#pragma once
// compile(): a Graph in, a Program out. The only place that knows all stages.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compile/origins.hpp"
#include "ir/graph.hpp"
#include "program/executable.hpp"
#include "program/specialiser.hpp"
#include "runtime/session/session.hpp"

namespace gex {

// How the caller's arguments and results relate to the graph's. Tensors are graph inputs and
// outputs; sizes that the caller passes or receives as integers have no Value.
struct Signature {
  struct Input {
    int graph_input = -1;  // -1: an integer
    Dim integer;
    std::string name;
    bool released = false;  // the host frees it at its last use
  };
  struct Output {
    enum class Kind : std::uint8_t { tensor, integer, none } kind = Kind::tensor;
    int graph_output = -1;
    Dim integer;
    // Never a view of an input or of another output, even if the value is one.
    bool own_memory = false;
  };
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  // Every input in order, and every output that is not just the new contents of a tied input.
  static Signature of(const Graph& graph);
};

class Digester;  // see base/digest.hpp
class Store;     // see cache/store.hpp

// A graph input whose memory is given once and never moves.
struct FrozenInput {
  int graph_input = -1;
  std::shared_ptr<const void> memory;  // with the input's type, strides included
  // Its contents do not change either: results that depend only on it are computed at compile time,
  // and copies in other layouts may be made.
  bool contents = true;
};

// A field for each option of gex/options.def, which describes them, and what no option can express.
struct CompileOptions {
#define GEX_COMPILE_FIELD_compile(name, type, value) type name = value;
#define GEX_COMPILE_FIELD_session(name, type, value)
#define GEX_COMPILE_FIELD_api(name, type, value)
#define GEX_OPTION(part, name, type, value, help, about) GEX_COMPILE_FIELD_##part(name, type, value)
#include "gex/options.def"
#undef GEX_COMPILE_FIELD_compile
#undef GEX_COMPILE_FIELD_session
#undef GEX_COMPILE_FIELD_api

  std::vector<FrozenInput> frozen;  // these are not inputs of the Program
  // The memory of `frozen`, and that of Compiled::frozen, is of the target's device and is
  // complete: no work that writes it is pending.
  bool frozen_on_device = false;
  // Cache of compiled programs and machine code; null: none.
  std::shared_ptr<Store> cache;
};

// Adds the options to the key of a cached program by their values, except those that
// gex/options.def adds in another form: the caller adds them.
void add_to_key(Digester& key, const CompileOptions& options);

// The option, or GEX_SUPER_KERNEL=1.
bool makes_super_kernels(const CompileOptions& options);
// Whether blocks repeat small launches in front of what reads their results (GEX_REPEAT_LAUNCHES=1,
// GPUs only, not within SuperKernels).
bool repeats_launches(const CompileOptions& options);
// The option, unless GEX_WINOGRAD=0.
bool allows_winograd(const CompileOptions& options);
// The option, or GEX_KEEP_SUBNORMALS=1. UserError for other values of the variable than 0 and 1.
bool keeps_subnormals(const CompileOptions& options);

struct CompileReport {
  std::vector<std::pair<std::string, double>> seconds;  // by stage, in order
  std::vector<std::pair<std::string, std::int64_t>> counts;
  std::vector<std::string> remarks;  // why nodes were not fused, what passes did
  std::string pass_statistics;       // matches and changes of each pass: JSON
  std::string graph_text;            // after the passes
  std::string kernel_text;           // the fused level
  std::string generator;             // what made the code: see backend::CompiledCode
  Origins origins;
};

struct Compiled {
  std::shared_ptr<const program::Program> program;
  std::shared_ptr<const program::Executable> executable;  // for a Session
  std::shared_ptr<program::Specialiser> specialiser;      // null without a code generator
  std::vector<std::shared_ptr<const void>> frozen;        // for SessionOptions
  bool frozen_is_own = false;  // constants of the program, in the mapped file that it came from
  CompileReport report;
  bool fast_math = false;
};

// Takes ownership of the graph: passes rewrite it. UserError for what the user can fix.
Compiled compile(std::unique_ptr<Graph> graph, const CompileOptions& options = {});
Compiled compile(std::unique_ptr<Graph> graph, const Signature& signature,
                 const CompileOptions& options);

}  // namespace gex
