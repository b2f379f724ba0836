#pragma once
// A Capture is a Program bound to the sizes of a gear: its arena plan and its recordings. It serves
// those sizes and all smaller ones that fit the plan. A Frame is the state of one call of a
// Capture: evaluated sizes, addresses and the parameter block, built once and then patched. A call
// takes a Frame from its Capture and returns it, so concurrent calls never share one.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/capture/served_sizes.hpp"
#include "runtime/device.hpp"
#include "runtime/memory/release_plan.hpp"
#include "runtime/session/core_limit.hpp"
#include "runtime/session/image.hpp"
#include "runtime/session/session.hpp"

namespace gex::runtime {

// Offsets of the temporaries of one epoch in their arena block, and the scratch after them.
struct BlockPlan {
  std::vector<std::int64_t> sizes;  // by placed buffer
  plan::Placement placement;
  // The first worker runs launches of a single point alone, so the others may need less scratch.
  std::int64_t first_scratch = 0, other_scratch = 0;
  int workers = 1;
  std::int64_t bytes() const {
    return placement.total + other_scratch * (workers - 1) + first_scratch;
  }
};

// The temporaries of `epoch` for these values. UserError if a size is negative.
BlockPlan plan_block(const Image& image, int epoch, std::span<const std::int64_t> values,
                     int workers);
// Evaluates the sizes of an epoch from the symbols known by then: fills the epoch's slots.
void evaluate(const Image& image, int epoch, std::span<const std::int64_t> symbols,
              std::span<std::int64_t> values);
// Throws UserError with the guard's message and values.
void check_guards(const Image& image, int epoch, std::span<const std::int64_t> values);

class Frame {
 public:
  Frame(const Image& image, const Loaded& loaded);

  // Evaluates the sizes of epoch 0 for this key, unless they are already those.
  void set_key(std::span<const std::int64_t> key);
  // Makes the next call recompute the addresses of its temporaries, because the plan changed.
  void invalidate_addresses() { scratch[0] = {}; }
  void set_symbol(int symbol, std::int64_t value);
  // Evaluates `epoch` (> 0), checks its guards and writes its words of the block.
  void begin_epoch(int epoch);
  // Sets the addresses of the temporaries of `epoch`; skipped if base and plan are unchanged.
  void place(int epoch, const BlockPlan& plan, std::byte* base);
  // The plan of `epoch` (> 0); recomputed only when sizes differ from those of the last call.
  const BlockPlan& late_plan(int epoch, int workers);
  void patch_callers(int epoch);
  void patch_external(program::BufferId root);

  const Image& image;
  std::vector<std::int64_t> symbols, values;
  std::vector<std::int64_t> block;
  std::vector<std::byte*> base;      // by root
  std::vector<ScratchArea> scratch;  // by epoch
  // State of each call result, by BufferId. kGiven: the host owns it as an output, so it is not
  // released here.
  enum Holding : std::uint8_t { kNone, kHeld, kGiven };
  std::vector<std::uint64_t> handle;
  std::vector<Holding> held;
  struct CallState {
    std::vector<TensorRef> inputs, expected;
    std::vector<Host::CallResult> results;
  };
  std::vector<CallState> calls;

 private:
  TensorRef make_ref(const TensorLayout& layout);
  struct LatePlan {
    BlockPlan plan;
    std::vector<std::int64_t> symbols;  // that the plan was made for
  };
  std::vector<LatePlan> late_plans_;  // by epoch; [0] is unused: the Capture has that plan
  bool has_key_ = false;
};

// A part of a batch, and what can be released after it.
struct BatchPart {
  std::unique_ptr<Recording> recording;
  Release release;
};

struct Capture {
  std::vector<std::int64_t> key;          // sizes of the gear
  std::vector<std::int64_t> lookup;       // key in the CaptureTable
  std::vector<std::int64_t> gear_values;  // by slot, epoch 0
  BlockPlan plan;
  int arena_block = 0;  // of the plan
  CoreLimit limit;      // of the caller; recorded with the launches
  std::vector<std::vector<BatchPart>> batches;
  std::vector<Release> after_calls;
  std::shared_ptr<const CodeTable> generic_code;
  std::string reason;
  // The following fields change under the Session's lock:
  ServedSizes served;
  std::int64_t hits = 0;
  std::string note;

  // Whether the plan has room for the sizes that these values (by slot) give.
  bool has_room_for(const Image& image, std::span<const std::int64_t> values) const;
};

std::shared_ptr<Capture> make_capture(const Image& image, const program::Executable& executable,
                                      Device& device, Loaded& loaded,
                                      std::span<const std::int64_t> gear_key, bool keep_arena,
                                      CoreLimit limit);

}  // namespace gex::runtime
