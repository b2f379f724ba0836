#pragma once
// The launches of a Program that run as one kernel (Launch::with_previous), as texts.

#include <functional>
#include <span>
#include <vector>

#include "backend/cuda/kernel_text.hpp"
#include "program/program.hpp"

namespace gex::backend::cuda {

struct MergedLaunch {
  const program::Launch* first = nullptr;
  KernelText text;
};

// `texts`: by code. `text_of`: the text of a code that reads these of its buffers from shared
// memory, for launches behind one that their blocks repeat (Launch::recomputed).
std::vector<MergedLaunch> merged_launches(
    const program::Program& program, std::span<const KernelText> texts,
    const std::function<KernelText(int code, const std::vector<bool>& shared)>& text_of);

}  // namespace gex::backend::cuda
