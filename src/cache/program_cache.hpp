#pragma once
// Compiled programs that outlive the process: under which key one is kept, and how it becomes an
// artefact and again a Program. Machine code is kept apart, kernel by kernel, and shared.

#include <optional>

#include "cache/store.hpp"
#include "compile/compile.hpp"
#include "compile/frozen/frozen_plan.hpp"
#include "target/target.hpp"

namespace gex::compile_detail {

// Of everything the result depends on: graph, signature, options, switches of passes, this build;
// of frozen inputs which they are, for their contents only go into memory that a kept program is
// bound to. Nothing if the result can't be kept: it has files to write on the way, or passes from
// outside without a version take part, of which nobody can say what they do.
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
// With its functions, as `options` want them; the passes and fusion are behind it.
Compiled restored(KeptProgram kept, const CompileOptions& options);

}  // namespace gex::compile_detail
