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

class Store;  // see store.hpp

// A graph input whose memory is given once and never moves.
struct FrozenInput {
  int graph_input = -1;
  std::shared_ptr<const void> memory;  // as the input's type says, strides included
  // Nor does what is in it change: results that depend on it alone are computed while compiling,
  // and copies in other layouts may be made.
  bool contents = true;
};

bool keeps_subnormals_by_default();

struct CompileOptions {
  std::string target = "cpu";                // or "cuda:N"
  int level = 2;                             // O0 .. O3: which passes run
  std::vector<std::string> disabled_passes;  // by name
  std::vector<std::string> enabled_passes;   // by name, whatever the level is
  std::string switch_file;                   // of passes, see passes/engine/switches.hpp
  bool fuse = true;
  bool prologues = true;  // products, convolutions and attention compute operands themselves
  bool fast_math = false;
  // Products of bf16 matrices keep subnormal numbers, which the processor's own instruction for
  // them takes for zero. GEX_KEEP_SUBNORMALS=1 makes it the default.
  bool keep_subnormals = keeps_subnormals_by_default();
  bool place_cats = true;           // parts of a concatenation are written where they end up
  bool overwrite_temps = true;      // temporaries that nobody reads any more are written over
  bool write_ties_in_place = true;  // inputs with new contents too, where that is safe
  std::vector<FrozenInput> frozen;  // these are no inputs of the Program
  // 0: what nodes say by labels; 1: one stream, and labels are an error; more: launches that do not
  // depend on each other are spread over so many, as far as that can gain anything.
  int streams = 0;
  bool generate_code = true;  // false: kernels run in the interpreter
  // NNN_after_<pass>.gex for each pass that changed something, graph.gex, kernels.txt, program.txt
  std::string dump_dir;
  // Compiled programs and machine code are looked up and kept here; null: nothing is.
  std::shared_ptr<Store> cache;
  bool keep_static_code = true;  // code for one set of sizes too
  // For each hot set of sizes, ways to compute products and convolutions are measured in the
  // background, and the fastest is taken.
  bool autotune = false;
};

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
