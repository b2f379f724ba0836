#pragma once
// Machine code of NVIDIA's devices as text, by NVIDIA's own tools.

#include <string>

namespace gex::report {

// What `nvdisasm -c`, or else `cuobjdump -sass`, prints of the image. Both are looked for in PATH,
// $CUDA_HOME/bin and /usr/local/cuda/bin. Empty if there is neither, or it can't read the image.
std::string sass_of(const std::string& image);

}  // namespace gex::report
