#pragma once
// The sample of every op as a graph, so that one driver can check all.

#include <vector>

#include "ops/core/samples.hpp"
#include "run.hpp"

namespace gex::test {

struct Sample {
  using Input = OpSample::Input;
  std::vector<Input> inputs;
  Builder build;  // applies the op once; outputs are all results of the op
};

inline const Dim kSize = ops::sample_size();

// Null if the op's definition has none.
const Sample* sample_of(const OpDef& op);

}  // namespace gex::test
