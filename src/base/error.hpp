#pragma once
// Two kinds of errors: UserError says what the caller did wrong and how to fix it; InternalError is
// a bug in gex and contains the source location of the failed check.

#include <sstream>
#include <stdexcept>
#include <string>

namespace gex {

enum class ErrorCode {
  invalid_argument,
  shape_mismatch,
  type_mismatch,
  parse_error,
  unsupported,
  not_found,
  out_of_memory,
  io_error,
  invalid_graph,
  device_error,
  internal,
};

const char* to_string(ErrorCode code);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

class UserError : public Error {
 public:
  using Error::Error;
};

class InternalError : public Error {
 public:
  InternalError(const char* file, int line, const std::string& message);
};

// Joins anything streamable; the project's only formatting helper (g++ 12 has no <format>).
template <class... Args>
std::string str(const Args&... args) {
  std::ostringstream out;
  ((out << args), ...);
  return out.str();
}

template <class... Args>
[[noreturn]] void fail(ErrorCode code, const Args&... args) {
  throw UserError(code, str(args...));
}

[[noreturn]] void fail_internal(const char* file, int line, const char* condition,
                                const std::string& message);

}  // namespace gex

// Internal invariant. Not for user input: use gex::fail there.
#define GEX_CHECK(condition, ...)                                                    \
  do {                                                                               \
    if (!(condition))                                                                \
      ::gex::fail_internal(__FILE__, __LINE__, #condition, ::gex::str(__VA_ARGS__)); \
  } while (false)
