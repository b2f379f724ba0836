#include "runtime/session/session.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "program/control.hpp"
#include "runtime/background/background.hpp"
#include "runtime/background/fork.hpp"
#include "runtime/background/static_code.hpp"
#include "runtime/capture/capture_table.hpp"
#include "runtime/capture/gears.hpp"
#include "runtime/memory/frozen.hpp"
#include "runtime/session/executor.hpp"
#include "runtime/session/inputs.hpp"
#include "runtime/session/staged_call.hpp"
#include "runtime/session/tool_range.hpp"

namespace gex::runtime {

namespace {

using Key = SizeKey;

// The largest arena of a gear; programs that need more get Captures of their exact sizes.
constexpr std::int64_t kLargestGearBytes = std::int64_t{1} << 30;

std::string text_of(const Key& key) {
  std::string text;
  for (const std::int64_t size : key) text += str(text.empty() ? "" : ", ", size);
  return text;
}

// The device that the calling thread uses for its own work stays the caller's.
class ThreadState {
 public:
  explicit ThreadState(const Device& device) : device_(device), kept_(device.thread_state()) {}
  ~ThreadState() { device_.set_thread_state(kept_); }
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

 private:
  const Device& device_;
  const std::uint64_t kept_;
};

std::shared_ptr<const program::Executable> verified(
    std::shared_ptr<const program::Executable> executable) {
  program::verify(*executable->program);
  return executable;
}

}  // namespace

// Shared with background jobs, which may outlive the Session.
struct Session::State : std::enable_shared_from_this<Session::State> {
  State(std::shared_ptr<const program::Executable> the_executable, SessionOptions the_options,
        std::shared_ptr<Specialiser> the_specialiser)
      : options(std::move(the_options)),
        executable(verified(std::move(the_executable))),
        context(open_context()),
        loaded(load()),
        image(executable->program, options.reuse_memory, loaded->records_control),
        matcher(image),
        frozen(*image.program, options.frozen, options.frozen_on_device, *context->device, *loaded),
        // If code is recorded into device graphs, values are part of the recording.
        gears(image, options.gears, context->device->runs_callables(), loaded->gears),
        specialises(the_specialiser != nullptr && options.static_code &&
                    (context->device->runs_callables() ||
                     (context->device->takes_device_code() &&
                      (options.static_code_at_once || the_specialiser->tunes())))),
        static_code(std::move(the_specialiser)) {}

  // A Capture and everything a call needs from it, and counts of the call. A finished call appends
  // it to `ended`, and the next thread that takes the lock adds up the counts: a call takes the
  // lock only once.
  struct Use {
    std::shared_ptr<Capture> capture;
    std::shared_ptr<Served> served;  // null: these sizes were not served yet
    std::shared_ptr<const CodeTable> code;
    std::unique_ptr<Frame> frame;
    std::int64_t hits = 0;  // of the sizes, before the call
    bool has_own_code = false;
    bool made_now = false;
    CoreLimit limit;
    CallCounts counts;
    Use* next = nullptr;  // in `ended`

    void serve(std::shared_ptr<Served> sizes) {
      served = std::move(sizes);
      code = served->code;
      hits = served->hits;
      has_own_code = served->has_own_code;
    }
  };
  // The Use of a running call; returned if the call fails.
  struct Running {
    State& state;
    std::unique_ptr<Use> use;
    ~Running() {
      if (use != nullptr) state.abandon(std::move(use));
    }
  };
  // The lock, with the calls that ended before it was taken added up.
  class Locked {
   public:
    explicit Locked(State& state) : lock_(state.mutex) { state.add_up_ended(); }

   private:
    const std::lock_guard<ForkSafeMutex> lock_;
  };
  ~State();

  std::shared_ptr<DeviceContext> open_context() const {
    if (options.device != nullptr) return options.device;
    return open_device(options.driver.empty() ? driver_of(executable->program->target)
                                              : options.driver);
  }

  std::unique_ptr<Loaded> load() const {
    const ThreadState unchanged(*context->device);
    return context->device->load(*executable);
  }

  void run(std::span<const InputArg> inputs, Host& host);
  std::unique_ptr<Use> find(std::span<const std::int64_t> key, std::span<std::int64_t> gear_key);
  void find_or_make(std::span<const std::int64_t> key, std::span<const std::int64_t> gear_key,
                    Host& host, Use& use);
  std::shared_ptr<Capture> make_gear(std::span<const std::int64_t> gear_key, const Use& use);
  void make(std::span<const std::int64_t> key, std::span<const std::int64_t> gear_key, Use& use);
  void count_made(const std::shared_ptr<Capture>& capture);
  void recapture(Use& use, bool forced);
  void assign_block(Capture& capture);
  void keep(const std::shared_ptr<Capture>& capture);
  void finish(std::unique_ptr<Use> use);
  void abandon(std::unique_ptr<Use> use);
  void add_up_ended();
  void add_up(Use& use);
  void recycle(std::unique_ptr<Use> use);
  void ask_for_static_code(const std::shared_ptr<Capture>& capture,
                           const std::shared_ptr<Served>& served);
  std::string reason_for(std::span<const std::int64_t> key,
                         std::span<const std::int64_t> gear_key) const;

  const SessionOptions options;
  const std::shared_ptr<const program::Executable> executable;
  const std::shared_ptr<DeviceContext> context;
  StagingBlocks staging{*context->device};
  const std::unique_ptr<Loaded> loaded;
  const Image image;
  const InputMatcher matcher;
  const FrozenConstants frozen;
  const Gears gears;
  const bool specialises;
  StaticCode static_code;  // used only by the background thread

  mutable ForkSafeMutex mutex;  // guards everything below, and the Captures' mutable fields
  CaptureTable table;
  std::vector<int> free_blocks;  // of the arena, if Captures don't share one
  int num_blocks = 0;
  Key last_key;
  Counters counters;
  std::vector<std::unique_ptr<Use>> idle_uses;

  std::atomic<Use*> ended = nullptr;  // not guarded; newest first
};

Session::State::~State() { add_up_ended(); }

void Session::State::add_up_ended() {
  Use* last = ended.exchange(nullptr, std::memory_order_acquire);
  Use* first = nullptr;
  while (last != nullptr) first = std::exchange(last, std::exchange(last->next, first));
  while (first != nullptr) {
    std::unique_ptr<Use> use(first);
    first = use->next;
    add_up(*use);
    recycle(std::move(use));
  }
}

void Session::State::add_up(Use& use) {
  const CallCounts& counts = use.counts;
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
}

// Under the lock.
void Session::State::recycle(std::unique_ptr<Use> use) {
  if (use->served != nullptr && use->frame != nullptr)
    use->capture->served.give_back(*use->served, std::move(use->frame));
  if (idle_uses.size() >= ServedSizes::kIdleFrames) return;
  *use = {};
  idle_uses.push_back(std::move(use));
}

void Session::State::abandon(std::unique_ptr<Use> use) {
  const Locked lock(*this);
  recycle(std::move(use));
}

// Finds the Capture of exactly these sizes, or of the gear that covers them.
std::unique_ptr<Session::State::Use> Session::State::find(std::span<const std::int64_t> key,
                                                          std::span<std::int64_t> gear_key) {
  thread_local Key lookup;
  const CoreLimit limit = current_limit();
  const Locked lock(*this);
  std::unique_ptr<Use> use;
  if (idle_uses.empty()) {
    use = std::make_unique<Use>();
  } else {
    use = std::move(idle_uses.back());
    idle_uses.pop_back();
  }
  use->limit = limit;
  lookup.assign(key.begin(), key.end());
  gears.keep_sizes(lookup);
  use->capture = table.find(lookup);
  if (use->capture == nullptr) {
    gears.round_up(gear_key, counters.captures);
    lookup.assign(gear_key.begin(), gear_key.end());
    gears.keep_sizes(lookup);
    use->capture = table.find(lookup);
  }
  if (use->capture == nullptr) return use;
  if (auto served = use->capture->served.find(key)) use->serve(std::move(served));
  use->frame = use->capture->served.take_frame(use->served.get());
  return use;
}

// The frame already has the key, so sizes that don't fit fail before anything is planned.
void Session::State::find_or_make(std::span<const std::int64_t> key,
                                  std::span<const std::int64_t> gear_key, Host& host, Use& use) {
  const bool found = use.capture != nullptr;
  if (!found || !use.capture->has_room_for(image, use.frame->values)) {
    host.begins(Host::Phase::capture);
    // Some size grows where an input shrinks: a larger gear can't serve it.
    make(key, found ? key : gear_key, use);
  }
  const Locked lock(*this);
  ServedSizes& sizes = use.capture->served;
  auto served = sizes.find(key);  // another thread may have added it meanwhile
  if (served == nullptr) served = sizes.admit(key, use.capture->generic_code);
  use.serve(std::move(served));
}

// Null if the gear has no room for the call's own sizes, or is too large itself.
std::shared_ptr<Capture> Session::State::make_gear(std::span<const std::int64_t> gear_key,
                                                   const Use& use) {
  try {
    auto capture = make_capture(image, *executable, *context->device, *loaded, gear_key,
                                options.keep_arena, use.limit);
    const bool is_small = capture->plan.bytes() <= kLargestGearBytes;
    return is_small && capture->has_room_for(image, use.frame->values) ? capture : nullptr;
  } catch (const UserError&) {
    return nullptr;  // expressions over the gear's sizes may be undefined
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
  use.frame->invalidate_addresses();  // it may have the addresses of another Capture
  use.capture->lookup = use.capture->key;
  gears.keep_sizes(use.capture->lookup);
  {
    const Locked lock(*this);
    use.capture->reason = reason_for(key, use.capture->key);
    counters.plan_ns += took.count();
    count_made(use.capture);
  }
  log(LogArea::capture, LogLevel::info, image.program->name, ": captured sizes [",
      text_of(use.capture->key), "], ", use.capture->plan.bytes(), " bytes of temporaries, ",
      took.count() / 1000, " us: ", use.capture->reason);
}

// Under the lock.
void Session::State::count_made(const std::shared_ptr<Capture>& capture) {
  if (options.capture_limit <= 0) {
    ++counters.uncaptured;
    return;
  }
  ++counters.captures;
  // Another thread may have made the same Capture meanwhile; then this one serves only this call.
  if (!table.contains(capture->lookup)) keep(capture);
}

void Session::State::keep(const std::shared_ptr<Capture>& capture) {
  counters.arena_bytes = std::max(counters.arena_bytes, capture->plan.bytes());
  counters.arena_lower_bound =
      std::max(counters.arena_lower_bound, capture->plan.placement.lower_bound);
  assign_block(*capture);
  table.put(capture);
  for (const auto& dropped : table.shrink(options.capture_limit)) {
    if (dropped->arena_block > 0) free_blocks.push_back(dropped->arena_block);
    ++counters.evictions;
  }
}

// The first blocks of an arena belong to epochs.
void Session::State::assign_block(Capture& capture) {
  if (options.captures_share_arena) return;
  if (free_blocks.empty())
    free_blocks.push_back(static_cast<int>(image.epochs.size()) + num_blocks++);
  capture.arena_block = free_blocks.back();
  free_blocks.pop_back();
}

// Recomputes sizes, plan and recordings; the old Capture is destroyed when no call uses it.
void Session::State::recapture(Use& use, bool forced) {
  auto renewed = make_capture(image, *executable, *context->device, *loaded, use.capture->key,
                              options.keep_arena, use.limit);
  renewed->lookup = use.capture->lookup;
  renewed->arena_block = use.capture->arena_block;
  renewed->reason = forced ? "force_recapture" : "the core limit of the caller's stream changed";
  const Key key = use.served->key;
  const Locked lock(*this);
  renewed->hits = use.capture->hits;
  ++(forced ? counters.recaptures : counters.limit_recaptures);
  table.put(renewed);
  use.capture = std::move(renewed);
  use.serve(use.capture->served.admit(key, use.capture->generic_code));
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
  if (changes.empty()) return "the capture of these sizes was evicted";
  if (num_gears == 0) return changes;
  return str(changes, num_gears > 1 ? "; gears " : "; gear ", covering,
             num_gears > 1 ? " cover " : " covers ", both ? "both" : "it");
}

void Session::State::run(std::span<const InputArg> inputs, Host& host) {
  const ToolRange range(image.program->name.c_str());
  // Only used until the frame has the sizes: a nested call may overwrite them later.
  thread_local Key key, gear_key;
  key.resize(static_cast<std::size_t>(image.num_input_symbols()));
  matcher.bind(inputs, key);
  gear_key = key;

  Running running{*this, find(key, gear_key)};
  Use& use = *running.use;
  if (use.frame == nullptr) use.frame = std::make_unique<Frame>(image, *loaded);
  use.frame->set_key(key);
  matcher.check(inputs, use.frame->values);
  const bool forced = options.force_recapture && use.served != nullptr;
  if (use.served == nullptr) find_or_make(key, gear_key, host, use);
  if (forced || (!use.made_now && use.capture->limit != use.limit)) {
    host.begins(Host::Phase::capture);
    recapture(use, forced);
    use.frame->invalidate_addresses();
  }
  host.begins(Host::Phase::replay);
  {
    Executor executor(*use.capture, use.code, *use.frame, *context, inputs, host,
                      options.keep_arena);
    executor.run();
    use.counts = executor.counts();
  }
  finish(std::move(running.use));
}

void Session::State::finish(std::unique_ptr<Use> use) {
  const int hot_after = options.static_code_at_once ? 1 : options.hot_after;
  const bool wants_code =
      specialises && options.capture_limit > 0 && !use->has_own_code && use->hits + 1 >= hot_after;
  if (!wants_code) {
    Use* mine = use.release();
    mine->next = ended.load(std::memory_order_relaxed);
    while (!ended.compare_exchange_weak(mine->next, mine, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
    return;
  }
  const std::shared_ptr<Capture> capture = use->capture;
  const std::shared_ptr<Served> served = use->served;
  bool ask = false;
  {
    const Locked lock(*this);
    add_up(*use);
    recycle(std::move(use));
    ask = !served->has_own_code && served->hits >= hot_after &&
          capture->served.reserve_own_code(*served);
  }
  if (ask) ask_for_static_code(capture, served);
}

void Session::State::ask_for_static_code(const std::shared_ptr<Capture>& capture,
                                         const std::shared_ptr<Served>& served) {
  run_in_background([weak_state = weak_from_this(), weak_capture = std::weak_ptr(capture),
                     weak_served = std::weak_ptr(served)] {
    const auto state = weak_state.lock();
    const auto of = weak_capture.lock();
    const auto hot = weak_served.lock();
    // The Session, the Capture or these sizes are gone.
    if (state == nullptr || of == nullptr || hot == nullptr) return;
    std::shared_ptr<const CodeTable> present;
    {
      const std::lock_guard lock(state->mutex);
      present = hot->code;
    }
    const program::DeviceCodeRequest request{
        .all = state->options.static_code_at_once,
        .measured = [&](std::span<const program::Trial> trials) {
          return background_stopping() ? std::vector<double>() : state->loaded->time(trials);
        }};
    StaticCode::Result result = state->static_code.specialise(
        state->image, hot->key, *present,
        state->context->device->takes_device_code() ? &request : nullptr);
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
  const ThreadState unchanged(*state_->context->device);
  // A background job may keep the state alive; memory of the caller is returned now.
  if (state_->options.device) state_->context->queues->trim();
}

void Session::run(std::span<const InputArg> inputs, Host& host) {
  const ThreadState unchanged(*state_->context->device);
  state_->run(inputs, host);
}

void Session::run_from_host(std::span<const InputArg> inputs, Host& host, OnDevice on_device) {
  if (state_->context->device->reads_host_memory()) return state_->run(inputs, host);
  const ThreadState unchanged(*state_->context->device);
  StagedCall call(*state_->image.program, state_->matcher.written(), *state_->context,
                  state_->staging, inputs, host, on_device);
  state_->run(call.begin(), call);
  call.finish();
}

void Session::wait_for(std::uint64_t stream) {
  const ThreadState unchanged(*state_->context->device);
  state_->context->device->wait_for(stream);
}

std::vector<std::string> Session::findings() const { return state_->static_code.findings(); }

std::vector<std::string> Session::host_control() const {
  const std::string& why = state_->loaded->why_no_control;
  if (!why.empty() && program::has_control(program())) return {"if and while: " + why};
  return state_->image.host_control;
}

const program::Program& Session::program() const { return *state_->image.program; }
bool Session::reuses_memory() const { return state_->options.reuse_memory; }

Counters Session::counters() const {
  const State::Locked lock(*state_);
  return state_->counters;
}

std::vector<CaptureInfo> Session::captures() const {
  const State::Locked lock(*state_);
  std::vector<CaptureInfo> out;
  for (const auto& capture : state_->table.by_use())
    out.push_back({capture->key, capture->hits, capture->plan.bytes(),
                   capture->plan.placement.lower_bound, capture->reason, capture->note});
  return out;
}

std::size_t Session::pool_bytes() const { return state_->context->queues->idle_bytes(); }

}  // namespace gex::runtime
