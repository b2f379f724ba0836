#include "serve/grpc.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "base/error.hpp"
#include "gex/gex.h"

namespace gex::serve {
namespace {

constexpr const char* kLibrary = "libgex_grpc.so";

}  // namespace

std::unique_ptr<GrpcServer> open_grpc(Service& service, const ServerOptions& options) {
  Dl_info info;
  // It lies beside libgex, not beside the command.
  if (dladdr(reinterpret_cast<const void*>(&gex_version), &info) == 0 || info.dli_fname == nullptr)
    fail(ErrorCode::io_error, "the folder of libgex can't be found, and so not ", kLibrary);
  const std::filesystem::path path = std::filesystem::path(info.dli_fname).parent_path() / kLibrary;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    fail(ErrorCode::unsupported, "--grpc-port: ", reason != nullptr ? reason : "unknown reason",
         ". This build serves HTTP alone; for gRPC install libgrpc++-dev, protobuf-compiler and "
         "protobuf-compiler-grpc, and build again");
  }
  const auto open = reinterpret_cast<OpenGrpc>(dlsym(library, "gex_open_grpc"));
  if (open == nullptr) fail(ErrorCode::unsupported, path.string(), " is of another version of gex");
  return std::unique_ptr<GrpcServer>(open(service, options));
}

}  // namespace gex::serve
