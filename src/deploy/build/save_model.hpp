#pragma once
// Writes compiled programs as a model file.

#include <string>
#include <vector>

#include "compile/compile.hpp"
#include "deploy/model.hpp"

namespace gex::deploy {

struct SaveOptions {
  std::vector<std::string> levels = {"v3", "v4"};  // processors that get machine code
};

// One model of a file. Of the metadata: name, source, names and types of inputs and outputs, gears.
struct NewModel {
  const Compiled* compiled = nullptr;
  Metadata metadata;
};

struct SaveReport {
  // Why it can't be proven that the program stays inside its memory; such a file loads only with
  // trust.
  std::vector<std::string> unproven;
  std::uint64_t file_bytes = 0, weight_bytes = 0, code_bytes = 0;
};

// Weights that are equal are written once. UserError: it can't be written, or the program has steps
// that need the process it was compiled in (all are listed).
SaveReport save_models(const std::vector<NewModel>& models, const SaveOptions& options,
                       const std::string& path);

}  // namespace gex::deploy
