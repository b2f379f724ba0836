#pragma once
#include <string>

#include "frontend/onnx/expr.hpp"

namespace gex::onnx {

// Activations of recurrent cells and of fused operators; names in lower case.
struct Activation {
  std::string name;
  double alpha, beta;
  Expr operator()(Expr x) const;  // UserError for an unknown name
};
double default_alpha(const std::string& name);

}  // namespace gex::onnx
