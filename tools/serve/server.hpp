#pragma once
// `gex serve`: the KServe v2 protocol, health, metrics and the repository extension, over HTTP here
// and over gRPC in serve_grpc.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "serve/registry.hpp"

namespace gex::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;               // 0: any free one
  std::optional<int> grpc_port;  // empty: HTTP alone
  int connections = 64;          // that are served at the same time
  std::size_t max_body = std::size_t{64} << 20;
  std::chrono::milliseconds timeout{0};  // of a request; 0: no limit
  std::string port_file;  // file that the ports are written to when the server is ready
};

// Serves until SIGTERM or SIGINT; running requests are answered first. SIGHUP reloads all models.
// UserError: the port can't be opened.
void serve(Registry& registry, const ServerOptions& options);

}  // namespace gex::serve
