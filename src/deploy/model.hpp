#pragma once
// A loaded model file: its program with code for this machine, its weights in the mapped file, and
// its metadata. All sessions made from it share its weights and its code. docs/artifact.md has the
// format.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.hpp"
#include "deploy/container.hpp"
#include "program/executable.hpp"
#include "program/specialiser.hpp"
#include "runtime/capture/gear_options.hpp"

namespace gex::deploy {

// An input or output under the name that the writer of the file gave it.
struct TensorInfo {
  std::string name;
  std::string type;  // the element type as the source model names it: "f32", "uint16", "string"
  DType dtype = DType::f32;  // of its memory
  std::vector<Dim> shape;
};

// Where the memory behind a frozen constant is in the weights section.
struct WeightPlace {
  std::uint64_t offset = 0, bytes = 0, checksum = 0;
  std::string name;  // for people; may be empty
};

// What a file stores about a model besides its program.
struct Metadata {
  std::string name;
  std::string engine;  // version of the gex that wrote it
  std::string source;  // what it was compiled from: "model.onnx"
  bool fast_math = false;
  std::vector<TensorInfo> inputs, outputs;  // dtype and shape are the program's
  std::vector<WeightPlace> weights;         // by slot
  runtime::GearOptions gears;               // symbols by name, with any range
};

std::string serialise(const Metadata& metadata);
Metadata parse_metadata(std::string_view bytes);  // UserError(parse_error)

// Names of sections. A file with several models numbers them from 0 on.
std::string section_name(std::size_t model, std::string_view what);  // "0/program", "0/code.v3"
inline constexpr std::string_view kCodeSections = "code.";           // then the level: "0/code.v3"
inline constexpr std::string_view kWeightsSection = "weights";
inline constexpr std::string_view kUpdatableSection = "updatable";  // of a model; may be absent

struct LoadOptions {
  // Run the file's machine code. Only for files of known origin: such code can do anything. Without
  // trust, the kernels' texts are compiled (libgex) or interpreted (libgex_run), and only if it can
  // be proven that they stay inside their memory.
  bool trust = false;
  // The file must be signed with this key, which is then trust. Empty: signatures are not looked
  // at.
  std::string key;
  bool check_weights = false;  // read all weights once and compare their checksums
  bool autotune = false;       // used only if texts are compiled
  // Processor level or GPU architecture of the machine code; empty: the best that runs here.
  std::string level;
  std::string model;  // by name; empty: the first
};

struct Model {
  Metadata metadata;
  std::vector<TensorInfo> inputs, outputs;
  std::shared_ptr<const program::Executable> executable;
  std::shared_ptr<program::Specialiser> specialiser;  // may be null
  std::vector<std::shared_ptr<const void>> frozen;    // for SessionOptions
  runtime::GearOptions gears;
  std::string code;  // what runs: "machine code (v4)", "llvm (znver4, ...)"
  // Processor levels and GPU architectures that the file has machine code for.
  std::vector<std::string> levels;
  std::uint64_t weight_bytes = 0;

  const program::Program& program() const { return *executable->program; }
};

// UserError: there is no such file, it is damaged, not for this machine, or not safe to run.
std::shared_ptr<const Model> load_model(const std::string& path, const LoadOptions& options = {});
// From memory that `owner` keeps. What is not aligned to 64 bytes is copied.
std::shared_ptr<const Model> load_model(std::shared_ptr<const void> owner, std::string_view bytes,
                                        const LoadOptions& options = {});

// Reads all weights and compares their checksums. UserError(parse_error) names one that is damaged.
void check_weights(const Metadata& metadata, std::string_view weights);

// The digest of all weights of all models of a file, for signatures.
Digest digest_of_weights(const std::vector<Metadata>& models, std::string_view weights);

// Processor levels and GPU architectures that a model of a file has code for, from the lowest to
// the highest.
std::vector<std::string> code_levels(const Container& container, std::size_t model);

// Names of the models in a file.
std::vector<std::string> model_names(const Container& container);

// A model file mapped into memory, for commands that inspect it.
struct OpenFile {
  std::shared_ptr<const void> owner;
  std::string_view bytes;
};
OpenFile open_model_file(const std::string& path);  // UserError names the file
bool is_model_file(const std::string& path);        // by its first bytes

}  // namespace gex::deploy
