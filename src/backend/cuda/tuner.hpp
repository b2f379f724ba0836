#pragma once
// Finds the fastest form of a problem of given sizes on this GPU: measured once, cached in memory
// and in the Store. Until then, and wherever nothing can be measured, the cost model decides.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/cuda/kernel_text.hpp"
#include "backend/parsed_codes.hpp"
#include "cache/store.hpp"
#include "program/specialiser.hpp"

namespace gex {
class ObjectStore;
}

namespace gex::backend::cuda {

class Tuner {
 public:
  // `machine`: the GPU and the compiler that the measurements are for. The store may be null.
  Tuner(std::shared_ptr<gex::Store> store, std::string machine)
      : store_(std::move(store)), machine_(std::move(machine)) {}

  // For code `number`, with these values of its dims. Nothing: what the Program launches already.
  std::optional<Form> best(const ParsedCode& code, int number, std::span<const std::int64_t> dims,
                           const DeviceLimits& limits, const program::TimeTrials& measured,
                           ObjectStore* objects);

  // One line per measured or cached problem, in order.
  std::vector<std::string> findings() const;

 private:
  struct Candidates;
  std::optional<std::size_t> known(const Digest& key, const Candidates& candidates);
  std::size_t remember(const Digest& key, std::size_t choice, std::string finding);

  const std::shared_ptr<gex::Store> store_;
  const std::string machine_;
  mutable std::mutex mutex_;  // guards the following fields
  std::unordered_map<std::string, std::size_t> known_;
  std::vector<std::string> findings_;
};

}  // namespace gex::backend::cuda
