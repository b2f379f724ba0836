#include "serve/server.hpp"

#include <httplib/httplib.h>
#include <pthread.h>
#include <csignal>

#include <atomic>
#include <charconv>
#include <fstream>
#include <iostream>
#include <thread>

#include "base/log.hpp"
#include "gex/gex.h"
#include "serve/grpc.hpp"
#include "serve/json.hpp"
#include "serve/request.hpp"
#include "serve/service.hpp"

namespace gex::serve {
namespace {

constexpr const char* kJson = "application/json";
constexpr const char* kJsonSize = "Inference-Header-Content-Length";

class Handlers {
 public:
  Handlers(Service& service, httplib::Server& server) : service_(service) {
    const std::string model = "/v2/models/([^/]+)", version = "/versions/([^/]+)";
    get(server, "/v2", [](const auto&, auto& response) {
      answer(response, str("{\"name\":\"gex\",\"version\":", quoted(gex_version()),
                           ",\"extensions\":[\"binary_tensor_data\",\"model_repository\"]}"));
    });
    get(server, "/v2/health/live",
        [](const auto&, auto& response) { answer(response, "{\"live\":true}"); });
    get(server, "/v2/health/ready", [this](const auto&, auto& response) { ready(response); });
    get(server, "/metrics", [this](const auto&, auto& response) {
      response.set_content(metrics_text(), "text/plain; version=0.0.4");
    });
    for (const std::string& path : {model, model + version}) {
      get(server, path,
          [this](const auto& request, auto& response) { describe(request, response); });
      get(server, path + "/ready", [this](const auto& request, auto& response) {
        served(request);
        answer(response, "{\"ready\":true}");
      });
      post(server, path + "/infer",
           [this](const auto& request, auto& response) { infer(request, response); });
    }
    post(server, "/v2/repository/index",
         [this](const auto&, auto& response) { answer(response, index()); });
    post(server, "/v2/repository/models/([^/]+)/load", [this](const auto& request, auto& response) {
      service_.registry().reload(request.matches[1]);
      answer(response, "{}");
    });
    post(server, "/v2/repository/models/([^/]+)/unload",
         [this](const auto& request, auto& response) {
           service_.registry().unload(request.matches[1]);
           answer(response, "{}");
         });
    server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty())
        response.set_content(error_json(str("HTTP ", response.status, ": ",
                                            httplib::status_message(response.status))),
                             kJson);
    });
  }

 private:
  using Handler = std::function<void(const httplib::Request&, httplib::Response&)>;

  // Every error becomes a response: the service stays up.
  static Handler guarded(Handler handler) {
    return [handler = std::move(handler)](const httplib::Request& request,
                                          httplib::Response& response) {
      try {
        handler(request, response);
      } catch (const std::exception& error) {
        refuse(response, error);
      }
    };
  }
  static void get(httplib::Server& server, const std::string& path, Handler handler) {
    server.Get(path, guarded(std::move(handler)));
  }
  static void post(httplib::Server& server, const std::string& path, Handler handler) {
    server.Post(path, guarded(std::move(handler)));
  }
  static void answer(httplib::Response& response, const std::string& json) {
    response.set_content(json, kJson);
  }
  static void refuse(httplib::Response& response, const std::exception& error) {
    response.status = status_of(error);
    if (response.status == 429) response.set_header("Retry-After", "1");
    if (response.status == 500) log(LogArea::serve, LogLevel::error, "", error.what());
    response.set_content(error_json(error.what()), kJson);
  }

  ServedPtr served(const httplib::Request& request) const {
    return service_.model(request.matches[1],
                          request.matches.size() > 2 ? request.matches[2].str() : "");
  }

  void ready(httplib::Response& response) const {
    if (service_.stopping()) {
      response.status = 503;
      return answer(response, "{\"ready\":false}");
    }
    answer(response, "{\"ready\":true}");
  }

  void describe(const httplib::Request& request, httplib::Response& response) const {
    const ServedPtr model = served(request);
    answer(response, metadata_json(model->name, service_.registry().versions(model->name),
                                   model->model->inputs, model->model->outputs));
  }

  void infer(const httplib::Request& request, httplib::Response& response) {
    const Clock::time_point start = Clock::now();
    std::string name = "unknown";
    try {
      const ServedPtr model = served(request);
      name = model->name;
      InferRequest parsed = parsed_request(request, *model);
      const std::vector<HostTensor> results = service_.run(*model, parsed, start);
      InferResponse made =
          write_response(model->name, model->version, parsed, results, model->model->outputs);
      if (made.json_size < made.body.size()) {
        response.set_header(kJsonSize, std::to_string(made.json_size));
        response.set_content(std::move(made.body), "application/octet-stream");
      } else {
        response.set_content(std::move(made.body), kJson);
      }
      response.status = 200;
    } catch (const std::exception& error) {
      refuse(response, error);
    }
    service_.metrics().answered(name, response.status, Clock::now() - start);
  }

  InferRequest parsed_request(const httplib::Request& request, const ServedModel& model) const {
    std::size_t json_size = request.body.size();
    if (request.has_header(kJsonSize)) {
      const std::string text = request.get_header_value(kJsonSize);
      const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), json_size);
      if (bad != std::errc() || end != text.data() + text.size())
        fail(ErrorCode::invalid_argument, kJsonSize, " is '", text, "', not a number");
    }
    return parse_request(request.body, json_size, model.model->inputs, model.model->outputs);
  }

  std::string index() const {
    std::string out = "[";
    for (const ServedPtr& model : service_.registry().all())
      out += str(out.size() > 1 ? "," : "", "{\"name\":", quoted(model->name),
                 ",\"version\":", quoted(model->version), ",\"state\":\"READY\"}");
    return out + "]";
  }

  std::string metrics_text() const {
    std::string out = service_.metrics().text();
    const auto line = [&](const char* name, const char* type, const char* help, auto value_of) {
      out += str("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
      for (const ServedPtr& model : service_.registry().all())
        out += str(name, "{model=", quoted(model->name), ",version=", quoted(model->version), "} ",
                   value_of(model->batcher->counts()).load(), "\n");
    };
    line("gex_runs_total", "counter", "Runs of the model.",
         [](const BatchCounts& c) -> const auto& { return c.runs; });
    line("gex_batched_requests_total", "counter", "Requests served by those runs.",
         [](const BatchCounts& c) -> const auto& { return c.requests; });
    line("gex_batched_rows_total", "counter", "Rows of those runs.",
         [](const BatchCounts& c) -> const auto& { return c.rows; });
    line("gex_waiting_requests", "gauge", "Requests that are waiting for a run.",
         [](const BatchCounts& c) -> const auto& { return c.waiting; });
    return out;
  }

  Service& service_;
};

sigset_t handled_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  return signals;
}

void reload(Registry& registry) {
  try {
    registry.reload_all();
    log(LogArea::serve, LogLevel::info, "all models are loaded again");
  } catch (const UserError& error) {
    log(LogArea::serve, LogLevel::error, "reload failed, the old models stay: ", error.what());
  }
}

// Clients may start now.
void announce(const ServerOptions& options, int port, const GrpcServer* grpc) {
  std::cout << "gex serves on http://" << options.host << ":" << port;
  if (grpc != nullptr) std::cout << " and grpc://" << options.host << ":" << grpc->port();
  std::cout << "\n" << std::flush;
  if (options.port_file.empty()) return;
  std::ofstream file(options.port_file);
  file << port;
  if (grpc != nullptr) file << " " << grpc->port();
  file << "\n";
}

}  // namespace

void serve(Registry& registry, const ServerOptions& options) {
  // Before any other thread starts: all of them inherit the mask, and one waits for the signals.
  const sigset_t signals = handled_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  httplib::Server server;
  server.new_task_queue = [&] {
    return new httplib::ThreadPool(static_cast<std::size_t>(options.connections));
  };
  server.set_payload_max_length(options.max_body);
  server.set_keep_alive_max_count(1 << 20);
  server.set_tcp_nodelay(true);
  Service service(registry, options.timeout);
  const Handlers handlers(service, server);
  const int port = options.port == 0 ? server.bind_to_any_port(options.host)
                   : server.bind_to_port(options.host, options.port) ? options.port
                                                                     : -1;
  if (port < 0)
    fail(ErrorCode::io_error, "can't listen on ", options.host, ":", options.port,
         "; another program may have the port");
  const std::unique_ptr<GrpcServer> grpc =
      options.grpc_port ? open_grpc(service, options) : nullptr;
  announce(options, port, grpc.get());
  std::atomic<bool> over{false};
  std::thread waiter([&] {
    while (!over.load()) {
      const timespec turn{0, 200'000'000};
      const int signal = sigtimedwait(&signals, nullptr, &turn);
      if (signal == SIGHUP) reload(registry);
      if (signal != SIGTERM && signal != SIGINT) continue;
      service.stop();
      server.stop();
      return;
    }
  });
  server.listen_after_bind();
  over.store(true);
  waiter.join();
  if (grpc != nullptr) grpc->stop();
}

}  // namespace gex::serve
