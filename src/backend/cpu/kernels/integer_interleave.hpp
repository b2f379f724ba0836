#pragma once
// Bytes of an image in groups of four, as integer_conv2d.hpp multiplies them. Whole vectors are
// read and written: there must be 64 bytes behind the lines and the result.

#include <cstdint>

#include "backend/cpu/kernels/integer_tile.hpp"

namespace gex::kernels {

struct Interleaving {
  // Group k: byte k*step of each line. `flip`: see integer_pack.hpp.
  void (*lines)(std::uint8_t* to, const std::uint8_t* const (&lines)[kGroupBytes],
                std::int64_t step, std::int64_t count, std::uint8_t flip);
  // Group k: bytes 0, apart, ... last*apart from k*step on; the rest of the group is arbitrary.
  void (*taps)(std::uint8_t* to, const std::uint8_t* line, std::int64_t apart, std::int64_t last,
               std::int64_t step, std::int64_t count, std::uint8_t flip);
};

// The fastest functions of this machine.
const Interleaving& interleaving();
// The functions that run on every machine.
const Interleaving& portable_interleaving();

}  // namespace gex::kernels
