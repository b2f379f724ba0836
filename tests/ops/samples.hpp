#pragma once
// For every op a small graph that uses it, with a symbolic size, so that one driver can check all.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "run.hpp"

namespace gex::test {

struct Sample {
  // Input shapes over the symbol s; index inputs are i64 whatever the dtype under test is.
  struct Input {
    Shape shape;
    enum class Kind : std::uint8_t { data, index, flag, key } kind = Kind::data;
  };
  std::vector<Input> inputs;
  Builder build;  // applies the op once; outputs are all results of the op
};

inline const Dim kSize = Dim::symbol("s", {1, 64});

// Null if there is none.
const Sample* sample_of(const OpDef& op);

}  // namespace gex::test
