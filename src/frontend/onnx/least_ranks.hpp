#pragma once
#include <string>
#include <vector>

namespace gex::onnx {

// The minimum rank of each input of an operator, which rows rely on. Empty: any rank.
const std::vector<int>& least_ranks(const std::string& domain, const std::string& op);

}  // namespace gex::onnx
