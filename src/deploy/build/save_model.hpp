#pragma once
// Writes compiled programs as a model file.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compile/compile.hpp"
#include "deploy/model.hpp"

namespace gex::deploy {

struct SaveOptions {
  // Processors that get machine code. Programs for a GPU have code for one architecture already.
  std::vector<std::string> levels = {"v3", "v4"};
  std::string key;  // signs the file; empty: no signature
};

// One model of a file. Of the metadata: name, source, names and types of inputs and outputs, gears.
struct NewModel {
  const Compiled* compiled = nullptr;
  Metadata metadata;
  // Weights that update_model.hpp may replace, by name: frozen inputs whose contents the compiler
  // did not use (FrozenInput::contents).
  std::set<std::string> updatable = {};
};

struct SaveReport {
  // Why it can't be proven that the program stays inside its memory; such a file loads only with
  // trust.
  std::vector<std::string> unproven;
  std::set<std::string> levels;  // that the file has machine code for
  std::uint64_t file_bytes = 0, weight_bytes = 0, code_bytes = 0;
};

// Writes the sections of a model file, and a signature if there is a key. Returns the file's size.
// The bytes of weights must stay where they are.
std::uint64_t write_model_file(std::vector<std::pair<std::string, std::string>> contents,
                               const std::vector<Metadata>& models, std::vector<Part> weights,
                               const std::string& key, const std::string& path);

// Weights that are equal are written once. UserError: it can't be written, or the program has steps
// that need the process it was compiled in (all are listed).
SaveReport save_models(const std::vector<NewModel>& models, const SaveOptions& options,
                       const std::string& path);

}  // namespace gex::deploy
