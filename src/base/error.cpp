#include "base/error.hpp"

namespace gex {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::shape_mismatch:
      return "shape_mismatch";
    case ErrorCode::type_mismatch:
      return "type_mismatch";
    case ErrorCode::parse_error:
      return "parse_error";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::io_error:
      return "io_error";
    case ErrorCode::invalid_graph:
      return "invalid_graph";
    case ErrorCode::device_error:
      return "device_error";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

namespace {

// Drops the build directory: keeps the path from src/ or tests/ on.
std::string short_path(std::string_view file) {
  for (std::string_view root : {"src/", "tests/", "tools/"}) {
    auto at = file.rfind(root);
    if (at != std::string_view::npos && (at == 0 || file[at - 1] == '/')) {
      return std::string(file.substr(at));
    }
  }
  return std::string(file);
}

}  // namespace

InternalError::InternalError(const char* file, int line, const std::string& message)
    : Error(ErrorCode::internal,
            str("internal error at ", short_path(file), ":", line, ": ", message)) {}

void fail_internal(const char* file, int line, const char* condition, const std::string& message) {
  throw InternalError(file, line,
                      message.empty() ? str("check failed: ", condition)
                                      : str("check failed: ", condition, ": ", message));
}

}  // namespace gex
