#pragma once
// The launches of a Program that run as one kernel (Launch::with_previous), as texts.

#include <functional>
#include <vector>

#include "backend/cuda/kernel_text.hpp"
#include "program/program.hpp"

namespace gex::backend::cuda {

struct MergedLaunch {
  const program::Launch* first = nullptr;
  KernelText text;
};

// The text of a launch that reads these of its buffers from shared memory: none, or, behind a
// launch that its blocks repeat (Launch::recomputed), the results of that. The text must outlive
// the call.
using TextOfLaunch =
    std::function<const KernelText&(const program::Launch&, const std::vector<bool>& shared)>;

std::vector<MergedLaunch> merged_launches(const program::Program& program,
                                          const TextOfLaunch& text_of);

}  // namespace gex::backend::cuda
