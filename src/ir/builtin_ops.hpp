#pragma once
// Whether an op is built in (src/ops): the same in every process of this build.

#include "ir/op_def.hpp"

namespace gex {

bool is_builtin(const OpDef& op);

}  // namespace gex
