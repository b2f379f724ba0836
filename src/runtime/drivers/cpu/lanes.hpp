#pragma once
// Streams of a batch side by side on one set of workers. Each lane is a list of tasks in their
// order; a task may wait for tasks of other lanes that were added before it. Workers take pieces of
// whatever task is ready, so no lane ever occupies a worker that only waits, and one worker alone
// gets through as well.

#include <cstdint>
#include <map>
#include <vector>

#include "base/thread_pool.hpp"

namespace gex::runtime {

// What the tasks are; read by all workers at once.
class LaneWork {
 public:
  virtual ~LaneWork() = default;
  virtual std::int64_t pieces(int task) const = 0;  // the same each time; 0: nothing to do
  virtual void run(int task, std::int64_t piece, int worker) const = 0;
};

class Lanes {
 public:
  static constexpr int kMost = 8;  // streams beyond that share lanes

  void add(int stream, int task);
  void record(int event, int stream);
  void wait(int event, int stream);  // holds up the next task of the stream

  bool several() const { return lanes_.size() > 1; }
  // Returns when all is done. The result says how many tasks ran while one of another lane did.
  // The first exception of a task is thrown here. Allocates nothing.
  std::int64_t run(ThreadPool::Region& region, const LaneWork& work) const;

 private:
  class Run;
  struct Wait {
    int lane, tasks;  // so many tasks of that lane must be done
  };
  struct Task {
    int number;
    std::vector<Wait> waits;
  };

  int lane_of(int stream);

  std::vector<std::vector<Task>> lanes_;
  std::map<int, int> lane_of_stream_;
  std::map<int, Wait> events_;                 // by event: what was there when it was recorded
  std::map<int, std::vector<Wait>> upcoming_;  // by lane: waits of its next task
};

}  // namespace gex::runtime
