#pragma once
// Inference requests and responses of the KServe v2 protocol, with the binary tensor extension.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.hpp"
#include "deploy/model.hpp"

namespace gex::serve {

// "FP32"; UserError for types that the protocol has no name for.
std::string datatype_of(const deploy::TensorInfo& info);
// The place of the name; UserError lists the known ones. `what`: "input", "output".
std::size_t index_of(const std::vector<deploy::TensorInfo>& infos, const std::string& name,
                     const char* what);
// How many elements an input has; UserError for another datatype, negative and too large sizes.
std::size_t checked_count(const deploy::TensorInfo& info, std::string_view datatype,
                          const std::vector<std::int64_t>& shape);

struct IntegerRange {
  std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  std::int64_t highest = std::numeric_limits<std::int64_t>::max();
};
IntegerRange range_of(const deploy::TensorInfo& info);
void check_in_range(std::int64_t value, const IntegerRange& range, const std::string& where);

// The inputs of a request, given in any order.
class InputList {
 public:
  explicit InputList(const std::vector<deploy::TensorInfo>& infos)
      : infos_(infos), tensors_(infos.size()) {}
  void put(std::size_t k, HostTensor tensor);  // UserError: given twice
  std::vector<HostTensor> in_order();          // UserError: one is missing

 private:
  const std::vector<deploy::TensorInfo>& infos_;
  std::vector<std::optional<HostTensor>> tensors_;
};

struct WantedOutput {
  std::size_t index = 0;
  bool binary = false;
};

struct InferRequest {
  std::string id;
  std::vector<HostTensor> inputs;  // in the order of the model's
  std::vector<WantedOutput> outputs;
  std::int64_t timeout_ms = 0;  // 0: the server's
};

// `json_size`: size of the JSON at the start of the body; the binary tensors follow it. UserError
// describes what is wrong.
InferRequest parse_request(std::string_view body, std::size_t json_size,
                           const std::vector<deploy::TensorInfo>& inputs,
                           const std::vector<deploy::TensorInfo>& outputs);

struct InferResponse {
  std::string body;
  std::size_t json_size = 0;  // less than the body's if there are binary tensors
};

InferResponse write_response(const std::string& model, const std::string& version,
                             const InferRequest& request, const std::vector<HostTensor>& results,
                             const std::vector<deploy::TensorInfo>& outputs);

// The answer to GET /v2/models/NAME.
std::string metadata_json(const std::string& model, const std::vector<std::string>& versions,
                          const std::vector<deploy::TensorInfo>& inputs,
                          const std::vector<deploy::TensorInfo>& outputs);
std::string error_json(const std::string& message);

}  // namespace gex::serve
