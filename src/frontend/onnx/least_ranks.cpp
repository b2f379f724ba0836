#include "frontend/onnx/least_ranks.hpp"

#include <map>

namespace gex::onnx {

namespace {

const std::vector<int>& ranks_by_name(const std::string& op) {
  static const std::map<std::string, std::vector<int>, std::less<>> table{
      {"AffineGrid", {3, 1}},
      {"ArgMax", {1}},
      {"ArgMin", {1}},
      {"Attention", {3, 3, 3, 0, 4, 4}},
      {"AveragePool", {3}},
      {"BatchNormalization", {2, 1, 1, 1, 1}},
      {"BlackmanWindow", {0}},
      {"CausalConvWithState", {3, 3, 1, 3}},
      {"Col2Im", {3, 1, 1}},
      {"Concat", {1}},
      {"Conv", {3, 3, 1}},
      {"ConvInteger", {3, 3}},
      {"ConvTranspose", {3, 3, 1}},
      {"CumProd", {1}},
      {"CumSum", {1}},
      {"DFT", {2}},
      {"DeformConv", {4, 4, 4, 1, 4}},
      {"DepthToSpace", {4}},
      {"Det", {2}},
      {"DynamicQuantizeLSTM", {3, 3, 3, 2, 1, 3, 3, 2, 1, 1, 1, 1}},
      {"DynamicQuantizeMatMul", {1, 1}},
      {"EyeLike", {2}},
      {"FlexAttention", {4, 4, 4}},
      {"GRU", {3, 3, 3, 2, 1, 3}},
      {"Gather", {1}},
      {"GatherElements", {1, 1}},
      {"GatherND", {1, 1}},
      {"Gemm", {2, 2}},
      {"GlobalAveragePool", {3}},
      {"GlobalLpPool", {3}},
      {"GlobalMaxPool", {3}},
      {"GridSample", {3, 3}},
      {"GroupNormalization", {2, 1, 1}},
      {"GroupQueryAttention", {3, 3, 3, 4, 4, 0, 0, 2, 2}},
      {"Hardmax", {1}},
      {"InstanceNormalization", {2, 1, 1}},
      {"LRN", {2}},
      {"LSTM", {3, 3, 3, 2, 1, 3, 3, 2}},
      {"LayerNormalization", {1}},
      {"LinearAttention", {3, 3, 3, 4, 3, 3}},
      {"LinearClassifier", {2}},
      {"LinearRegressor", {1}},
      {"LogSoftmax", {1}},
      {"LpNormalization", {1}},
      {"LpPool", {3}},
      {"MatMul", {1, 1}},
      {"MatMulInteger", {1, 1}},
      {"MatMulIntegerToFloat", {1, 1}},
      {"MaxPool", {3}},
      {"MaxRoiPool", {4, 2}},
      {"MaxUnpool", {3, 3}},
      {"MultiHeadAttention", {3, 3, 3, 1, 1, 1, 4, 4}},
      {"Multinomial", {2}},
      {"NegativeLogLikelihoodLoss", {2, 1, 1}},
      {"NonMaxSuppression", {3, 3}},
      {"OneHot", {0, 0, 1}},
      {"QGemm", {2, 0, 0, 2}},
      {"QLinearConv", {3, 0, 0, 3}},
      {"QLinearMatMul", {1, 0, 0, 1}},
      {"RMSNormalization", {1}},
      {"RNN", {3, 3, 3, 2, 1, 3}},
      {"Resize", {1}},
      {"ReverseSequence", {2, 1}},
      {"RoiAlign", {4, 2, 1}},
      {"RotaryEmbedding", {3, 1, 1}},
      {"STFT", {2, 0, 1}},
      {"ScatterElements", {1, 1, 1}},
      {"Scatter", {1, 1, 1}},
      {"ScatterND", {1, 1}},
      {"SimplifiedLayerNormalization", {1}},
      {"SkipLayerNormalization", {1, 1}},
      {"SkipSimplifiedLayerNormalization", {1, 1}},
      {"Softmax", {1}},
      {"SoftmaxCrossEntropyLoss", {2, 1, 1}},
      {"SpaceToDepth", {4}},
      {"Split", {1}},
      {"SplitToSequence", {1}},
      {"StringNormalizer", {1}},
      {"SwiGLU", {1}},
      {"TensorScatter", {2, 2}},
      {"TopK", {1}},
      {"TreeEnsemble", {2}},
      {"TreeEnsembleClassifier", {2}},
      {"TreeEnsembleRegressor", {2}},
      {"Trilu", {2}}};
  static const std::vector<int> none;
  const auto found = table.find(op);
  return found == table.end() ? none : found->second;
}

}  // namespace

const std::vector<int>& least_ranks(const std::string& domain, const std::string& op) {
  // These share a name with an operator of the default domain.
  static const std::map<std::string, std::vector<int>, std::less<>> microsoft{
      {"Attention", {3, 2, 1}}, {"RotaryEmbedding", {3, 1, 2, 2}}};
  const auto own = microsoft.find(op);
  if (domain == "com.microsoft" && own != microsoft.end()) return own->second;
  return ranks_by_name(op);
}

}  // namespace gex::onnx
