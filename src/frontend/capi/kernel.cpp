// User kernels through gex/kernel.h; part of libgex_run too.

#include "gex/kernel.h"

#include <dlfcn.h>

#include <cstddef>

#include "frontend/capi/boundary.hpp"
#include "frontend/capi/convert.hpp"
#include "runtime/session/user_kernels.hpp"

using namespace gex;
using namespace gex::capi;

namespace {

std::vector<gex_tensor> to_tensors(std::span<const runtime::TensorRef> refs) {
  std::vector<gex_tensor> tensors;
  for (const runtime::TensorRef& ref : refs) {
    gex_tensor tensor = GEX_TENSOR_INIT;
    tensor.dtype = from_dtype(ref.dtype);
    tensor.data = ref.data;
    tensor.rank = ref.shape.size();
    tensor.shape = ref.shape.data();
    tensor.strides = ref.strides.data();
    tensors.push_back(tensor);
  }
  return tensors;
}

runtime::UserKernel function_of(const gex_kernel& kernel) {
  return [run = kernel.run, user = kernel.user, name = std::string(kernel.name)](
             std::span<const runtime::TensorRef> inputs,
             std::span<const runtime::TensorRef> outputs, const std::string& parameters) {
    const std::vector<gex_tensor> in = to_tensors(inputs), out = to_tensors(outputs);
    const gex_status status =
        run(user, in.data(), in.size(), out.data(), out.size(), parameters.c_str());
    if (status == GEX_OK) return;
    const std::string said = gex_last_error();
    fail(ErrorCode::invalid_argument, "kernel '", name, "' failed (", gex_status_name(status),
         "): ", said.empty() ? "it did not say why (gex_fail sets the message)" : said);
  };
}

void open_library(const std::string& path) {
  if (path.empty()) return;
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return;
  const char* reason = dlerror();
  fail(ErrorCode::io_error, "'", path, "' can't be loaded: ", reason ? reason : "unknown reason");
}

}  // namespace

extern "C" {

gex_status gex_register_kernel(const gex_kernel* kernel) {
  return guarded([&] {
    const gex_kernel defaults = GEX_KERNEL_INIT;
    const gex_kernel given = read_versioned(kernel, defaults, sizeof(gex_kernel), "kernel");
    required(given.name, "kernel.name");
    if (given.run == nullptr) fail(ErrorCode::invalid_argument, "kernel.run is NULL");
    runtime::register_user_kernel(given.name, function_of(given));
  });
}

gex_status gex_load_kernels(const char* list) {
  return guarded([&] {
    std::string path;
    for (const char* c = &required(list, "list"); *c != '\0'; ++c) {
      if (*c != ':') {
        path += *c;
        continue;
      }
      open_library(path);
      path.clear();
    }
    open_library(path);
  });
}

}  // extern "C"
