#include "serve/service.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace gex::serve {

int status_of(const std::exception& error) {
  if (dynamic_cast<const QueueFull*>(&error) != nullptr) return 429;
  if (dynamic_cast<const TooLate*>(&error) != nullptr) return 504;
  if (const auto* user = dynamic_cast<const UserError*>(&error))
    return user->code() == ErrorCode::not_found       ? 404
           : user->code() == ErrorCode::out_of_memory ? 503
                                                      : 400;
  return 500;
}

ServedPtr Service::model(const std::string& name, const std::string& version) const {
  ServedPtr found = registry_.find(name, version);
  if (found == nullptr)
    fail(ErrorCode::not_found, "there is no model '", name, "'",
         version.empty() ? "" : " of version " + version);
  return found;
}

std::vector<HostTensor> Service::run(const ServedModel& model, InferRequest& request,
                                     Clock::time_point start,
                                     std::optional<Clock::time_point> callers_limit) const {
  std::optional<Clock::time_point> limit = callers_limit;
  if (request.timeout_ms > 0) {
    const Clock::time_point own = start + std::chrono::milliseconds(request.timeout_ms);
    limit = limit ? std::min(*limit, own) : own;
  }
  if (!limit && timeout_.count() > 0) limit = start + timeout_;
  return model.batcher->infer(std::move(request.inputs), limit);
}

}  // namespace gex::serve
