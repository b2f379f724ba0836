#pragma once
// Compiled programs kept between processes: the key of a program, and its conversion to and from an
// artefact. Machine code is kept separately per kernel and shared.

#include <optional>

#include "cache/store.hpp"
#include "compile/compile.hpp"
#include "compile/frozen/frozen_plan.hpp"
#include "target/target.hpp"

namespace gex::compile_detail {

// Covers everything the result depends on: graph, signature, options, pass switches, this build;
// for frozen inputs which ones they are, but not their contents, since a cached program is bound to
// its frozen memory when it is loaded. Nothing if the result can't be cached: it has to write dump
// files, or user passes without a version take part.
std::optional<Digest> program_key(Graph& graph, const Signature& signature,
                                  const CompileOptions& options, const Target& target);

struct KeptProgram {
  program::Program program;
  FrozenPlan frozen;
  CompileReport report;  // without times
};

program::Artefact save_program(const program::Program& program, const FrozenPlan& frozen,
                               const CompileReport& report);
KeptProgram load_program(const program::Artefact& artefact);  // UserError
// Compiles the functions according to `options`; passes and fusion are not run again.
Compiled restored(KeptProgram kept, const CompileOptions& options);

}  // namespace gex::compile_detail
