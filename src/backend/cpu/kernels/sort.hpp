#pragma once
// Rows of a strided tensor in order, or the first few of them: values, i64 indices, or both. NaN is
// larger than every number, and the two zeros are equal.
//
// Buffers: [X, values, indices], without the results that are not asked for. Dims: sort_dims.hpp.

#include "base/dim/dim.hpp"
#include "base/dtype.hpp"
#include "base/eager_order.hpp"
#include "program/kernel_abi.hpp"

namespace gex::kernels {

struct SortProblem {
  DType dtype = DType::f32;
  bool descending = false;
  Ties ties = Ties::stable;
  int batch_rank = 0;  // axes besides the sorted one
  bool values = true, indices = true;

  bool operator==(const SortProblem&) const = default;
};

// One unit for each row.
Dim sort_scratch_bytes(const SortProblem& problem, Dim length);
program::Callable make_sort(const SortProblem& problem);

}  // namespace gex::kernels
