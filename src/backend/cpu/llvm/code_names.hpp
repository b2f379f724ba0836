#pragma once
// Tells tools the names and lines of generated code: gdb through its JIT interface, and Linux perf
// through a jitdump file if GEX_JITDUMP says where.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gex::codegen {

// The instructions from `offset` in a function on belong to that line.
struct LineStart {
  std::uint64_t offset = 0;
  std::uint32_t line = 0;
};

struct FunctionLines {
  std::string file;
  std::vector<LineStart> starts;  // by offset; empty: lines are not known
};

struct NamedCode {
  std::string name;
  const void* address = nullptr;
  std::size_t bytes = 0;
  FunctionLines lines;
};

// Thread-safe. gdb forgets the names when the last owner of the result lets go, which must be
// before the code is freed.
std::shared_ptr<const void> announce_code(std::span<const NamedCode> functions);

}  // namespace gex::codegen
