#pragma once
// NumPy's .npy files.

#include <string>

#include "base/tensor.hpp"

namespace gex::tool {

// UserError names the file and the error. bf16 is NumPy's "V2", as written by ml_dtypes.
HostTensor read_npy(const std::string& path);
void write_npy(const std::string& path, const HostTensor& tensor);

}  // namespace gex::tool
