#pragma once
// Time spent in launches, for GEX_PROFILE=<rows>: launches with the same name and sizes are one
// row, and the table is printed to standard error when the process exits.

#include <cstdint>
#include <map>
#include <mutex>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace gex::runtime {

class Profile {
 public:
  explicit Profile(std::size_t rows) : shown_(rows) {}

  // `work` in scalar steps: multiply-adds of a contraction.
  void add(std::string_view name, std::span<const std::int64_t> sizes, std::int64_t work,
           std::int64_t nanoseconds);
  // Sorted by total time: total, share, calls, fastest call, work per nanosecond of that call.
  void print(std::ostream& out) const;

  // Null unless GEX_PROFILE is set; read once.
  static Profile* active();

 private:
  struct Row {
    std::int64_t calls = 0, nanoseconds = 0, fastest = 0, work = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Row> rows_;
  std::size_t shown_;
};

}  // namespace gex::runtime
