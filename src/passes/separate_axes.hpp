#pragma once
// Resampling and maxima of windows, one axis after the other: the last axis is where vectors run,
// and only there do they read elements that are not neighbours. For targets with vectors.

#include "passes/engine/pass.hpp"

namespace gex::passes {
Pass separate_axes();
}
