#pragma once
// How many workers a call may use, said from outside: for a stream, or for the whole device. What a
// Program says about a step of its own goes before that.

#include <cstdint>
#include <optional>

namespace gex::runtime {

// At most so many workers for products, and for everything else; 0: as many as there are.
struct CoreLimit {
  int matrix = 0, vector = 0;
  bool operator==(const CoreLimit&) const = default;
};

// The stream that the calling thread is on, by a number of the caller's choice; at first 0.
void set_current_stream(std::int64_t stream);
// For every thread that is on the stream; nothing: that of the device again.
void set_stream_limit(std::int64_t stream, std::optional<CoreLimit> limit);
void set_device_limit(CoreLimit limit);
CoreLimit stream_limit(std::int64_t stream);
CoreLimit device_limit();
CoreLimit current_limit();  // of the stream that the calling thread is on

// Runs that this thread starts inside the scope use at most so many workers.
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
