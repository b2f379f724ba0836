#pragma once
// Better code for hot shapes: asks the Specialiser on the background thread, launch by launch, and
// remembers what it said, so that captures and layers with equal sizes share code.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/capture/capture.hpp"

namespace gex::runtime {

class StaticCode {
 public:
  explicit StaticCode(std::shared_ptr<Specialiser> specialiser)
      : specialiser_(std::move(specialiser)) {}

  struct Result {
    std::shared_ptr<const CodeTable> code;  // null: nothing better than what the capture has
    std::int64_t replaced = 0;              // launches with new code
    std::string error;                      // why some launch kept its generic code; empty if none
  };
  std::vector<std::string> findings() const {  // any thread
    return specialiser_ ? specialiser_->findings() : std::vector<std::string>();
  }
  // On the background thread. Gives up early when the process ends.
  Result specialise(const Image& image, std::span<const std::int64_t> key,
                    const CodeTable& present);

 private:
  program::Callable code_for(int code, const std::vector<std::int64_t>& dims, std::string& error);

  const std::shared_ptr<Specialiser> specialiser_;
  std::map<std::pair<int, std::vector<std::int64_t>>, program::Callable> known_;
};

}  // namespace gex::runtime
