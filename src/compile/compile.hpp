#pragma once
// compile(): the only place that knows all stages. Graph in, Program out.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.hpp"
#include "program/executable.hpp"
#include "program/specialiser.hpp"
#include "runtime/session/session.hpp"

namespace gex {

// How the caller's arguments and results relate to the graph's. Tensors are graph inputs and
// outputs; sizes the caller passes or gets back as integers have no Value.
struct Signature {
  struct Input {
    int graph_input = -1;  // or -1: an integer
    Dim integer;
    std::string name;
    bool released = false;  // the host lets go of it at its last use
  };
  struct Output {
    enum class Kind : std::uint8_t { tensor, integer, none } kind = Kind::tensor;
    int graph_output = -1;
    Dim integer;
    // Never a view of an input or of another output, even where the value is one.
    bool own_memory = false;
  };
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  // Every input in order, and every output that is not merely the new contents of a tied input.
  static Signature of(const Graph& graph);
};

class Digester;  // see base/digest.hpp
class Store;     // see cache/store.hpp

// A graph input whose memory is given once and never moves.
struct FrozenInput {
  int graph_input = -1;
  std::shared_ptr<const void> memory;  // as the input's type says, strides included
  // Nor does what is in it change: results that depend on it alone are computed while compiling,
  // and copies in other layouts may be made.
  bool contents = true;
};

// Fields with a line in gex/options.def, which says what they mean, and what no option can say.
struct CompileOptions {
#define GEX_COMPILE_FIELD_compile(name, type, value) type name = value;
#define GEX_COMPILE_FIELD_session(name, type, value)
#define GEX_COMPILE_FIELD_api(name, type, value)
#define GEX_OPTION(part, name, type, value, help, about) GEX_COMPILE_FIELD_##part(name, type, value)
#include "gex/options.def"
#undef GEX_COMPILE_FIELD_compile
#undef GEX_COMPILE_FIELD_session
#undef GEX_COMPILE_FIELD_api

  std::vector<FrozenInput> frozen;  // these are no inputs of the Program
  // Compiled programs and machine code are looked up and kept here; null: nothing is.
  std::shared_ptr<Store> cache;
};

// Adds the options to the key of a kept program, each by its value, but for those of which
// gex/options.def says otherwise: what they add is the caller's to know.
void add_to_key(Digester& key, const CompileOptions& options);

struct CompileReport {
  std::vector<std::pair<std::string, double>> seconds;  // by stage, in order
  std::vector<std::pair<std::string, std::int64_t>> counts;
  std::vector<std::string> remarks;  // why things were not fused, which passes did what
  std::string pass_statistics;       // how often each pass found and did something: JSON
  std::string graph_text;            // after the passes
  std::string kernel_text;           // the fused level
  std::string generator;             // what made the code: see backend::CompiledCode
};

struct Compiled {
  std::shared_ptr<const program::Program> program;
  std::shared_ptr<const program::Executable> executable;  // for a Session
  std::shared_ptr<program::Specialiser> specialiser;      // null without a code generator
  std::vector<std::shared_ptr<const void>> frozen;        // for SessionOptions
  CompileReport report;
  bool fast_math = false;
};

// Takes the graph: passes rewrite it. UserError for what the user can fix.
Compiled compile(std::unique_ptr<Graph> graph, const CompileOptions& options = {});
Compiled compile(std::unique_ptr<Graph> graph, const Signature& signature,
                 const CompileOptions& options);

}  // namespace gex
