#pragma once
// Ops under GE's names if those differ from gex's own (gex/es/ops.hpp).

#include <cstdint>
#include <string>
#include <vector>

#include "gex/es.hpp"

namespace ge::es {

using namespace gex::es;  // NOLINT: Add, Relu, Sigmoid, ... have GE's names already

// x1 @ x2 + bias, for matrices that may be transposed.
inline EsTensorHolder MatMul(const EsTensorHolder& x1, const EsTensorHolder& x2,
                             const EsTensorLike& bias = nullptr, bool transpose_x1 = false,
                             bool transpose_x2 = false) {
  const auto turned = [](const EsTensorHolder& x, bool turn) {
    if (x.rank() != 2)
      throw gex::es::Error(GEX_SHAPE_MISMATCH, "MatMul takes matrices, got " + x.type());
    return turn ? Transpose(x, {1, 0}) : x;
  };
  const EsTensorHolder product = Matmul(turned(x1, transpose_x1), turned(x2, transpose_x2));
  const bool absent = bias.holder().empty() && !bias.is_constant();
  return absent ? product : Add(product, bias);
}

// N is the number of inputs; 0: derived from the list.
inline EsTensorHolder ConcatV2(const std::vector<EsTensorLike>& x, std::int64_t concat_dim,
                               std::int64_t N = 0) {
  if (N != 0 && N != static_cast<std::int64_t>(x.size()))
    throw gex::es::Error(GEX_INVALID_ARGUMENT, "ConcatV2: N is " + std::to_string(N) + ", given " +
                                                   std::to_string(x.size()) + " tensors");
  return Cat(x, concat_dim);
}

inline std::vector<EsTensorHolder> Split(std::int64_t split_dim, const EsTensorHolder& x,
                                         std::int64_t num_split) {
  return gex::es::Split(x, num_split, split_dim);
}

}  // namespace ge::es
