#pragma once
// TensorFlow models become ONNX files with tf2onnx, a Python package, in a separate process.

#include <string>

#include "arguments.hpp"

namespace gex::tool {

// A SavedModel folder, a Keras file or a frozen graph, by its name.
bool is_tensorflow(const std::string& path);

// An ONNX file in a folder that is removed with this object.
class ConvertedModel {
 public:
  // --inputs and --outputs name those of a frozen graph. UserError with tf2onnx's last line of
  // output.
  ConvertedModel(const std::string& path, const Arguments& arguments);
  ~ConvertedModel();
  ConvertedModel(const ConvertedModel&) = delete;
  ConvertedModel& operator=(const ConvertedModel&) = delete;
  std::string onnx() const { return folder_ + "/model.onnx"; }

 private:
  std::string folder_;
};

}  // namespace gex::tool
