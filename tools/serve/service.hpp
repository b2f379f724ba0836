#pragma once
// What HTTP and gRPC have in common: find a model, run a request on it before its time limit, count
// the answers.

#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <string>

#include "serve/metrics.hpp"
#include "serve/registry.hpp"
#include "serve/request.hpp"

namespace gex::serve {

// The HTTP status for an error; metrics count by it, for gRPC, too.
int status_of(const std::exception& error);

class Service {
 public:
  Service(Registry& registry, std::chrono::milliseconds timeout)
      : registry_(registry), timeout_(timeout) {}

  Registry& registry() { return registry_; }
  const Registry& registry() const { return registry_; }
  Metrics& metrics() { return metrics_; }
  const Metrics& metrics() const { return metrics_; }

  // Version "": the highest. UserError(not_found).
  ServedPtr model(const std::string& name, const std::string& version) const;
  // The time limit is the earliest of the request's and the caller's; the server's without both.
  std::vector<HostTensor> run(const ServedModel& model, InferRequest& request,
                              Clock::time_point start,
                              std::optional<Clock::time_point> callers_limit = std::nullopt) const;

  // From now on the server isn't ready; requests under way are answered.
  void stop() { stopping_.store(true); }
  bool stopping() const { return stopping_.load(); }

 private:
  Registry& registry_;
  std::chrono::milliseconds timeout_;  // 0: none
  Metrics metrics_;
  std::atomic<bool> stopping_{false};
};

}  // namespace gex::serve
