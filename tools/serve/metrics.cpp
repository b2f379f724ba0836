#include "serve/metrics.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "serve/json.hpp"

namespace gex::serve {

void Metrics::answered(const std::string& model, int status, std::chrono::nanoseconds took) {
  const double seconds = std::chrono::duration<double>(took).count();
  const std::lock_guard lock(mutex_);
  ++answers_[{model, status}];
  if (status != 200) return;
  Times& times = times_[model];
  const auto at = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  ++times.buckets[static_cast<std::size_t>(at - kBounds.begin())];
  times.seconds += seconds;
  ++times.count;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string out =
      "# HELP gex_requests_total Inference requests by model and HTTP status.\n"
      "# TYPE gex_requests_total counter\n";
  for (const auto& [key, count] : answers_)
    out += str("gex_requests_total{model=", quoted(key.first), ",status=\"", key.second, "\"} ",
               count, "\n");
  out +=
      "# HELP gex_request_seconds Time from request to answer.\n"
      "# TYPE gex_request_seconds histogram\n";
  for (const auto& [model, times] : times_) {
    std::int64_t below = 0;
    const std::string label = "gex_request_seconds_bucket{model=" + quoted(model) + ",le=\"";
    for (std::size_t k = 0; k < kBounds.size(); ++k) {
      below += times.buckets[k];
      out += str(label, kBounds[k], "\"} ", below, "\n");
    }
    out += str(label, "+Inf\"} ", times.count, "\n");
    out += str("gex_request_seconds_sum{model=", quoted(model), "} ", times.seconds, "\n");
    out += str("gex_request_seconds_count{model=", quoted(model), "} ", times.count, "\n");
  }
  return out;
}

}  // namespace gex::serve
