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
#include "serve/json.hpp"
#include "serve/metrics.hpp"
#include "serve/request.hpp"

namespace gex::serve {
namespace {

constexpr const char* kJson = "application/json";
constexpr const char* kJsonSize = "Inference-Header-Content-Length";

int status_of(const std::exception& error) {
  if (dynamic_cast<const QueueFull*>(&error) != nullptr) return 429;
  if (dynamic_cast<const TooLate*>(&error) != nullptr) return 504;
  if (const auto* user = dynamic_cast<const UserError*>(&error))
    return user->code() == ErrorCode::not_found       ? 404
           : user->code() == ErrorCode::out_of_memory ? 503
                                                      : 400;
  return 500;
}

class Handlers {
 public:
  Handlers(Registry& registry, const ServerOptions& options, httplib::Server& server)
      : registry_(registry), options_(options) {
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
      registry_.reload(request.matches[1]);
      answer(response, "{}");
    });
    post(server, "/v2/repository/models/([^/]+)/unload",
         [this](const auto& request, auto& response) {
           registry_.unload(request.matches[1]);
           answer(response, "{}");
         });
    server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty())
        response.set_content(error_json(str("HTTP ", response.status, ": ",
                                            httplib::status_message(response.status))),
                             kJson);
    });
  }

  void stop() { stopping_.store(true); }

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
    const std::string name = request.matches[1];
    const std::string version = request.matches.size() > 2 ? request.matches[2].str() : "";
    ServedPtr found = registry_.find(name, version);
    if (found == nullptr)
      fail(ErrorCode::not_found, "there is no model '", name, "'",
           version.empty() ? "" : " of version " + version);
    return found;
  }

  void ready(httplib::Response& response) const {
    if (stopping_.load()) {
      response.status = 503;
      return answer(response, "{\"ready\":false}");
    }
    answer(response, "{\"ready\":true}");
  }

  void describe(const httplib::Request& request, httplib::Response& response) const {
    const ServedPtr model = served(request);
    answer(response, metadata_json(model->name, registry_.versions(model->name),
                                   model->model->inputs, model->model->outputs));
  }

  void infer(const httplib::Request& request, httplib::Response& response) {
    const Clock::time_point start = Clock::now();
    std::string name = "unknown";
    try {
      const ServedPtr model = served(request);
      name = model->name;
      InferRequest parsed = parsed_request(request, *model);
      const std::vector<HostTensor> results =
          model->batcher->infer(std::move(parsed.inputs), deadline_of(parsed, start));
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
    metrics_.answered(name, response.status, Clock::now() - start);
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

  std::optional<Clock::time_point> deadline_of(const InferRequest& request,
                                               Clock::time_point start) const {
    if (request.timeout_ms > 0) return start + std::chrono::milliseconds(request.timeout_ms);
    if (options_.timeout.count() > 0) return start + options_.timeout;
    return std::nullopt;
  }

  std::string index() const {
    std::string out = "[";
    for (const ServedPtr& model : registry_.all())
      out += str(out.size() > 1 ? "," : "", "{\"name\":", quoted(model->name),
                 ",\"version\":", quoted(model->version), ",\"state\":\"READY\"}");
    return out + "]";
  }

  std::string metrics_text() const {
    std::string out = metrics_.text();
    const auto line = [&](const char* name, const char* type, const char* help, auto value_of) {
      out += str("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
      for (const ServedPtr& model : registry_.all())
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

  Registry& registry_;
  const ServerOptions& options_;
  Metrics metrics_;
  std::atomic<bool> stopping_{false};
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
  Handlers handlers(registry, options, server);
  const int port = options.port == 0 ? server.bind_to_any_port(options.host)
                   : server.bind_to_port(options.host, options.port) ? options.port
                                                                     : -1;
  if (port < 0)
    fail(ErrorCode::io_error, "can't listen on ", options.host, ":", options.port,
         "; another program may have the port");
  std::atomic<bool> over{false};
  std::thread waiter([&] {
    while (!over.load()) {
      const timespec turn{0, 200'000'000};
      const int signal = sigtimedwait(&signals, nullptr, &turn);
      if (signal == SIGHUP) reload(registry);
      if (signal != SIGTERM && signal != SIGINT) continue;
      handlers.stop();
      server.stop();
      return;
    }
  });
  if (!options.port_file.empty()) std::ofstream(options.port_file) << port << "\n";
  std::cout << "gex serves on http://" << options.host << ":" << port << "\n" << std::flush;
  server.listen_after_bind();
  over.store(true);
  waiter.join();
}

}  // namespace gex::serve
