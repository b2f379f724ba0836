#pragma once
// Counters of the server in the text format of Prometheus.

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace gex::serve {

class Metrics {
 public:
  void answered(const std::string& model, int status, std::chrono::nanoseconds took);
  std::string text() const;

 private:
  static constexpr std::array<double, 12> kBounds = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                                     0.05,   0.1,   0.2,   0.5,   1,    5};
  struct Times {
    std::array<std::int64_t, kBounds.size() + 1> buckets{};
    double seconds = 0;
    std::int64_t count = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::int64_t> answers_;
  std::map<std::string, Times> times_;
};

}  // namespace gex::serve
