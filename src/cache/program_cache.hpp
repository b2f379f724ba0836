#pragma once
// Compiled programs that outlive the process: under which key one is kept, and how it becomes an
// artefact and again a Program. Machine code is kept apart, kernel by kernel, and shared.

#include <optional>

#include "backend/cpu/generator.hpp"
#include "cache/store.hpp"
#include "compile/compile.hpp"
#include "compile/frozen/frozen_plan.hpp"
#include "emit/kernel_table.hpp"

namespace gex::compile_detail {

// Of everything the result depends on: graph, signature, options, switches of passes, this build;
// of frozen inputs which they are, for their contents only go into memory that a kept program is
// bound to. Nothing if the result can't be kept: it has files to write on the way, or passes from
// outside without a version take part, of which nobody can say what they do.
std::optional<Digest> program_key(Graph& graph, const Signature& signature,
                                  const CompileOptions& options);

struct KeptProgram {
  program::Program program;  // without functions
  KernelTable table;
  FrozenPlan frozen;
  CompileReport report;  // without times
};

program::Artefact save_program(const program::Program& program, const KernelTable& table,
                               const FrozenPlan& frozen, const CompileReport& report);
KeptProgram load_program(const program::Artefact& artefact);  // UserError
// With its functions, as `options` want them; the passes and fusion are behind it.
Compiled restored(KeptProgram kept, const CompileOptions& options);

// Machine code in a Store.
class StoredObjects : public codegen::ObjectStore {
 public:
  explicit StoredObjects(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  std::optional<std::string> load(const std::string& key) override;
  void save(const std::string& key, const std::string& label, std::string object) override;
  void discard(const std::string& key, const std::string& why) override;

 private:
  std::shared_ptr<Store> store_;
};

}  // namespace gex::compile_detail
