#pragma once
// Limits on the workers of a call, set by the caller for a stream or for the whole device. A limit
// that a Program sets for one of its steps takes precedence.

#include <cstdint>
#include <optional>

namespace gex::runtime {

// Maximum number of workers for matmuls and convolutions, and for everything else; 0: no limit.
struct CoreLimit {
  int matrix = 0, vector = 0;
  bool operator==(const CoreLimit&) const = default;
};

// The stream that the calling thread uses, by a number that the caller chooses; initially 0.
void set_current_stream(std::int64_t stream);
// For every thread that uses the stream; nullopt: back to the device's limit.
void set_stream_limit(std::int64_t stream, std::optional<CoreLimit> limit);
void set_device_limit(CoreLimit limit);
CoreLimit stream_limit(std::int64_t stream);
CoreLimit device_limit();
CoreLimit current_limit();  // of the calling thread's stream

// Runs that this thread starts inside the scope use at most this many workers.
class LimitScope {
 public:
  explicit LimitScope(int workers);
  ~LimitScope();
  LimitScope(const LimitScope&) = delete;
  LimitScope& operator=(const LimitScope&) = delete;

 private:
  std::int64_t saved_;
};

}  // namespace gex::runtime
