#pragma once
// Helpers to write OpDef::sample.

#include <string>
#include <utility>
#include <vector>

#include "ir/op_def.hpp"
#include "ops/core/attributes.hpp"

namespace gex::ops {

using SampleInputs = std::vector<OpSample::Input>;
using SampleAttrs = std::vector<std::pair<std::string, AttrValue>>;

// The symbolic size used by samples.
inline Dim sample_size() { return Dim::symbol("s", {1, 64}); }
inline Shape sample_matrix() { return {sample_size(), Dim(6)}; }

inline OpSample::Input data(Shape shape) { return {std::move(shape)}; }
inline OpSample::Input index_data(Shape shape) {
  return {std::move(shape), OpSample::Input::Kind::index};
}
inline OpSample::Input flag_data(Shape shape) {
  return {std::move(shape), OpSample::Input::Kind::flag};
}
inline OpSample::Input key_data() { return {{}, OpSample::Input::Kind::key}; }

// The op on a matrix [s, 6] with these attributes.
inline std::function<OpSample()> matrix_sample(SampleAttrs attrs) {
  return [attrs = std::move(attrs)] { return OpSample{{data(sample_matrix())}, attrs, {}}; };
}

}  // namespace gex::ops
