#pragma once
// What a call can release before its end, and when: inputs that the host wants back, and arena
// pages that no later step uses.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/planner.hpp"
#include "runtime/session/image.hpp"

namespace gex::runtime {

struct ByteRange {
  std::int64_t begin = 0, end = 0;  // in the arena's first block
};

struct Release {
  std::vector<int> inputs;
  std::vector<ByteRange> arena;
};

// Advanced along the steps of the main segments, in any order.
class ReleasePlan {
 public:
  ReleasePlan() = default;  // releases nothing before the end
  // `values` by slot. `placement` and `sizes` of the temporaries of epoch 0; null: keep them.
  ReleasePlan(const Image& image, std::span<const std::int64_t> values,
              const plan::Placement* placement, std::span<const std::int64_t> sizes);

  void pass(int position);  // in the flattened step order
  bool is_worth_it() const { return pending_bytes_ > 0 && pending_bytes_ >= enough_; }
  Release take();

 private:
  struct End {
    int position = -1;
    std::int64_t bytes = 0;
    int input = -1;  // or -1: a range of the arena
    ByteRange range;
  };
  void add_arena(const Image& image, const plan::Placement& placement,
                 std::span<const std::int64_t> sizes);

  std::vector<End> ends_;  // by position
  std::size_t next_ = 0;
  Release pending_;
  std::int64_t pending_bytes_ = 0, enough_ = 0;
};

}  // namespace gex::runtime
