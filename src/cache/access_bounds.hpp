#pragma once
// Proofs that a loop kernel accesses nothing outside its buffers, for every allowed value of the
// sizes. Only the structure of the kernel's text is trusted: ranges of sizes come from the launch,
// ranges of data-dependent indices from the expressions that compute them.

#include <span>
#include <string>
#include <vector>

#include "base/dim/dim.hpp"
#include "loop/kernel.hpp"

namespace gex {

// Known inequalities: each of these Dims is at least 0.
using Facts = std::vector<Dim>;

// Whether `lower <= upper` is provable from the ranges of the symbols and the facts.
bool surely_le(Dim lower, Dim upper, const Facts& facts);

// `dims`: the launch's values for kernel.symbols(); `bytes`: memory size of each parameter;
// `facts`: about their symbols. Returns a sentence for each access that may be out of bounds.
std::vector<std::string> unproven_accesses(const loop::Kernel& kernel, std::span<const Dim> dims,
                                           std::span<const Dim> bytes, const Facts& facts);

}  // namespace gex
