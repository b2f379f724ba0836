#pragma once
// The CPU code generator as the rest of gex sees it: loop kernels in, callable code out. The
// implementation lives in its own library (libgex_llvm.so) that is opened on first use, so libgex
// itself never needs LLVM.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dim/dim.hpp"
#include "program/kernel_abi.hpp"

namespace gex {
class ObjectStore;
}
namespace gex::loop {
struct Kernel;
}

namespace gex::codegen {

struct GeneratorOptions {
  // Static form: the size symbols that are constants in the code. Symbols a kernel lacks are
  // ignored. The `dims` argument keeps its layout: values of constant symbols are just not read.
  std::vector<std::pair<Dim, std::int64_t>> constants;
  bool fast_math = false;  // contraction and reciprocals: bits may differ from the default form
  ObjectStore* objects = nullptr;  // cache of machine code; null: everything is compiled
};

// Machine code of kernels for other processes: relocatable ELF objects.
struct KernelObjects {
  // The name of the function in each object.
  static constexpr const char* kFunction = "gex_kernel";
  struct Entry {
    std::size_t object = 0;
    // Positions of the function's dims in the kernel's symbols(), if the order differs.
    std::vector<int> positions;
  };
  std::vector<std::string> objects;
  std::vector<Entry> kernels;  // in the order of the kernels
};

enum class Dump : std::uint8_t { ir, optimised_ir, assembly };

struct GeneratorStats {
  std::int64_t compiled = 0;  // functions compiled to machine code
  std::int64_t reused = 0;    // requests served from memory
  std::int64_t loaded = 0;    // functions linked from a store instead of compiled
  std::int64_t modules = 0;
  double seconds = 0;  // wall time inside compile()
};

class Generator {
 public:
  virtual ~Generator() = default;

  // One callable for each kernel, in order. `dims` of a callable are the values of
  // kernel.symbols(); `scratch` holds kernel.scratch_bytes(). Equal structures share their code.
  // Thread-safe. UserError(unsupported) names the construct that the generator does not support.
  virtual std::vector<program::Callable> compile(std::span<const loop::Kernel> kernels,
                                                 const GeneratorOptions& options) = 0;

  virtual std::string dump(const loop::Kernel& kernel, const GeneratorOptions& options,
                           Dump what) = 0;

  virtual std::string target() const = 0;  // "znver4, 64-byte vectors"
  virtual GeneratorStats stats() const = 0;

  // For processors of a level ("v2", "v3", "v4"), regardless of this machine. Equal structures
  // share an object. Sizes in options.constants are constants in the code, as in compile().
  virtual KernelObjects objects(std::span<const loop::Kernel> kernels,
                                const GeneratorOptions& options, std::string_view level) = 0;
};

// Incremented whenever Generator's layout or meaning changes: both libraries must agree.
inline constexpr int kGeneratorVersion = 4;

// Opens libgex_llvm.so beside libgex on the first call. Null if it is missing or unusable;
// `why_not` (may be null) then has the reason and how to fix it. Thread-safe; lives until the
// process ends.
Generator* llvm_generator(std::string* why_not);

}  // namespace gex::codegen
