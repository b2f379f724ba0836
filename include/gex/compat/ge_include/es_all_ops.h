#pragma once
// GE's header of all op functions, for programs that include it by this name.

#include "gex/compat/ge_ops.hpp"
#include "gex/compat/ge_session.hpp"
