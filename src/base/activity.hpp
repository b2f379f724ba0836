#pragma once
// What long work is doing: one line on a terminal, which is erased at the end. Work of less than
// two seconds shows nothing, and neither does a pipe or a file.

#include <chrono>
#include <memory>
#include <string>

namespace gex {

class Activity {
 public:
  // `subject`: "compiling model.onnx"; `descriptor`: where the line goes.
  explicit Activity(std::string subject, int descriptor = 2,
                    std::chrono::milliseconds first_after = std::chrono::seconds(2));
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // What the work is doing now, from any thread; without an activity nobody reads it.
  static void note(std::string doing);

 private:
  class Line;
  std::unique_ptr<Line> line_;  // null: not on a terminal
};

}  // namespace gex
