#include "runtime/session/session.hpp"

#include <algorithm>
#include <chrono>

#include "base/error.hpp"
#include "runtime/background/background.hpp"
#include "runtime/background/fork.hpp"
#include "runtime/background/static_code.hpp"
#include "runtime/capture/capture_table.hpp"
#include "runtime/capture/gears.hpp"
#include "runtime/memory/frozen.hpp"
#include "runtime/session/executor.hpp"
#include "runtime/session/inputs.hpp"

namespace gex::runtime {

namespace {

using Key = SizeKey;

// A gear takes no more address space than this; larger programs get Captures of their own sizes.
constexpr std::int64_t kLargestGearBytes = std::int64_t{1} << 30;

std::string driver_of(const program::Program& program, const SessionOptions& options) {
  if (!options.driver.empty()) return options.driver;
  constexpr std::string_view kCuda = "cuda";
  if (!program.target.starts_with(kCuda)) return program.target;
  return "cuda_graph" + program.target.substr(kCuda.size());
}

}  // namespace

// Shared with background jobs, which may outlive the Session.
struct Session::State : std::enable_shared_from_this<Session::State> {
  State(std::shared_ptr<const program::Executable> the_executable, SessionOptions the_options,
        std::shared_ptr<Specialiser> the_specialiser)
      : options(std::move(the_options)),
        executable(std::move(the_executable)),
        image(executable->program, options.reuse_memory),
        matcher(image),
        context(options.device ? options.device
                               : open_device(driver_of(*executable->program, options))),
        loaded(context->device->load(*executable)),
        frozen(*image.program, options.frozen, *context->device, *loaded),
        // Where code is recorded into device graphs, values are part of what is recorded.
        gears(image, options.gears, context->device->runs_callables()),
        specialises(the_specialiser != nullptr && options.static_code &&
                    context->device->runs_callables()),
        static_code(std::move(the_specialiser)) {}

  // A Capture with everything a call needs of it, given back at the end of the scope.
  struct Use {
    State& state;
    std::shared_ptr<Capture> capture;
    std::shared_ptr<Served> served;  // null: not these sizes yet
    std::shared_ptr<const CodeTable> code;
    std::unique_ptr<Frame> frame;
    bool made_now = false;
    CoreLimit limit = current_limit();
    ~Use();
  };

  void run(std::span<const InputArg> inputs, Host& host);
  void find(std::span<const std::int64_t> key, std::span<std::int64_t> gear_key, Use& use);
  void settle(std::span<const std::int64_t> key, std::span<const std::int64_t> gear_key, Host& host,
              Use& use);
  std::shared_ptr<Capture> make_gear(std::span<const std::int64_t> gear_key, const Use& use);
  void make(std::span<const std::int64_t> key, std::span<const std::int64_t> gear_key, Use& use);
  void recapture(Use& use, bool forced);
  void give_block(Capture& capture);
  void keep(const std::shared_ptr<Capture>& capture);
  void finish(Use& use, const CallCounts& counts);
  void ask_for_static_code(const std::shared_ptr<Capture>& capture,
                           const std::shared_ptr<Served>& served);
  std::string reason_for(std::span<const std::int64_t> key,
                         std::span<const std::int64_t> gear_key) const;

  const SessionOptions options;
  const std::shared_ptr<const program::Executable> executable;
  const Image image;
  const InputMatcher matcher;
  const std::shared_ptr<DeviceContext> context;
  const std::unique_ptr<Loaded> loaded;
  const FrozenConstants frozen;
  const Gears gears;
  const bool specialises;
  StaticCode static_code;  // used by the background thread alone

  mutable ForkSafeMutex mutex;  // guards all that follows, and the Captures' changing fields
  CaptureTable table;
  std::vector<int> free_blocks;  // of the arena, where Captures don't share one
  int num_blocks = 0;
  Key last_key;
  Counters counters;
};

Session::State::Use::~Use() {
  if (served == nullptr || frame == nullptr) return;
  const std::lock_guard lock(state.mutex);
  capture->served.give_back(*served, std::move(frame));
}

// The Capture of exactly these sizes, or of the gear above them.
void Session::State::find(std::span<const std::int64_t> key, std::span<std::int64_t> gear_key,
                          Use& use) {
  thread_local Key lookup;
  const std::lock_guard lock(mutex);
  lookup.assign(key.begin(), key.end());
  gears.keep_sizes(lookup);
  use.capture = table.find(lookup);
  if (use.capture == nullptr) {
    gears.round_up(gear_key, counters.captures);
    loaded->round_up(gear_key);
    lookup.assign(gear_key.begin(), gear_key.end());
    gears.keep_sizes(lookup);
    use.capture = table.find(lookup);
  }
  if (use.capture == nullptr) return;
  use.served = use.capture->served.find(key);
  use.frame = use.capture->served.take_frame(use.served.get());
  if (use.served != nullptr) use.code = use.served->code;
}

// The frame has the key already: a call that does not fit fails before anything is planned.
void Session::State::settle(std::span<const std::int64_t> key,
                            std::span<const std::int64_t> gear_key, Host& host, Use& use) {
  const bool found = use.capture != nullptr;
  if (!found || !use.capture->has_room_for(image, use.frame->values)) {
    host.begins(Host::Phase::capture);
    // Sizes that shrink where the input grows: no larger gear serves them.
    make(key, found ? key : gear_key, use);
  }
  const std::lock_guard lock(mutex);
  ServedSizes& sizes = use.capture->served;
  use.served = sizes.find(key);  // another thread may have been here meanwhile
  if (use.served == nullptr) use.served = sizes.admit(key, use.capture->generic_code);
  use.code = use.served->code;
}

// Null if the gear has no room for the call's own sizes, or takes too much itself.
std::shared_ptr<Capture> Session::State::make_gear(std::span<const std::int64_t> gear_key,
                                                   const Use& use) {
  try {
    auto capture = make_capture(image, *executable, *context->device, *loaded, gear_key,
                                options.keep_arena, use.limit);
    const bool is_small = capture->plan.bytes() <= kLargestGearBytes;
    return is_small && capture->has_room_for(image, use.frame->values) ? capture : nullptr;
  } catch (const UserError&) {
    return nullptr;  // expressions over sizes may have no value for the gear's
  }
}

void Session::State::make(std::span<const std::int64_t> key, std::span<const std::int64_t> gear_key,
                          Use& use) {
  const auto start = std::chrono::steady_clock::now();
  use.capture = nullptr;
  if (!std::ranges::equal(key, gear_key)) use.capture = make_gear(gear_key, use);
  if (use.capture == nullptr)
    use.capture = make_capture(image, *executable, *context->device, *loaded, key,
                               options.keep_arena, use.limit);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  use.made_now = true;
  use.frame->forget_places();  // it may be another Capture's
  use.capture->lookup = use.capture->key;
  gears.keep_sizes(use.capture->lookup);
  const std::lock_guard lock(mutex);
  use.capture->reason = reason_for(key, use.capture->key);
  counters.plan_ns += took.count();
  if (options.capture_limit <= 0) {
    ++counters.uncaptured;
    return;
  }
  ++counters.captures;
  // Another thread may have made the same one meanwhile; the newer one serves this call only.
  if (!table.contains(use.capture->lookup)) keep(use.capture);
}

void Session::State::keep(const std::shared_ptr<Capture>& capture) {
  counters.arena_bytes = std::max(counters.arena_bytes, capture->plan.bytes());
  counters.arena_lower_bound =
      std::max(counters.arena_lower_bound, capture->plan.placement.lower_bound);
  give_block(*capture);
  table.put(capture);
  for (const auto& dropped : table.shrink(options.capture_limit)) {
    if (dropped->arena_block > 0) free_blocks.push_back(dropped->arena_block);
    ++counters.evictions;
  }
}

// Blocks of epochs come first in an arena.
void Session::State::give_block(Capture& capture) {
  if (options.captures_share_arena) return;
  if (free_blocks.empty())
    free_blocks.push_back(static_cast<int>(image.epochs.size()) + num_blocks++);
  capture.arena_block = free_blocks.back();
  free_blocks.pop_back();
}

// Sizes, plan and recordings are made anew; the old ones go when nobody runs them any more.
void Session::State::recapture(Use& use, bool forced) {
  auto anew = make_capture(image, *executable, *context->device, *loaded, use.capture->key,
                           options.keep_arena, use.limit);
  anew->lookup = use.capture->lookup;
  anew->arena_block = use.capture->arena_block;
  anew->reason = forced ? "force_recapture" : "the core limit of the caller's stream changed";
  const Key key = use.served->key;
  const std::lock_guard lock(mutex);
  anew->hits = use.capture->hits;
  ++(forced ? counters.recaptures : counters.limit_recaptures);
  table.put(anew);
  use.capture = std::move(anew);
  use.served = use.capture->served.admit(key, use.capture->generic_code);
  use.code = use.served->code;
}

std::string Session::State::reason_for(std::span<const std::int64_t> key,
                                       std::span<const std::int64_t> gear_key) const {
  if (counters.captures + counters.uncaptured == 0) return "first call";
  std::string changes, covering;
  int num_gears = 0;
  bool both = true;
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (i >= last_key.size() || key[i] == last_key[i] || !gears.matters(i)) continue;
    changes += str(changes.empty() ? "" : ", ", matcher.source_of(static_cast<int>(i)), " was ",
                   last_key[i], ", now ", key[i]);
    if (gear_key[i] == key[i]) continue;
    covering += str(covering.empty() ? "" : ", ", gear_key[i]);
    ++num_gears;
    both = both && last_key[i] <= gear_key[i];
  }
  if (changes.empty()) return "there was no capture of these sizes any more";
  if (num_gears == 0) return changes;
  return str(changes, num_gears > 1 ? "; gears " : "; gear ", covering,
             num_gears > 1 ? " cover " : " covers ", both ? "both" : "it");
}

void Session::State::run(std::span<const InputArg> inputs, Host& host) {
  // Only used until the frame has the sizes: a call inside this one may overwrite them later.
  thread_local Key key, gear_key;
  key.resize(static_cast<std::size_t>(image.num_input_symbols()));
  matcher.bind(inputs, key);
  gear_key = key;

  Use use{*this};
  find(key, gear_key, use);
  if (use.frame == nullptr) use.frame = std::make_unique<Frame>(image, *loaded);
  use.frame->set_key(key);
  matcher.check(inputs, use.frame->values);
  const bool forced = options.force_recapture && use.served != nullptr;
  if (use.served == nullptr) settle(key, gear_key, host, use);
  if (forced || (!use.made_now && use.capture->limit != use.limit)) {
    host.begins(Host::Phase::capture);
    recapture(use, forced);
    use.frame->forget_places();
  }
  host.begins(Host::Phase::replay);
  Executor executor(*use.capture, use.code, *use.frame, *context, inputs, host, options.keep_arena);
  executor.run();
  finish(use, executor.counts());
}

void Session::State::finish(Use& use, const CallCounts& counts) {
  bool ask = false;
  {
    const std::lock_guard lock(mutex);
    ++counters.calls;
    if (!use.made_now) ++counters.replays;
    counters.launches += counts.tally.launches;
    counters.recordings += counts.tally.recordings;
    counters.graph_launches += counts.tally.graph_launches;
    counters.single_launches += counts.tally.single_launches;
    counters.limited_launches += counts.tally.limited;
    counters.overlapped_launches += counts.tally.overlapped;
    counters.bytes_copied += counts.tally.bytes_copied;
    counters.host_calls += counts.host_calls;
    counters.allocations += counts.allocations;
    counters.inputs_released += counts.inputs_released;
    ++use.capture->hits;
    ++use.served->hits;
    last_key = use.served->key;
    ask = specialises && options.capture_limit > 0 && !use.served->has_own_code &&
          use.served->hits >= options.hot_after &&
          use.capture->served.reserve_own_code(*use.served);
  }
  if (ask) ask_for_static_code(use.capture, use.served);
}

void Session::State::ask_for_static_code(const std::shared_ptr<Capture>& capture,
                                         const std::shared_ptr<Served>& served) {
  run_in_background([weak_state = weak_from_this(), weak_capture = std::weak_ptr(capture),
                     weak_served = std::weak_ptr(served)] {
    const auto state = weak_state.lock();
    const auto of = weak_capture.lock();
    const auto hot = weak_served.lock();
    // Nobody runs these sizes any more.
    if (state == nullptr || of == nullptr || hot == nullptr) return;
    std::shared_ptr<const CodeTable> present;
    {
      const std::lock_guard lock(state->mutex);
      present = hot->code;
    }
    StaticCode::Result result = state->static_code.specialise(state->image, hot->key, *present);
    const std::lock_guard lock(state->mutex);
    if (result.code != nullptr && hot->has_own_code) hot->code = std::move(result.code);
    of->note = std::move(result.error);
    state->counters.specialised += result.replaced;
  });
}

Session::Session(std::shared_ptr<const program::Executable> executable, SessionOptions options,
                 std::shared_ptr<Specialiser> specialiser)
    : state_(std::make_shared<State>(std::move(executable), std::move(options),
                                     std::move(specialiser))) {}

Session::~Session() {
  // A background job may keep the state for a moment; memory of the caller's goes back now.
  if (state_->options.device) state_->context->queues->trim();
}

void Session::run(std::span<const InputArg> inputs, Host& host) { state_->run(inputs, host); }

std::vector<std::string> Session::findings() const { return state_->static_code.findings(); }

const program::Program& Session::program() const { return *state_->image.program; }
bool Session::reuses_memory() const { return state_->options.reuse_memory; }

Counters Session::counters() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counters;
}

std::vector<CaptureInfo> Session::captures() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<CaptureInfo> out;
  for (const auto& capture : state_->table.by_use())
    out.push_back({capture->key, capture->hits, capture->plan.bytes(),
                   capture->plan.placement.lower_bound, capture->reason, capture->note});
  return out;
}

std::size_t Session::pool_bytes() const { return state_->context->queues->idle_bytes(); }

}  // namespace gex::runtime
