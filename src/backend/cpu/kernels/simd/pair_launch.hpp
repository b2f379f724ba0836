#pragma once
// One launch of a matmul of bf16 by dot products of pairs, shared by its two forms.

#include <cstdint>

#include "backend/cpu/kernels/simd/matmul_launch.hpp"
#include "backend/cpu/kernels/simd/pair_views.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

struct PairLaunch : MatmulLaunch<float> {
  using MatmulLaunch<float>::MatmulLaunch;

  void finish(i64 batch, i64 row, i64 height, i64 col, i64 width) {
    for (i64 i = 0; i < height; ++i)
      finish_row(scratch.tile + i * tile_stride<float>(width), batch, row + i, col, width);
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
