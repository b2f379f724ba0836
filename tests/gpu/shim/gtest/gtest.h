#pragma once
// The part of GoogleTest's interface that the tests of tests/gpu/run use, for machines without
// GoogleTest. Tests register themselves; main.cpp runs them.

#include <atomic>
#include <functional>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace testing {

struct Registered {
  std::string suite, name;
  std::function<void()> body;
};
inline std::vector<Registered>& registered() {
  static std::vector<Registered> tests;
  return tests;
}
inline std::atomic<int> failures{0};  // of the running test
inline std::atomic<bool> skipped{false};
inline thread_local std::vector<std::string> traces;

class Test {
 public:
  virtual ~Test() = default;
  virtual void TestBody() = 0;
  static bool HasFailure() { return failures > 0; }
};

struct Trace {
  explicit Trace(std::string text) { traces.push_back(std::move(text)); }
  ~Trace() { traces.pop_back(); }
};

template <class T>
void print(std::ostream& out, const T& value) {
  if constexpr (requires { out << value; }) {
    out << value;
  } else if constexpr (requires { value.begin(); }) {
    out << "{";
    std::size_t count = 0;
    for (const auto& item : value) {
      if (count++ == 16) {
        out << "...";
        break;
      }
      print(out, item);
      out << " ";
    }
    out << "}";
  } else {
    out << "(value)";
  }
}

// Collects the message of one failure and reports it when the statement ends.
class Failure {
 public:
  Failure(const char* file, int line) { text_ << file << ":" << line << ": "; }
  Failure(const Failure&) = delete;
  ~Failure() {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    if (failures++ < 5) {
      std::cout << text_.str() << "\n";
      for (const std::string& trace : traces) std::cout << "  in " << trace << "\n";
    }
  }
  template <class T>
  Failure& operator<<(const T& value) {
    print(text_, value);
    return *this;
  }

 private:
  std::ostringstream text_;
};

// Lets a message be streamed after a macro in both the good and the bad case.
struct Voidify {
  void operator&(const Failure&) const {}
  void operator&(std::ostream&) const {}
};

template <class A, class B, class Compare>
bool holds(const A& a, const B& b, Compare compare, std::string& text) {
  if (compare(a, b)) return true;
  std::ostringstream out;
  print(out, a);
  out << " against ";
  print(out, b);
  text = out.str();
  return false;
}

}  // namespace testing

#define GEX_SHIM_COMPARE(a, b, op, returning)                                          \
  if (std::string gex_shim_text; ::testing::holds(                                     \
          a, b, [](const auto& x, const auto& y) { return x op y; }, gex_shim_text)) { \
  } else                                                                               \
    returning ::testing::Voidify() & ::testing::Failure(__FILE__, __LINE__)            \
                                         << #a " " #op " " #b ": " << gex_shim_text << " "

#define GEX_SHIM_TRUE(condition, returning)                                 \
  if (condition) {                                                          \
  } else                                                                    \
    returning ::testing::Voidify() & ::testing::Failure(__FILE__, __LINE__) \
                                         << #condition " is not as expected "

#define EXPECT_EQ(a, b) GEX_SHIM_COMPARE(a, b, ==, )
#define EXPECT_NE(a, b) GEX_SHIM_COMPARE(a, b, !=, )
#define EXPECT_LT(a, b) GEX_SHIM_COMPARE(a, b, <, )
#define EXPECT_LE(a, b) GEX_SHIM_COMPARE(a, b, <=, )
#define EXPECT_GT(a, b) GEX_SHIM_COMPARE(a, b, >, )
#define EXPECT_GE(a, b) GEX_SHIM_COMPARE(a, b, >=, )
#define ASSERT_EQ(a, b) GEX_SHIM_COMPARE(a, b, ==, return)
#define ASSERT_NE(a, b) GEX_SHIM_COMPARE(a, b, !=, return)
#define ASSERT_LT(a, b) GEX_SHIM_COMPARE(a, b, <, return)
#define ASSERT_LE(a, b) GEX_SHIM_COMPARE(a, b, <=, return)
#define ASSERT_GT(a, b) GEX_SHIM_COMPARE(a, b, >, return)
#define ASSERT_GE(a, b) GEX_SHIM_COMPARE(a, b, >=, return)
#define EXPECT_TRUE(condition) GEX_SHIM_TRUE((condition), )
#define EXPECT_FALSE(condition) GEX_SHIM_TRUE(!(condition), )
#define ASSERT_TRUE(condition) GEX_SHIM_TRUE((condition), return)
#define ASSERT_FALSE(condition) GEX_SHIM_TRUE(!(condition), return)
#define FAIL() return ::testing::Voidify() & ::testing::Failure(__FILE__, __LINE__)
#define GTEST_SKIP() \
  return ::testing::Voidify() & (::testing::skipped = true, std::cout << "  skipped: ")
#define GEX_SHIM_JOIN(a, b) a##b
#define GEX_SHIM_NAME(line) GEX_SHIM_JOIN(gex_shim_trace_, line)
#define SCOPED_TRACE(text) const ::testing::Trace GEX_SHIM_NAME(__LINE__)(text)

#define TEST(suite, name)                                                                \
  static void suite##_##name##_body();                                                   \
  static const bool suite##_##name##_is_there =                                          \
      (::testing::registered().push_back({#suite, #name, suite##_##name##_body}), true); \
  static void suite##_##name##_body()
