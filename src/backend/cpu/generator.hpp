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
  ObjectStore* objects = nullptr;  // where machine code is kept; null: everything is compiled
};

// Machine code of kernels for other processes: relocatable ELF objects.
struct KernelObjects {
  // The one function in each object.
  static constexpr const char* kFunction = "gex_kernel";
  struct Entry {
    std::size_t object = 0;
    // Where the function's dims are among those of the kernel's symbols(), if not in that order.
    std::vector<int> positions;
  };
  std::vector<std::string> objects;
  std::vector<Entry> kernels;  // in the order of the kernels
};

enum class Dump : std::uint8_t { ir, optimised_ir, assembly };

struct GeneratorStats {
  std::int64_t compiled = 0;  // functions turned into machine code
  std::int64_t reused = 0;    // requests answered by code that was there
  std::int64_t loaded = 0;    // functions linked from a store instead of compiled
  std::int64_t modules = 0;
  double seconds = 0;  // wall time inside compile()
};

class Generator {
 public:
  virtual ~Generator() = default;

  // One callable for each kernel, in order. `dims` of a callable are the values of
  // kernel.symbols(); `scratch` holds kernel.scratch_bytes(). Equal structures share their code.
  // Thread-safe. UserError(unsupported) names what a kernel asks for and the generator lacks.
  virtual std::vector<program::Callable> compile(std::span<const loop::Kernel> kernels,
                                                 const GeneratorOptions& options) = 0;

  virtual std::string dump(const loop::Kernel& kernel, const GeneratorOptions& options,
                           Dump what) = 0;

  virtual std::string target() const = 0;  // "znver4, 64-byte vectors"
  virtual GeneratorStats stats() const = 0;

  // For processors of a level ("v2", "v3", "v4"), whatever this machine is. Equal structures share
  // an object. Sizes in options.constants are constants in the code, as in compile().
  virtual KernelObjects objects(std::span<const loop::Kernel> kernels,
                                const GeneratorOptions& options, std::string_view level) = 0;
};

// Raised whenever Generator's layout or meaning changes: both libraries must agree.
inline constexpr int kGeneratorVersion = 4;

// Opens libgex_llvm.so beside libgex on the first call. Null if it is missing or unfit; `why_not`
// (may be null) then says why and how to get it. Thread-safe; lives until the process ends.
Generator* llvm_generator(std::string* why_not);

}  // namespace gex::codegen
