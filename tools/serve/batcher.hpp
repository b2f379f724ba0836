#pragma once
// Runs the requests of one model: a bounded queue, and a thread that runs waiting requests as one
// batch if the model's first axis may vary.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/tensor.hpp"
#include "deploy/model.hpp"
#include "runtime/session/session.hpp"

namespace gex::serve {

using Clock = std::chrono::steady_clock;

struct BatchOptions {
  std::int64_t max_batch = 32;           // rows of one run; 1: requests run one by one
  std::chrono::microseconds delay{500};  // how long the first request waits for others
  std::size_t queue = 256;               // requests that may wait; more are rejected
  int threads = 0;                       // of one run; 0: as many as there are
};

class QueueFull : public UserError {
 public:
  explicit QueueFull(std::size_t limit);
};

class TooLate : public UserError {
 public:
  TooLate();
};

struct BatchCounts {
  std::atomic<std::int64_t> runs{0}, rows{0}, requests{0}, waiting{0};
};

class Batcher {
 public:
  Batcher(std::shared_ptr<const deploy::Model> model, const BatchOptions& options);
  ~Batcher();  // finishes the waiting requests first
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Waits for the results. QueueFull, TooLate, or what the run throws.
  std::vector<HostTensor> infer(std::vector<HostTensor> inputs,
                                std::optional<Clock::time_point> deadline);
  const BatchCounts& counts() const { return counts_; }
  // Rows that one run may have; 1: the model can't be batched.
  std::int64_t max_rows() const { return max_rows_; }

 private:
  struct Pending {
    std::vector<HostTensor> inputs;
    std::optional<Clock::time_point> deadline;
    std::promise<std::vector<HostTensor>> result;
    std::int64_t rows = 1;
    bool together = false;  // with others
  };
  using Batch = std::vector<std::unique_ptr<Pending>>;

  void work();
  Batch next();  // empty: it is over
  void run(Batch batch);
  void run_alone(Pending& pending);
  void run_together(Batch& batch);
  std::vector<HostTensor> execute_with(std::vector<HostTensor> inputs,
                                       std::optional<Clock::time_point> deadline);
  bool fits(const Pending& first, const Pending& other) const;

  std::shared_ptr<const deploy::Model> model_;
  BatchOptions options_;
  std::int64_t max_rows_;
  std::unique_ptr<runtime::Session> session_;
  BatchCounts counts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Pending>> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace gex::serve
