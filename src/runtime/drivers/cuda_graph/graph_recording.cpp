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
  return !is_library(op) || op.capturable;
}

// `moving`, by op: library calls that are not captured, since their operands move.
std::vector<StepRange> ranges_of(const std::vector<CudaOp>& ops, const std::vector<bool>& moving) {
  std::vector<StepRange> ranges;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    // Events belong to the range that they are in: ranges run one after the other.
    const bool captured = ops[i].is_event() && !ranges.empty()
                              ? ranges.back().captured
                              : can_be_captured(ops[i]) && !moving[i];
    if (ranges.empty() || ranges.back().captured != captured) ranges.push_back({i, i, captured});
    ranges.back().last = i + 1;
  }
  return ranges;
}

class GraphRecording final : public Recording {
 public:
  GraphRecording(const CudaDevice& device, std::vector<CudaOp> ops, int words)
      : device_(device), ops_(std::move(ops)), words_(words) {}

  ~GraphRecording() override {
    device_.make_current();
    for (auto& [queue, graphs] : by_queue_) destroy(graphs);
  }

  void replay(Queue& queue, const Replay& replay) override {
    if (ops_.empty()) return;
    auto& cuda = static_cast<CudaQueue&>(queue);
    cuda.return_to_context();
    cuda.reserve_block(words_);
    cuda.upload(replay.block, ops_.front().word, ops_.back().end_word);
    if (replay.trace != nullptr && !cuda.is_recorded()) {
      device_.issue_traced(ops_, replay, cuda);
      count(ops_, replay.block, *replay.tally);
      return;
    }
    if (cuda.is_recorded() || device_.checks_steps()) {  // the former: nodes of the caller's graph
      device_.issue_all(ops_, replay, cuda);
      count(ops_, replay.block, *replay.tally);
      return;
    }
    Graphs& graphs = graphs_for(cuda);
    const bool valid =
        graphs.made && graphs.block == cuda.block() && !find_moved_operands(graphs, replay.block);
    if (!valid && has_captured_library(graphs)) {
      // Libraries initialise on first use, which is not allowed during a capture: this call runs
      // uncaptured, and the next one makes the graphs.
      device_.issue_all(ops_, replay, cuda);
      capture(graphs, cuda, replay);
    } else {
      if (!valid) capture(graphs, cuda, replay);
      launch(graphs, cuda, replay);
    }
    count(ops_, replay.block, *replay.tally);
  }

 private:
  // A library call whose operands have moved this often since the graphs were first made is not
  // captured any more: weights may be replaced once in a while, but activations of the caller have
  // a new address at each call, and a capture for each of them would cost far more than a launch.
  static constexpr int kMaxMoves = 2;

  // The graphs of one queue: kernels in them know the address of its parameter block.
  struct Graphs {
    bool made = false;
    DevicePtr block = 0;
    std::vector<StepRange> ranges;
    std::vector<GraphExec> execs;  // by range; null where not captured
    // By op, of captured library calls: the addresses of the capture, and how often they changed.
    std::vector<std::vector<std::int64_t>> addresses;
    std::vector<int> moves;
  };

  void launch(const Graphs& graphs, CudaQueue& queue, const Replay& replay) {
    for (std::size_t p = 0; p < graphs.ranges.size(); ++p) {
      const std::span<const CudaOp> steps = steps_of(graphs.ranges[p]);
      if (!graphs.ranges[p].captured) {
        replay.tally->single_launches += num_steps(steps);
        device_.issue_run(steps, replay.block, queue, queue.stream(), false);
      } else if (graphs.execs[p] != nullptr) {
        ++replay.tally->graph_launches;
        check(device_.api(), device_.api().graph_launch(graphs.execs[p], queue.stream()),
              "launching a graph");
      }
    }
  }

  std::span<const CudaOp> steps_of(const StepRange& range) const {
    return std::span(ops_).subspan(range.first, range.last - range.first);
  }

  Graphs& graphs_for(CudaQueue& queue) {
    const std::lock_guard lock(mutex_);
    return by_queue_[queue.number()];
  }

  bool is_captured_library(const Graphs& graphs, std::size_t op) const {
    return is_library(ops_[op]) && can_be_captured(ops_[op]) && graphs.moves[op] < kMaxMoves;
  }

  bool has_captured_library(const Graphs& graphs) const {
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (is_library(ops_[i]) && can_be_captured(ops_[i]) &&
          (!graphs.made || is_captured_library(graphs, i)))
        return true;
    return false;
  }

  // Whether operands of captured library calls are not where they were at the capture.
  bool find_moved_operands(Graphs& graphs, const std::int64_t* block) const {
    bool any = false;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (!is_captured_library(graphs, i)) continue;
      const CudaOp& op = ops_[i];
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
    graphs.made = false;
  }

  void capture(Graphs& graphs, CudaQueue& queue, const Replay& replay) {
    destroy(graphs);
    graphs.moves.resize(ops_.size());
    std::vector<bool> moving(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) moving[i] = graphs.moves[i] >= kMaxMoves;
    graphs.ranges = ranges_of(ops_, moving);
    for (const StepRange& range : graphs.ranges) {
      graphs.execs.push_back(range.captured ? capture_range(range, queue, replay.block) : nullptr);
      if (graphs.execs.back() != nullptr) ++replay.tally->recordings;
    }
    graphs.addresses.assign(ops_.size(), {});
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (is_captured_library(graphs, i))
        graphs.addresses[i].assign(replay.block + ops_[i].word, replay.block + ops_[i].dims_word);
    graphs.made = true;
    graphs.block = queue.block();
  }

  static bool does_nothing(const CudaOp& op) {
    if (op.kind == CudaOp::Kind::copy || op.kind == CudaOp::Kind::fill) return op.gear_bytes <= 0;
    return op.gear_grid <= 0;
  }

  GraphExec capture_range(const StepRange& range, CudaQueue& queue, const std::int64_t* block) {
    const DriverApi& api = device_.api();
    if (std::ranges::all_of(steps_of(range), does_nothing)) return nullptr;
    check(api, api.capture_begin(queue.capture_stream(), kCaptureRelaxed), "beginning a capture");
    Graph graph = nullptr;
    try {
      device_.issue_run(steps_of(range), block, queue, queue.capture_stream(), true);
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
  const std::vector<CudaOp> ops_;
  const int words_;
  std::mutex mutex_;
  std::map<std::uint64_t, Graphs> by_queue_;
};

}  // namespace

std::unique_ptr<Recording> GraphRecorder::finish() {
  return std::make_unique<GraphRecording>(device_, take_steps(), image_.num_device_words);
}

}  // namespace gex::runtime::cuda
