#pragma once
// The same as persistent_text.hpp, for devices with bulk copies (sm_90 and newer): one warp of each
// block, the loader, does nothing but copy the weights of all products into a ring in shared
// memory, in the order in which the block multiplies them. It waits for free slots alone, so it
// runs ahead of the phases. The other 8 warps compute the phases: those of a product take weights
// into registers before they wait for the left operand.
//
// A slot is a tile of 8 columns and 1,024 steps of the depth. The tiles of all products of a phase
// are numbered together, and every block has as many of them as the others, give or take one. What
// a phase does is data (tables of phases and parts); there is one code for all products, and one
// for each distinct text of other launches. A block visits only the phases in which it has work.

#include <optional>
#include <span>
#include <string>

#include "backend/cuda/persistent_text.hpp"

namespace gex::backend::cuda {

struct RingOptions {
  bool enabled = true;
  int slots = 10;     // at most; less if other shared memory needs the room
  int in_flight = 2;  // copies that have not arrived, at most
  int in_flight_long =
      5;         // the same in phases with more tiles for each block than the ring has slots
  int turn = 4;  // slots that are in registers at the same time; even
  // Some blocks print at the end what they did: "gex_cycles", block, phase, whether it has
  // products, kind of its first launch, tiles or blocks, depth, cycles (bench/cuda_decode.py).
  bool clocks = false;
};

// GEX_SUPER_KERNEL_RING: "0", or "slots,in_flight,in_flight_long,turn"; GEX_SUPER_KERNEL_CLOCKS:
// "1".
RingOptions ring_options();
// The variables' values, for keys of caches.
std::string ring_options_text();

// Whether the device can run such kernels.
bool has_bulk_copies(const DeviceLimits& limits);

// Phases here may have products with any number of tiles. Nothing if shared memory has no room for
// a ring beside the values that phases read.
std::optional<KernelText> ring_kernel(std::span<const Phase> phases, const DeviceLimits& limits,
                                      const RingOptions& options);

}  // namespace gex::backend::cuda
