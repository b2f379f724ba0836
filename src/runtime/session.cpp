#include "runtime/session.hpp"

#include <algorithm>
#include <chrono>
#include <list>
#include <unordered_map>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "runtime/background.hpp"
#include "runtime/capture.hpp"
#include "runtime/executor.hpp"
#include "runtime/fork.hpp"
#include "runtime/frozen.hpp"
#include "runtime/inputs.hpp"
#include "runtime/static_code.hpp"

namespace gex::runtime {

namespace {

using Key = std::vector<std::int64_t>;

// Frames kept by a Capture: as many calls at once find one ready.
constexpr std::size_t kIdleFrames = 8;

struct KeyHash {
  using is_transparent = void;
  std::size_t operator()(std::span<const std::int64_t> key) const {
    return hash_bytes(key.data(), key.size_bytes());
  }
};
struct KeyEqual {
  using is_transparent = void;
  bool operator()(std::span<const std::int64_t> a, std::span<const std::int64_t> b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
};

// Whether sizes of this frame fit the arena plan made for the gear's sizes.
bool fits(const Image& image, const Capture& capture, const Frame& frame) {
  const EpochLayout& epoch = image.epochs[0];
  for (std::size_t i = 0; i < epoch.placed.size(); ++i)
    for (int slot : epoch.size_slots[i])
      if (frame.values[static_cast<std::size_t>(slot)] > capture.plan.sizes[i]) return false;
  return true;
}

}  // namespace

// Shared with background jobs, which may outlive the Session.
struct Session::State : std::enable_shared_from_this<Session::State> {
  State(std::shared_ptr<const program::Program> program, SessionOptions the_options,
        std::shared_ptr<Specialiser> the_specialiser)
      : options(std::move(the_options)),
        image(std::move(program)),
        matcher(image),
        context(options.device ? options.device : open_device(options.driver)),
        loaded(context->device->load(*image.program)),
        frozen(*image.program, options.frozen, *context->device, *loaded),
        specialises(the_specialiser != nullptr && options.static_code &&
                    context->device->runs_callables()),
        static_code(std::move(the_specialiser)) {}

  // A Capture with everything a call needs of it, given back at the end of the scope.
  struct Use {
    State& state;
    std::shared_ptr<Capture> capture;
    std::shared_ptr<const CodeTable> code;
    std::unique_ptr<Frame> frame;
    bool made_now = false;
    ~Use();
  };

  void run(std::span<const InputArg> inputs, Host& host);
  bool find(std::span<const std::int64_t> gear_key, Use& use);
  void make(std::span<const std::int64_t> gear_key, Use& use);
  void finish(Use& use, const CallCounts& counts);
  void ask_for_static_code(const std::shared_ptr<Capture>& capture);
  std::string reason_for(std::span<const std::int64_t> key) const;

  const SessionOptions options;
  const Image image;
  const InputMatcher matcher;
  const std::shared_ptr<DeviceContext> context;
  const std::unique_ptr<Loaded> loaded;
  const FrozenConstants frozen;
  const bool specialises;
  StaticCode static_code;  // used by the background thread alone

  mutable ForkSafeMutex mutex;  // guards all that follows, and the Captures' changing fields
  std::list<std::shared_ptr<Capture>> by_use;  // most recent first
  std::unordered_map<Key, std::list<std::shared_ptr<Capture>>::iterator, KeyHash, KeyEqual> by_key;
  Key last_key;
  Counters counters;
};

Session::State::Use::~Use() {
  if (capture == nullptr || frame == nullptr) return;
  const std::lock_guard lock(state.mutex);
  if (capture->idle_frames.size() < kIdleFrames) capture->idle_frames.push_back(std::move(frame));
}

bool Session::State::find(std::span<const std::int64_t> gear_key, Use& use) {
  const std::lock_guard lock(mutex);
  const auto found = by_key.find(gear_key);
  if (found == by_key.end()) return false;
  by_use.splice(by_use.begin(), by_use, found->second);
  use.capture = *found->second;
  use.code = use.capture->code;
  if (!use.capture->idle_frames.empty()) {
    use.frame = std::move(use.capture->idle_frames.back());
    use.capture->idle_frames.pop_back();
  }
  return true;
}

// The frame has the key already: a call that does not fit fails before anything is planned.
void Session::State::make(std::span<const std::int64_t> gear_key, Use& use) {
  const auto start = std::chrono::steady_clock::now();
  use.capture = make_capture(image, *context->device, *loaded, gear_key, options.keep_arena);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  use.capture->idle_frames.reserve(kIdleFrames);
  use.code = use.capture->code;
  use.made_now = true;
  const std::lock_guard lock(mutex);
  use.capture->reason = reason_for(gear_key);
  counters.plan_ns += took.count();
  counters.arena_bytes = std::max(counters.arena_bytes, use.capture->plan.bytes());
  counters.arena_lower_bound =
      std::max(counters.arena_lower_bound, use.capture->plan.placement.lower_bound);
  if (options.capture_limit <= 0) {
    ++counters.uncaptured;
    return;
  }
  ++counters.captures;
  // Another thread may have made the same one meanwhile; the newer one serves this call only.
  if (by_key.contains(gear_key)) return;
  by_use.push_front(use.capture);
  by_key.emplace(use.capture->key, by_use.begin());
  while (static_cast<std::int64_t>(by_use.size()) > options.capture_limit) {
    by_key.erase(by_use.back()->key);
    by_use.pop_back();
    ++counters.evictions;
  }
}

std::string Session::State::reason_for(std::span<const std::int64_t> key) const {
  if (counters.captures + counters.uncaptured == 0) return "first call";
  std::string reason;
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (i >= last_key.size() || key[i] == last_key[i]) continue;
    if (!reason.empty()) reason += ", ";
    reason += str(matcher.source_of(static_cast<int>(i)), " was ", last_key[i], ", now ", key[i]);
  }
  return reason.empty() ? "there was no capture of these sizes any more" : reason;
}

void Session::State::run(std::span<const InputArg> inputs, Host& host) {
  // Only used until the frame has the sizes: a call inside this one may overwrite them later.
  thread_local Key key, gear_key;
  key.resize(static_cast<std::size_t>(image.num_input_symbols()));
  matcher.bind(inputs, key);
  gear_key = key;
  loaded->round_up(gear_key);

  Use use{*this};
  find(gear_key, use);
  if (use.frame == nullptr) use.frame = std::make_unique<Frame>(image, *loaded);
  use.frame->set_key(key);
  matcher.check(inputs, use.frame->values);
  if (use.capture == nullptr) {
    host.begins(Host::Phase::capture);
    make(gear_key, use);
  }
  if (gear_key != key && !fits(image, *use.capture, *use.frame)) {
    // Sizes that shrink where the input grows: no larger gear can serve them.
    use.capture = nullptr;
    use.frame = std::make_unique<Frame>(image, *loaded);
    find(key, use);
    use.frame->set_key(key);
    if (use.capture == nullptr) make(key, use);
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
    counters.bytes_copied += counts.tally.bytes_copied;
    counters.host_calls += counts.host_calls;
    counters.allocations += counts.allocations;
    counters.inputs_released += counts.inputs_released;
    ++use.capture->hits;
    last_key.assign(use.capture->key.begin(), use.capture->key.end());
    ask = specialises && options.capture_limit > 0 && !use.capture->asked_for_static_code &&
          use.capture->hits >= options.hot_after;
    if (ask) use.capture->asked_for_static_code = true;
  }
  if (ask) ask_for_static_code(use.capture);
}

void Session::State::ask_for_static_code(const std::shared_ptr<Capture>& capture) {
  run_in_background([weak_state = weak_from_this(), weak_capture = std::weak_ptr(capture)] {
    const auto state = weak_state.lock();
    const auto hot = weak_capture.lock();
    if (state == nullptr || hot == nullptr) return;  // nobody runs this shape any more
    std::shared_ptr<const CodeTable> present;
    {
      const std::lock_guard lock(state->mutex);
      present = hot->code;
    }
    StaticCode::Result result = state->static_code.specialise(state->image, *hot, *present);
    const std::lock_guard lock(state->mutex);
    if (result.code != nullptr) hot->code = std::move(result.code);
    hot->note = std::move(result.error);
    state->counters.specialised += result.replaced;
  });
}

Session::Session(std::shared_ptr<const program::Program> program, SessionOptions options,
                 std::shared_ptr<Specialiser> specialiser)
    : state_(std::make_shared<State>(std::move(program), std::move(options),
                                     std::move(specialiser))) {}

Session::~Session() {
  // A background job may keep the state for a moment; memory of the caller's goes back now.
  if (state_->options.device) state_->context->queues->trim();
}

void Session::run(std::span<const InputArg> inputs, Host& host) { state_->run(inputs, host); }

const program::Program& Session::program() const { return *state_->image.program; }

Counters Session::counters() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counters;
}

std::vector<CaptureInfo> Session::captures() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<CaptureInfo> out;
  for (const auto& capture : state_->by_use)
    out.push_back({capture->key, capture->hits, capture->plan.bytes(),
                   capture->plan.placement.lower_bound, capture->reason, capture->note});
  return out;
}

}  // namespace gex::runtime
