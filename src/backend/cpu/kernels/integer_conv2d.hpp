#pragma once
// Convolutions of 8-bit integers: problems of conv2d.hpp whose operands are i8 or u8. Sums are
// exact modulo 2^32, so any split of the grid gives the same bits. Results are i32, and so is what
// an epilogue receives. Pixels outside of the image have the problem's border as their value.
//
// A unit of the grid is a tile of output pixels of some groups, or of a block of the output
// channels of one group. The part of the image that the tile reads is copied into groups of four
// bytes: four channels of a pixel, or four taps of a row where that needs fewer products (depthwise
// kernels). Each tap then reads the bytes of neighbouring results from one place.

#include <optional>
#include <span>

#include "backend/cpu/kernels/epilogue.hpp"
#include "base/dim/dim.hpp"
#include "problems/conv2d.hpp"

namespace gex::kernels {

using problems::Conv2dProblem;

inline bool is_integer_product(const Conv2dProblem& p) {
  return p.x == DType::i8 || p.x == DType::u8;
}

// `dims`: those of the launch.
Dim integer_conv2d_grid(const Conv2dProblem& problem, std::span<const Dim> dims);
// For each worker, without what the epilogue itself asks for.
Dim integer_conv2d_scratch_bytes(const Conv2dProblem& problem, std::span<const Dim> dims);

program::Callable make_integer_conv2d(const Conv2dProblem& problem, const Attached& attached = {});

// Weights packed ahead of time: for each output channel signed bytes in the order in which the
// kernel reads them, then their sum in 32 bits. Launch: buffers [W, packed], dims conv_pack_dims up
// to the strides, no scratch. Nothing if the sizes of the weights vary.
std::optional<std::int64_t> integer_conv2d_packed_bytes(const Conv2dProblem& problem,
                                                        std::span<const Dim> dims);
program::Callable make_integer_conv2d_pack(const Conv2dProblem& problem);

}  // namespace gex::kernels
