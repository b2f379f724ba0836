#pragma once
// Requests and responses of the KServe v2 protocol as messages of gRPC.

#include <kserve.pb.h>
#include "serve/registry.hpp"
#include "serve/request.hpp"

namespace gex::serve {

// UserError says what is wrong.
InferRequest parse_request(const inference::ModelInferRequest& given, const deploy::Model& model);
void write_response(const ServedModel& model, const InferRequest& request,
                    const std::vector<HostTensor>& results, inference::ModelInferResponse& out);
void write_metadata(const ServedModel& model, const std::vector<std::string>& versions,
                    inference::ModelMetadataResponse& out);

}  // namespace gex::serve
