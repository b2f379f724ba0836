#pragma once
// CUDA C text to machine code by NVRTC, kept by content for the life of the process.

#include <memory>
#include <string>

namespace gex::runtime::cuda {

// architecture: "sm_90". UserError(unsupported) with the compiler's log if the text is refused, or
// if there is no NVRTC.
std::shared_ptr<const std::string> compile_cubin(const std::string& name, const std::string& source,
                                                 const std::string& architecture);

}  // namespace gex::runtime::cuda
