#pragma once
// compile(): a Graph in, a Program out. The only place that knows all stages.

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

class Store;  // see store.hpp

// A graph input whose memory is given once and never moves.
struct FrozenInput {
  int graph_input = -1;
  std::shared_ptr<const void> memory;  // with the input's type, strides included
  // Its contents do not change either: results that depend only on it are computed at compile time,
  // and copies in other layouts may be made.
  bool contents = true;
};

struct CompileOptions {
  std::string target = "cpu";                // or "cuda:N"
  int level = 2;                             // O0 .. O3: which passes run
  std::vector<std::string> disabled_passes;  // by name
  std::vector<std::string> enabled_passes;   // by name, for any level
  std::string switch_file;                   // of passes, see passes/engine/switches.hpp
  bool fuse = true;
  bool prologues = true;  // matmuls, convolutions and attention may compute their operands
  bool fast_math = false;
  bool place_cats = true;           // parts of a concatenation are written directly into the result
  bool overwrite_temps = true;      // dead temporaries may be overwritten
  bool write_ties_in_place = true;  // also tied inputs, if that is safe
  std::vector<FrozenInput> frozen;  // these are not inputs of the Program
  // 0: from labels; 1: one stream, and labels are an error; more: independent launches are spread
  // over this many streams if that can help.
  int streams = 0;
  bool generate_code = true;  // false: kernels run in the interpreter
  // NNN_after_<pass>.gex for each pass that changed something, graph.gex, kernels.txt, program.txt
  std::string dump_dir;
  // Cache of compiled programs and machine code; null: none.
  std::shared_ptr<Store> cache;
  bool keep_static_code = true;  // also code for one set of sizes
  // For each hot set of sizes, candidates for matmuls and convolutions are measured in the
  // background, and the fastest is used.
  bool autotune = false;
};

struct CompileReport {
  std::vector<std::pair<std::string, double>> seconds;  // by stage, in order
  std::vector<std::pair<std::string, std::int64_t>> counts;
  std::vector<std::string> remarks;  // why nodes were not fused, what passes did
  std::string pass_statistics;       // matches and changes of each pass: JSON
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

// Takes ownership of the graph: passes rewrite it. UserError for what the user can fix.
Compiled compile(std::unique_ptr<Graph> graph, const CompileOptions& options = {});
Compiled compile(std::unique_ptr<Graph> graph, const Signature& signature,
                 const CompileOptions& options);

}  // namespace gex
