#pragma once
// The gRPC side of `gex serve` is a library of its own, libgex_grpc.so, which is opened if
// --grpc-port asks for it: the command needs gRPC neither to be built nor to start.

#include <memory>

#include "serve/server.hpp"
#include "serve/service.hpp"

namespace gex::serve {

class GrpcServer {
 public:
  virtual ~GrpcServer() = default;
  virtual int port() const = 0;
  virtual void stop() = 0;  // returns when all requests are answered
};

// UserError: this build has no gRPC, or the port can't be opened.
std::unique_ptr<GrpcServer> open_grpc(Service& service, const ServerOptions& options);

// The entry point of the library, `gex_open_grpc`.
using OpenGrpc = GrpcServer* (*)(Service& service, const ServerOptions& options);

}  // namespace gex::serve
