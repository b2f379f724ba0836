#pragma once
// Other contents for weights of a model file. The program and its machine code stay as they are.

#include <map>
#include <string>
#include <vector>

#include "base/tensor.hpp"
#include "deploy/model.hpp"

namespace gex::deploy {

// A weight that the program reads unchanged: it was neither packed into another layout nor used to
// compute a constant.
struct UpdatableWeight {
  std::string model, name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
};
std::vector<UpdatableWeight> updatable_weights(const Container& container);

// Writes the file `from` to `to` with new contents of weights, by name, in all of its models. `key`
// signs the result; empty: no signature. UserError lists the weights that can be replaced if one
// can't, and refuses other dtypes and sizes.
void update_weights(const std::string& from, const std::map<std::string, HostTensor>& contents,
                    const std::string& to, const std::string& key = {});

}  // namespace gex::deploy
