#pragma once
// GE's header of this name.

#include "gex/compat/ge_pass.hpp"
