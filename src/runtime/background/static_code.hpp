#pragma once
// Specialised code for hot shapes: asks the Specialiser on the background thread for each launch
// and caches its results, so that captures and layers with equal sizes share code.

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
    std::shared_ptr<const CodeTable> code;  // null: nothing better than the capture's current code
    std::int64_t replaced = 0;              // launches with new code
    std::string error;  // why some launch kept its generic code; empty if none did
  };
  std::vector<std::string> findings() const {  // may be called from any thread
    return specialiser_ ? specialiser_->findings() : std::vector<std::string>();
  }
  // Runs on the background thread. Returns early when the process exits. `request`: for a device
  // that runs no Callables; else null.
  Result specialise(const Image& image, std::span<const std::int64_t> key, const CodeTable& present,
                    const program::DeviceCodeRequest* request);

 private:
  Result specialise_on_device(const Image& image, std::span<const std::int64_t> values,
                              const CodeTable& present, const program::DeviceCodeRequest& request);
  program::Callable code_for(int code, const std::vector<std::int64_t>& dims, std::string& error);

  const std::shared_ptr<Specialiser> specialiser_;
  std::map<std::pair<int, std::vector<std::int64_t>>, program::Callable> known_;
};

}  // namespace gex::runtime
