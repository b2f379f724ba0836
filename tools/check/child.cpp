#include "check/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <sstream>

#include "base/error.hpp"

namespace gex::check {
namespace {

// Every flush reaches the parent at once, so output before a crash is not lost.
class PipeBuffer : public std::stringbuf {
 public:
  explicit PipeBuffer(int end) : end_(end) {}
  int sync() override {
    const std::string text = str();
    str("");
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t wrote = write(end_, text.data() + done, text.size() - done);
      if (wrote < 0) return -1;
      done += static_cast<std::size_t>(wrote);
    }
    return 0;
  }

 private:
  int end_;
};

[[noreturn]] void be_the_child(int end, const std::function<void(std::ostream&)>& work) {
  const int nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  PipeBuffer buffer(end);
  std::ostream out(&buffer);
  work(out);
  out.flush();
  _exit(0);  // no destructors: the objects belong to the parent
}

}  // namespace

std::string ChildResult::ending() const {
  if (timed_out) return "timed out";
  if (signal != 0) return str("signal ", signal, " (", strsignal(signal), ")");
  return "";
}

ChildResult in_child(const std::function<void(std::ostream&)>& work, int seconds) {
  int ends[2];
  if (pipe(ends) != 0) fail(ErrorCode::io_error, "can't create a pipe: ", std::strerror(errno));
  std::cout.flush();
  const pid_t child = fork();
  if (child < 0) fail(ErrorCode::io_error, "can't start a process: ", std::strerror(errno));
  if (child == 0) {
    close(ends[0]);
    be_the_child(ends[1], work);
  }
  close(ends[1]);
  ChildResult result;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waiting{ends[0], POLLIN, 0};
    const int ready = left.count() <= 0 ? 0 : poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      result.timed_out = true;
      kill(child, SIGKILL);
      break;
    }
    char bytes[4096];
    const ssize_t count = read(ends[0], bytes, sizeof bytes);
    if (count <= 0) break;
    result.text.append(bytes, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace gex::check
