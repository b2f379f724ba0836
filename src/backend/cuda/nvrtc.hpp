#pragma once
// Compiles CUDA C text to machine code with NVRTC; results are cached by content in the process and
// in a Store.

#include <memory>
#include <string>
#include <vector>

namespace gex {
class ObjectStore;
}

namespace gex::backend::cuda {

struct Source {
  std::string name;  // for messages
  std::string text;
  // Uses features of this architecture alone: compiled for "sm_90a" instead of "sm_90".
  bool specific = false;
};

// One cubin for each source, in order; equal texts are compiled once, several at a time. `objects`
// may be null. architecture: "sm_90". UserError(unsupported) with the compiler's log if a text does
// not compile, or if NVRTC is not found.
std::vector<std::shared_ptr<const std::string>> compile_cubins(const std::vector<Source>& sources,
                                                               const std::string& architecture,
                                                               ObjectStore* objects);

// "13.0": part of cache keys. Empty where there is no NVRTC.
std::string nvrtc_version();

}  // namespace gex::backend::cuda
