#include "base/activity.hpp"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.hpp"

namespace gex {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kRedrawnAfter(500);
constexpr const char* kErase = "\r\x1b[K";

struct Noted {
  std::mutex mutex;
  std::string doing;
};

Noted& noted() {
  static Noted it;
  return it;
}

std::string doing_now() {
  Noted& it = noted();
  const std::scoped_lock lock(it.mutex);
  return it.doing;
}

}  // namespace

class Activity::Line {
 public:
  Line(std::string subject, int descriptor, std::chrono::milliseconds first_after)
      : subject_(std::move(subject)),
        descriptor_(descriptor),
        thread_([this, first_after] { show(first_after); }) {}
  ~Line() {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

 private:
  void show(std::chrono::milliseconds wait) {
    std::unique_lock lock(mutex_);
    bool shown = false;
    while (!changed_.wait_for(lock, wait, [this] { return ended_; })) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin_);
      const std::string doing = doing_now();
      put(str(kErase, "gex: ", subject_, doing.empty() ? "" : ": ", doing, ", ", seconds.count(),
              " s"));
      shown = true;
      wait = kRedrawnAfter;
    }
    if (shown) put(kErase);
  }

  // A terminal that takes no more text is no reason to stop the work.
  void put(const std::string& text) const {
    if (::write(descriptor_, text.data(), text.size()) < 0) return;
  }

  const std::string subject_;
  const int descriptor_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;  // the last: it uses the others
};

Activity::Activity(std::string subject, int descriptor, std::chrono::milliseconds first_after) {
  note("");
  if (isatty(descriptor) == 1)
    line_ = std::make_unique<Line>(std::move(subject), descriptor, first_after);
}

Activity::~Activity() = default;

void Activity::note(std::string doing) {
  Noted& it = noted();
  const std::scoped_lock lock(it.mutex);
  it.doing = std::move(doing);
}

}  // namespace gex
