// gex serve: models over HTTP and gRPC.

#include <pthread.h>
#include <csignal>
#include <limits>

#include "base/error.hpp"
#include "commands.hpp"
#include "model_file.hpp"
#include "serve/server.hpp"

namespace gex::tool {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<int>::max();

std::int64_t between(const Arguments& arguments, const char* option, std::int64_t lowest,
                     std::int64_t highest, std::int64_t otherwise) {
  const std::int64_t value = arguments.integer(option).value_or(otherwise);
  if (value < lowest)
    fail(ErrorCode::invalid_argument, option, " is at least ", lowest, ", got ", value);
  if (value > highest)
    fail(ErrorCode::invalid_argument, option, " is at most ", highest, ", got ", value);
  return value;
}

std::int64_t at_least(const Arguments& arguments, const char* option, std::int64_t lowest,
                      std::int64_t otherwise) {
  return between(arguments, option, lowest, kMost, otherwise);
}

int port_in(const Arguments& arguments, const char* option, int otherwise) {
  return static_cast<int>(between(arguments, option, 0, 65'535, otherwise));
}

// Before any thread starts: all of them inherit the mask, and serve() waits for the signals.
void block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

int run(const Arguments& arguments) {
  arguments.file();  // at least one
  serve::BatchOptions batch;
  batch.max_batch = at_least(arguments, "--batch", 1, batch.max_batch);
  batch.delay = std::chrono::microseconds(at_least(arguments, "--batch-delay-us", 0, 500));
  batch.queue = static_cast<std::size_t>(at_least(arguments, "--queue", 1, 256));
  batch.threads = static_cast<int>(at_least(arguments, "--threads", 0, 0));
  serve::ServerOptions options;
  options.host = arguments.value("--host").value_or(options.host);
  options.port = port_in(arguments, "--port", options.port);
  if (arguments.value("--grpc-port")) options.grpc_port = port_in(arguments, "--grpc-port", 0);
  options.connections = static_cast<int>(at_least(arguments, "--connections", 1, 64));
  options.max_body = static_cast<std::size_t>(
      between(arguments, "--max-body", 1, std::int64_t{1} << 40, 64 << 20));
  options.timeout = std::chrono::milliseconds(at_least(arguments, "--timeout-ms", 0, 0));
  options.port_file = arguments.value("--port-file").value_or("");
  block_signals();
  serve::Registry registry(arguments.files(), load_options(arguments), batch);
  serve::serve(registry, options);
  return 0;
}

}  // namespace

Command serve_command() {
  return {"serve",
          "[NAME=]MODEL.gexe|FOLDER... [options]",
          "serves models over HTTP and gRPC (KServe v2 protocol)",
          "Waiting requests run as one batch if the model's first size may vary. A folder\n"
          "holds NAME.gexe or NAME/VERSION/model.gexe. SIGHUP, and POST to\n"
          "/v2/repository/models/NAME/load, load files again without dropping requests, also\n"
          "new versions and models of folders; SIGTERM answers running requests and exits.\n"
          "/metrics has counters for Prometheus.",
          with_load_options(
              {{"--host", "ADDRESS", "address to listen on (127.0.0.1)"},
               {"--port", "N", "port to listen on (8000); 0: any free one"},
               {"--grpc-port", "N", "also serve the protocol over gRPC on this port; 0: any"},
               {"--port-file", "FILE", "file to write the ports to when the server is ready"},
               {"--batch", "N", "maximum number of rows of one run (32)"},
               {"--batch-delay-us", "N", "how long a request waits for others (500)"},
               {"--queue", "N", "requests that may wait, others get 429 (256)"},
               {"--threads", "N", "threads of one run (all)"},
               {"--connections", "N", "connections that are served at the same time (64)"},
               {"--max-body", "BYTES", "maximum size of a request, larger ones get 413 (64 MiB)"},
               {"--timeout-ms", "N", "time limit of a request, then it gets 504 (none)"}}),
          64,
          run,
          nullptr,
          "a model file or a folder"};
}

}  // namespace gex::tool
