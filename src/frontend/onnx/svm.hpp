#pragma once

namespace gex::onnx {

// Support vector machines; add_ml_rows calls it.
void add_svm_rows();

}  // namespace gex::onnx
