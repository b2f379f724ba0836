#include "base/activity.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <thread>

namespace gex {
namespace {

using std::chrono::milliseconds;

// What 100 ms of work write to a descriptor that is read at another.
std::string written(int to, int from, milliseconds first_after) {
  {
    const Activity activity("compiling in.gex", to, first_after);
    Activity::note("passes");
    std::this_thread::sleep_for(milliseconds(100));
  }
  std::string text;
  char part[4096];
  fcntl(from, F_SETFL, O_NONBLOCK);
  while (true) {
    const ssize_t size = read(from, part, sizeof part);
    if (size <= 0) return text;
    text.append(part, static_cast<std::size_t>(size));
  }
}

// A terminal: what is written to `inside` is read from `outside`.
struct Terminal {
  int outside = posix_openpt(O_RDWR | O_NOCTTY), inside = -1;
  Terminal() {
    if (outside < 0 || grantpt(outside) != 0 || unlockpt(outside) != 0) return;
    inside = open(ptsname(outside), O_RDWR | O_NOCTTY);
  }
  ~Terminal() {
    close(inside);
    close(outside);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
};

TEST(Activity, is_a_line_on_a_terminal_that_is_erased_at_the_end) {
  const Terminal terminal;
  ASSERT_GE(terminal.inside, 0);
  const std::string text = written(terminal.inside, terminal.outside, milliseconds(10));
  EXPECT_NE(text.find("gex: compiling in.gex: passes, 0 s"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\r\x1b[K"));
}

TEST(Activity, shows_nothing_of_short_work) {
  const Terminal terminal;
  ASSERT_GE(terminal.inside, 0);
  EXPECT_EQ(written(terminal.inside, terminal.outside, milliseconds(20'000)), "");
}

TEST(Activity, writes_nothing_into_a_pipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(written(ends[1], ends[0], milliseconds(10)), "");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace gex
