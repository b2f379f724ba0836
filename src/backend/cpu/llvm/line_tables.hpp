#pragma once
// DWARF sections with the lines of generated code, for gdb.

#include <span>
#include <string>

#include "backend/cpu/llvm/code_names.hpp"

namespace gex::codegen {

struct LineTables {
  std::string abbreviations, info, lines;  // .debug_abbrev, .debug_info, .debug_line
};

// All empty if none of the functions has lines.
LineTables line_tables(std::span<const NamedCode> functions);

}  // namespace gex::codegen
