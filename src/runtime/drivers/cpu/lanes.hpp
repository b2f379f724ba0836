#pragma once
// Runs the streams of a batch concurrently on one set of workers. Each lane is an ordered list of
// tasks; a task may wait for tasks of other lanes that were added before it. Workers take chunks of
// any task that is ready, so a waiting lane never occupies a worker, and a single worker can run
// all lanes.

#include <cstdint>
#include <map>
#include <vector>

#include "base/thread_pool.hpp"

namespace gex::runtime {

// The tasks; read by all workers at the same time.
class LaneWork {
 public:
  virtual ~LaneWork() = default;
  virtual std::int64_t pieces(int task) const = 0;  // constant for a task; 0: nothing to do
  virtual void run(int task, std::int64_t piece, int worker) const = 0;
};

class Lanes {
 public:
  static constexpr int kMost = 8;  // further streams share lanes

  void add(int stream, int task);
  void record(int event, int stream);
  void wait(int event, int stream);  // the next task of the stream waits

  bool several() const { return lanes_.size() > 1; }
  // Returns when all tasks are done, with the number of tasks that overlapped one of another lane.
  // Rethrows the first exception of a task. Allocates nothing.
  std::int64_t run(ThreadPool::Region& region, const LaneWork& work) const;

 private:
  class Run;
  struct Wait {
    int lane, tasks;  // this many tasks of that lane must be done
  };
  struct Task {
    int number;
    std::vector<Wait> waits;
  };

  int lane_of(int stream);

  std::vector<std::vector<Task>> lanes_;
  std::map<int, int> lane_of_stream_;
  std::map<int, Wait> events_;                 // by event: what must be done when it was recorded
  std::map<int, std::vector<Wait>> upcoming_;  // by lane: waits of its next task
};

}  // namespace gex::runtime
