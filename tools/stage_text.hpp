#pragma once
// Texts of the later stages, as gex dump prints them, for `gex run`: loop kernels and Programs.

#include <string_view>
#include <vector>

#include "arguments.hpp"
#include "onnx_run.hpp"

namespace gex::tool {

enum class TextStage { graph, kernels, program };
TextStage stage_of(std::string_view text);  // by its first word

// Runs a Program once on inputs made as for a graph. Unless --trust is given, it must be provable
// that it stays inside its memory.
std::vector<NamedTensor> run_program_text(std::string_view text, const Arguments& arguments);
// Runs the kernel that --kernel names, or the only one.
std::vector<NamedTensor> run_kernel_text(std::string_view text, const Arguments& arguments);

}  // namespace gex::tool
