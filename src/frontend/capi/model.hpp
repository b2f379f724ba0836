#pragma once
// The object behind gex_model.

#include <memory>
#include <string>
#include <vector>

#include "deploy/model.hpp"
#include "frontend/capi/tagged.hpp"
#include "gex/session.h"

namespace gex::capi {

// A TensorInfo in the form of the C interface.
struct DescribedTensor {
  explicit DescribedTensor(const deploy::TensorInfo& info);
  DescribedTensor(const DescribedTensor&) = delete;
  DescribedTensor& operator=(const DescribedTensor&) = delete;
  void give(gex_tensor_info* place) const;

 private:
  std::string name_, type_;
  gex_dtype dtype_;
  std::vector<std::int64_t> shape_;
  std::vector<std::string> texts_;
  std::vector<const char*> sizes_;
};

}  // namespace gex::capi

struct gex_model : gex::capi::Tagged<gex::capi::Tag::model> {
  explicit gex_model(std::shared_ptr<const gex::deploy::Model> loaded);

  std::shared_ptr<const gex::deploy::Model> model;
  std::vector<std::unique_ptr<gex::capi::DescribedTensor>> inputs, outputs;
};
