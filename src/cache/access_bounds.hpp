#pragma once
// Proofs that a loop kernel touches nothing outside its buffers, for every value that the sizes may
// have. Nothing that the kernel's text claims is believed but its structure: ranges of sizes come
// from the launch, ranges of data-dependent indices from the expressions that compute them.

#include <span>
#include <string>
#include <vector>

#include "base/dim/dim.hpp"
#include "loop/kernel.hpp"

namespace gex {

// Inequalities that hold: each of these is at least 0.
using Facts = std::vector<Dim>;

// Whether `lower <= upper` surely holds, by the ranges of the symbols and the facts.
bool surely_le(Dim lower, Dim upper, const Facts& facts);

// `dims`: what the launch gives for kernel.symbols(); `bytes`: of the memory behind each parameter;
// `facts`: about the symbols in them. A sentence for each access that may be outside.
std::vector<std::string> unproven_accesses(const loop::Kernel& kernel, std::span<const Dim> dims,
                                           std::span<const Dim> bytes, const Facts& facts);

}  // namespace gex
