#pragma once
// Makes specialised code for hot shapes: called by the runtime, implemented by a backend.

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
  // Descriptions of what was measured. May be called from any thread.
  virtual std::vector<std::string> findings() const { return {}; }
};

}  // namespace gex::program
