#pragma once
// Runs the streams of a batch concurrently on one set of workers. Each strand is an ordered list of
// tasks; a task may wait for tasks of other strands that were added before it. Workers take chunks
// of any task that is ready, so a waiting strand never occupies a worker, and a single worker can
// run all strands.

#include <cstdint>
#include <map>
#include <vector>

#include "base/thread_pool.hpp"

namespace gex::runtime {

// The tasks; read by all workers at the same time.
class StreamWork {
 public:
  virtual ~StreamWork() = default;
  virtual std::int64_t chunks(int task) const = 0;  // constant for a task; 0: nothing to do
  virtual void run(int task, std::int64_t chunk, int worker) const = 0;
};

class StreamScheduler {
 public:
  static constexpr int kMaxStrands = 8;  // further streams share strands

  void add(int stream, int task);
  void record(int event, int stream);
  void wait(int event, int stream);  // the next task of the stream waits

  bool has_several() const { return strands_.size() > 1; }
  // Returns when all tasks are done, with the number of tasks that overlapped one of another
  // strand. Rethrows the first exception of a task. Allocates nothing.
  std::int64_t run(ThreadPool::Region& region, const StreamWork& work) const;

 private:
  class Run;
  struct Wait {
    int strand, tasks;  // this many tasks of that strand must be done
  };
  struct Task {
    int number;
    std::vector<Wait> waits;
  };

  int strand_of(int stream);

  std::vector<std::vector<Task>> strands_;
  std::map<int, int> strand_of_stream_;
  std::map<int, Wait> events_;                   // by event: what must be done when it was recorded
  std::map<int, std::vector<Wait>> next_waits_;  // by strand: waits of its next task
};

}  // namespace gex::runtime
