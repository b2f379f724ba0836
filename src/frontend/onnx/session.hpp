#pragma once
// Runs an ONNX model. One program serves all sizes that the import could keep symbolic. If the
// import depends on a value (the shape input of a Reshape, the condition of an If), a first program
// computes that value, and the following program is imported and compiled for it; each new value
// costs one more import.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compile/compile.hpp"
#include "frontend/onnx/importer.hpp"

namespace gex::onnx {

// An input or output: a tensor in memory (element type as in the file; strings as their numbers), a
// sequence, an optional, or nothing.
struct HostValue {
  Item::Kind kind = Item::Kind::none;
  Elem elem = Elem::undefined;
  std::vector<std::int64_t> shape;
  std::shared_ptr<const void> data;  // dense, row-major
  std::vector<HostValue> items;

  static HostValue tensor(Elem elem, HostTensor memory);
};

struct SessionSettings {
  CompileOptions compile;
  runtime::SessionOptions session;
  bool static_shapes = false;  // import for the sizes of each call, even if they could be symbolic
};

// Compiles what was imported, with its weights as frozen inputs. Takes the graph of `import`.
// Weights of `updatable` are read as they are, so that their contents may be replaced later.
Compiled compile_import(Import& import, CompileOptions options,
                        const std::set<std::string>& updatable = {});
// Elements from which an initialiser is a weight: see ImportOptions::weight_elements.
inline constexpr std::int64_t kWeightElements = 1024;

struct SessionStatistics {
  std::int64_t imports = 0, programs = 0, probes = 0;  // probes: programs that compute a value
};

class Session {
 public:
  explicit Session(std::shared_ptr<const ModelProto> model, SessionSettings settings = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const ModelProto& model() const { return *model_; }
  std::vector<const ValueInfo*> inputs() const { return model_inputs(*model_); }
  // Inputs in order; kind `none` for optional ones that are left out. Thread-safe.
  std::vector<HostValue> run(std::span<const HostValue> inputs);
  SessionStatistics statistics() const;

 private:
  struct Program;  // one import, compiled
  struct Fork;     // the continuation for given inputs and answers
  Fork& root_for(std::span<const HostValue> inputs, bool static_shapes);
  void grow(Fork& fork, std::span<const HostValue> inputs, std::vector<HostTensor> answers,
            bool static_shapes);
  std::unique_ptr<Program> compiled(Import import) const;
  std::vector<HostValue> run_with(std::span<const HostValue> inputs, bool static_shapes);

  std::shared_ptr<const ModelProto> model_;
  SessionSettings settings_;
  std::shared_ptr<runtime::DeviceContext> device_;  // stays open between programs
  mutable std::mutex mutex_;
  std::atomic<bool> static_shapes_;  // also set when symbolic sizes could not be imported
  std::map<std::string, std::unique_ptr<Fork>> roots_;
  std::map<const TensorProto*, TensorPtr> contents_;  // shared by all programs
  std::set<std::string> only_static_;                 // sizes that the symbolic program rejected
  SessionStatistics statistics_;
};

}  // namespace gex::onnx
