#include "runtime/drivers/cuda_graph/graph_recording.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.hpp"
#include "runtime/session/image.hpp"

namespace gex::runtime::cuda {

namespace {

// A range of steps that is captured as one graph, or a step that is issued at each call.
struct StepRange {
  std::size_t first = 0, last = 0;
  bool captured = false;
};

bool is_library(const CudaOp& op) { return op.kind == CudaOp::Kind::library; }

bool can_be_captured(const CudaOp& op) {
  if (op.epoch > 0) return false;  // sizes that no gear bounds
  if (op.is_control())
    return std::ranges::all_of(op.first, can_be_captured) &&
           std::ranges::all_of(op.second, can_be_captured);
  return !is_library(op) || op.capturable;
}

// A call of a library, and the step of the batch that it is or that it is inside of.
struct LibraryCall {
  const CudaOp* op;
  std::size_t step;
};

void find_calls(std::span<const CudaOp> ops, std::size_t step, std::vector<LibraryCall>& calls) {
  for (const CudaOp& op : ops) {
    if (is_library(op)) calls.push_back({&op, step});
    find_calls(op.first, step, calls);
    find_calls(op.second, step, calls);
  }
}

// `moving`, by op: steps with library calls that are not captured, since their operands move.
std::vector<StepRange> ranges_of(const std::vector<CudaOp>& ops, const std::vector<bool>& moving) {
  std::vector<StepRange> ranges;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    // An event belongs to the range of the steps before it. Ranges run one after the other.
    const bool captured = ops[i].is_event() && !ranges.empty()
                              ? ranges.back().captured
                              : can_be_captured(ops[i]) && !moving[i];
    if (ranges.empty() || ranges.back().captured != captured) ranges.push_back({i, i, captured});
    ranges.back().last = i + 1;
  }
  return ranges;
}

// The steps with static code where there is any.
std::vector<CudaOp> with_code(std::vector<CudaOp> ops, const CudaLoaded& loaded,
                              const program::DeviceCodes& codes) {
  for (CudaOp& op : ops) {
    op.first = with_code(std::move(op.first), loaded, codes);
    op.second = with_code(std::move(op.second), loaded, codes);
    if (op.kind != CudaOp::Kind::kernel && !is_library(op)) continue;
    const auto found = codes.find(static_cast<const program::Launch*>(op.step));
    if (found == codes.end()) continue;
    const program::StaticLaunch& code = found->second;
    op.function = loaded.function_of(code);
    if (code.grid == 0) continue;
    op.kind = CudaOp::Kind::kernel;
    op.matmul.reset();
    op.own_grid = code.grid;
    op.own_shared = code.shared_bytes;
    op.block = code.threads;
  }
  return ops;
}

// `exact`: graphs are for the sizes of the first call, not for those of the gear.
class GraphRecording final : public Recording {
 public:
  GraphRecording(const CudaDevice& device, const CudaLoaded& loaded, std::vector<CudaOp> ops,
                 int words, bool exact)
      : device_(device), loaded_(loaded), ops_(std::move(ops)), words_(words), exact_(exact) {
    for (std::size_t i = 0; i < ops_.size(); ++i)
      find_calls(std::span(ops_).subspan(i, 1), i, calls_);
    has_control_ = std::ranges::any_of(ops_, &CudaOp::is_control);
  }

  ~GraphRecording() override {
    device_.make_current();
    for (auto* all : {&by_queue_, &traced_})
      for (auto& [queue, graphs] : *all) destroy(graphs);
  }

  void replay(Queue& queue, const Replay& replay) override {
    if (ops_.empty()) return;
    auto& cuda = static_cast<CudaQueue&>(queue);
    cuda.return_to_context();
    if (replay.device_code != nullptr && !exact_)
      return with_static_code(*replay.device_code)->replay(queue, replay);
    cuda.reserve_block(words_);
    cuda.upload(replay.block, ops_.front().word, ops_.back().end_word);
    if (replay.trace != nullptr && !cuda.is_recorded()) {
      if (has_control_)  // the body of a conditional node can't have events
        device_.issue_traced(ops_, replay, cuda);
      else
        replay_traced(cuda, replay);
      count(ops_, replay.block, *replay.tally);
      return;
    }
    if (cuda.is_recorded() || device_.checks_steps()) {  // the former: nodes of the caller's graph
      device_.issue_all(ops_, replay, cuda);
      count(ops_, replay.block, *replay.tally);
      return;
    }
    Graphs& graphs = graphs_for(by_queue_, cuda);
    const bool valid = is_valid(graphs, cuda, replay.block);
    if (!valid && has_captured_library(graphs)) {
      // Libraries initialise on first use, which is not allowed during a capture: this call runs
      // uncaptured, and the next one uses the graphs that are made after it.
      device_.issue_all(ops_, replay, cuda);
      capture(graphs, cuda, replay, false);
    } else {
      if (!valid) capture(graphs, cuda, replay, false);
      for (std::size_t k = 0; k < graphs.ranges.size(); ++k) launch(k, graphs, cuda, replay, {});
    }
    count(ops_, replay.block, *replay.tally);
  }

 private:
  // A library call whose operands have moved this often since the graphs were first made is not
  // captured any more: weights may be replaced once in a while, but activations of the caller have
  // a new address at each call, and a capture for each of them would cost far more than a launch.
  static constexpr int kMaxMoves = 2;

  // A Capture keeps static code for this many sizes; that of others was dropped.
  static constexpr std::size_t kMostStatic = 64;

  std::shared_ptr<GraphRecording> with_static_code(const StaticDeviceCode& code) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<GraphRecording>& own = static_[code.number];
    if (own == nullptr)
      own = std::make_shared<GraphRecording>(device_, loaded_, with_code(ops_, loaded_, code.codes),
                                             words_, true);
    const std::shared_ptr<GraphRecording> result = own;
    if (static_.size() > kMostStatic) static_.erase(static_.begin());
    return result;
  }

  // The graphs of one queue: kernels in them know the address of its parameter block.
  struct Graphs {
    bool made = false;
    DevicePtr block = 0;
    std::vector<StepRange> ranges;
    std::vector<GraphExec> execs;                   // by range; null where not captured
    std::vector<std::unique_ptr<StepTimes>> times;  // by range; null if not traced
    // By library call: the addresses of the capture, and how often they changed.
    std::vector<std::vector<std::int64_t>> addresses;
    std::vector<int> moves;
  };

  using ByQueue = std::map<std::uint64_t, Graphs>;

  void launch(std::size_t number, const Graphs& graphs, CudaQueue& queue, const Replay& replay,
              CudaDevice::Mode mode) {
    const std::span<const CudaOp> steps = steps_of(graphs.ranges[number]);
    if (!graphs.ranges[number].captured) {
      replay.tally->single_launches += num_steps(steps);
      device_.issue_run(steps, replay.block, queue, queue.stream(), mode);
    } else if (graphs.execs[number] != nullptr) {
      ++replay.tally->graph_launches;
      check(device_.api(), device_.api().graph_launch(graphs.execs[number], queue.stream()),
            "launching a graph");
    }
  }

  // A traced replay uses separate graphs, which have events between the steps.
  void replay_traced(CudaQueue& queue, const Replay& replay) {
    Graphs& graphs = graphs_for(traced_, queue);
    if (!is_valid(graphs, queue, replay.block)) {
      if (has_captured_library(graphs)) {  // as in replay()
        device_.issue_traced(ops_, replay, queue);
        return capture(graphs, queue, replay, true);
      }
      capture(graphs, queue, replay, true);
    }
    TracedCall call(device_.api(), queue.stream(), *replay.trace);
    std::vector<std::unique_ptr<StepTimes>> single;
    for (std::size_t k = 0; k < graphs.ranges.size(); ++k) {
      const bool captured = graphs.ranges[k].captured;
      if (!captured) single.push_back(std::make_unique<StepTimes>(device_.api(), false));
      launch(k, graphs, queue, replay, {.times = captured ? nullptr : single.back().get()});
    }
    call.wait();
    for (std::size_t k = 0; k < graphs.ranges.size(); ++k)
      if (graphs.execs[k] != nullptr) call.give(*graphs.times[k]);
    for (const auto& times : single) call.give(*times);
  }

  bool is_valid(Graphs& graphs, const CudaQueue& queue, const std::int64_t* block) const {
    return graphs.made && graphs.block == queue.block() && !find_moved_operands(graphs, block);
  }

  std::span<const CudaOp> steps_of(const StepRange& range) const {
    return std::span(ops_).subspan(range.first, range.last - range.first);
  }

  Graphs& graphs_for(ByQueue& all, CudaQueue& queue) {
    const std::lock_guard lock(mutex_);
    return all[queue.number()];
  }

  // By step: those with a library call whose operands move.
  std::vector<bool> moving_steps(const Graphs& graphs) const {
    std::vector<bool> moving(ops_.size());
    for (std::size_t i = 0; i < graphs.moves.size(); ++i)
      if (graphs.moves[i] >= kMaxMoves) moving[calls_[i].step] = true;
    return moving;
  }

  bool has_captured_library(const Graphs& graphs) const {
    const std::vector<bool> moving = moving_steps(graphs);
    return std::ranges::any_of(calls_, [&](const LibraryCall& call) {
      return can_be_captured(ops_[call.step]) && !moving[call.step];
    });
  }

  // Whether operands of captured library calls are not where they were at the capture.
  bool find_moved_operands(Graphs& graphs, const std::int64_t* block) const {
    bool any = false;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (graphs.addresses[i].empty()) continue;
      const CudaOp& op = *calls_[i].op;
      if (std::equal(block + op.word, block + op.dims_word, graphs.addresses[i].begin())) continue;
      ++graphs.moves[i];
      any = true;
    }
    return any;
  }

  void destroy(Graphs& graphs) noexcept {
    for (GraphExec exec : graphs.execs)
      if (exec != nullptr) device_.api().graph_exec_destroy(exec);
    graphs.execs.clear();
    graphs.times.clear();
    graphs.made = false;
  }

  void capture(Graphs& graphs, CudaQueue& queue, const Replay& replay, bool traced) {
    graphs.moves.resize(calls_.size());
    const std::vector<bool> moving = moving_steps(graphs);
    destroy(graphs);
    graphs.ranges = ranges_of(ops_, moving);
    for (const StepRange& range : graphs.ranges) {
      graphs.times.push_back(traced ? std::make_unique<StepTimes>(device_.api(), true) : nullptr);
      const CudaDevice::Mode mode = {
          .at_gear = !exact_, .times = graphs.times.back().get(), .captures = true};
      graphs.execs.push_back(range.captured ? capture_range(range, queue, replay.block, mode)
                                            : nullptr);
      if (graphs.execs.back() != nullptr) ++replay.tally->recordings;
    }
    graphs.addresses.assign(calls_.size(), {});
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const auto& [op, step] = calls_[i];
      if (can_be_captured(ops_[step]) && !moving[step])
        graphs.addresses[i].assign(replay.block + op->word, replay.block + op->dims_word);
    }
    graphs.made = true;
    graphs.block = queue.block();
  }

  static bool does_nothing(const CudaOp& op) {
    if (op.is_control()) return false;
    if (op.kind == CudaOp::Kind::copy || op.kind == CudaOp::Kind::fill) return op.gear_bytes <= 0;
    return op.gear_grid <= 0;
  }

  GraphExec capture_range(const StepRange& range, CudaQueue& queue, const std::int64_t* block,
                          CudaDevice::Mode mode) {
    const DriverApi& api = device_.api();
    if (std::ranges::all_of(steps_of(range), does_nothing)) return nullptr;
    check(api, api.capture_begin(queue.capture_stream(), kCaptureRelaxed), "beginning a capture");
    Graph graph = nullptr;
    try {
      device_.issue_run(steps_of(range), block, queue, queue.capture_stream(), mode);
    } catch (const Error&) {
      // The stream must leave capture mode, or it would be unusable.
      api.capture_end(queue.capture_stream(), &graph);
      if (graph != nullptr) api.graph_destroy(graph);
      throw;
    }
    check(api, api.capture_end(queue.capture_stream(), &graph), "ending a capture");
    GraphExec exec = nullptr;
    const Result result = api.graph_instantiate(&exec, graph, 0);
    api.graph_destroy(graph);
    check(api, result, "making a graph ready");
    return exec;
  }

  const CudaDevice& device_;
  const CudaLoaded& loaded_;
  const std::vector<CudaOp> ops_;
  std::vector<LibraryCall> calls_;
  bool has_control_ = false;
  const int words_;
  const bool exact_;
  std::mutex mutex_;
  ByQueue by_queue_, traced_;
  std::map<std::uint64_t, std::shared_ptr<GraphRecording>> static_;  // by number of the code
};

}  // namespace

std::unique_ptr<Recording> GraphRecorder::finish() {
  return std::make_unique<GraphRecording>(device_, loaded_, take_steps(), image_.num_device_words,
                                          false);
}

}  // namespace gex::runtime::cuda
