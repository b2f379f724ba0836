#pragma once
// Better code for a hot shape: the runtime asks, a backend implements it, run-only builds lack it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "program/kernel_abi.hpp"

namespace gex::program {

class Specialiser {
 public:
  virtual ~Specialiser() = default;
  // Static code for `code` with these dims, or an empty Callable if generic code is as good. Called
  // on the background thread.
  virtual Callable specialise(int code, std::span<const std::int64_t> dims) = 0;
  // What was measured for that, in words. Any thread.
  virtual std::vector<std::string> findings() const { return {}; }
};

}  // namespace gex::program
