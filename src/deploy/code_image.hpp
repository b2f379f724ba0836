#pragma once
// Machine code of a program's kernels for one processor level: position-independent bytes, where
// each kernel starts, and the C functions it calls. Loading copies the bytes, fills in the
// addresses of those functions and makes the memory executable; no linker is needed.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/kernel_abi.hpp"

namespace gex::deploy {

struct CodeImage {
  struct Entry {
    std::uint64_t offset = 0;    // of the function in `bytes`
    std::vector<int> positions;  // of the function's dims among the kernel's; empty: the same
  };
  // Eight bytes at `offset` hold the address of this function.
  struct Import {
    std::uint64_t offset = 0;
    std::string function;
  };
  std::vector<Entry> kernels;
  std::vector<Import> imports;
  std::string bytes;
};

std::string serialise(const CodeImage& image);
CodeImage parse_code_image(std::string_view bytes);  // UserError(parse_error)

// Whether generated code may call this function.
bool is_importable(std::string_view function);

// One function for each kernel. They keep the memory of the code alive. UserError: the image calls
// an unknown function, or the operating system denies executable memory.
std::vector<program::Callable> load_code(const CodeImage& image);

// Levels from the lowest to the highest: "v2", "v3", "v4".
std::span<const std::string_view> known_levels();
// Whether the processor of this machine can run code of this level.
bool runs_here(std::string_view level);

}  // namespace gex::deploy
