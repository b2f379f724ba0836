#pragma once
// Everything that gex offers under GE's names.

#include "gex/compat/ge.hpp"
#include "gex/compat/ge_ops.hpp"
#include "gex/compat/ge_ops_nn.hpp"
#include "gex/compat/ge_ops_shape.hpp"
#include "gex/compat/ge_pass.hpp"
#include "gex/compat/ge_session.hpp"
