#pragma once
// The error of a shape rule that needs two sizes to be equal that are not known to be.

#include "base/dim/dim.hpp"
#include "base/error.hpp"

namespace gex {

class SizesDiffer : public UserError {
 public:
  SizesDiffer(const std::string& message, Dim left, Dim right)
      : UserError(ErrorCode::shape_mismatch, message), a(left), b(right) {}
  Dim a, b;
};

// The same error with another message.
[[noreturn]] void fail_as(const UserError& error, const std::string& message);

}  // namespace gex
