#pragma once
// Tells tools the names of generated code: gdb through its JIT interface, and Linux perf through a
// jitdump file if GEX_JITDUMP says where.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace gex::codegen {

struct NamedCode {
  std::string name;
  const void* address = nullptr;
  std::size_t bytes = 0;
};

// Thread-safe. gdb forgets the names when the last owner of the result lets go, which must be
// before the code is freed.
std::shared_ptr<const void> announce_code(std::span<const NamedCode> functions);

}  // namespace gex::codegen
