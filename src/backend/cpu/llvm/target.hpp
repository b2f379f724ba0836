#pragma once
// Properties of the host, queried once.

#include <string>
#include <string_view>

namespace gex::codegen {

struct Target {
  std::string cpu;       // LLVM's name
  std::string features;  // LLVM's feature string
  int vector_bytes = 16;
  bool avx512 = false;
  std::string why_not;  // not empty: why the generator can't be used on this machine

  // Elements handled side by side. The same for every dtype: wider elements take several registers,
  // so a value's lane never depends on what else a kernel computes.
  int lanes() const { return vector_bytes / 4; }
};

const Target& host_target();

// A level of the x86-64 ABI: "v2", "v3" or "v4". UserError(invalid_argument) for other names.
const Target& target_of_level(std::string_view level);

}  // namespace gex::codegen
