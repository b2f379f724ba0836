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

bool can_be_captured(const CudaOp& op) {
  if (op.epoch > 0) return false;  // sizes that no gear bounds
  return op.kind != CudaOp::Kind::library || op.capturable;
}

std::vector<StepRange> ranges_of(const std::vector<CudaOp>& ops) {
  std::vector<StepRange> ranges;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    // Events belong to the range that they are in: ranges run one after the other.
    const bool captured =
        ops[i].is_event() && !ranges.empty() ? ranges.back().captured : can_be_captured(ops[i]);
    if (ranges.empty() || ranges.back().captured != captured) ranges.push_back({i, i, captured});
    ranges.back().last = i + 1;
  }
  return ranges;
}

class GraphRecording final : public Recording {
 public:
  GraphRecording(const CudaDevice& device, std::vector<CudaOp> ops, int words)
      : device_(device), ops_(std::move(ops)), ranges_(ranges_of(ops_)), words_(words) {}

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
        graphs.made && graphs.block == cuda.block() && same_addresses(graphs, replay.block);
    if (!valid && has_captured_library()) {
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
  // The graphs of one queue: kernels in them know the address of its parameter block.
  struct Graphs {
    bool made = false;
    DevicePtr block = 0;
    std::vector<GraphExec> execs;             // by range; null where not captured
    std::vector<std::int64_t> library_words;  // addresses that library calls were captured with
  };

  void launch(const Graphs& graphs, CudaQueue& queue, const Replay& replay) {
    for (std::size_t p = 0; p < ranges_.size(); ++p) {
      if (!ranges_[p].captured) {
        replay.tally->single_launches += num_steps(steps_of(ranges_[p]));
        device_.issue_run(steps_of(ranges_[p]), replay.block, queue, queue.stream(), false);
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

  bool has_captured_library() const {
    for (const CudaOp& op : ops_)
      if (op.kind == CudaOp::Kind::library && can_be_captured(op)) return true;
    return false;
  }

  // Whether the operands of captured library calls stand where they stood at the capture.
  bool same_addresses(const Graphs& graphs, const std::int64_t* block) const {
    auto captured = graphs.library_words.begin();
    for (const CudaOp& op : ops_) {
      if (op.kind != CudaOp::Kind::library || !can_be_captured(op)) continue;
      if (!std::equal(block + op.word, block + op.dims_word, captured)) return false;
      captured += op.dims_word - op.word;
    }
    return true;
  }

  void destroy(Graphs& graphs) noexcept {
    for (GraphExec exec : graphs.execs)
      if (exec != nullptr) device_.api().graph_exec_destroy(exec);
    graphs = {};
  }

  void capture(Graphs& graphs, CudaQueue& queue, const Replay& replay) {
    destroy(graphs);
    for (const StepRange& range : ranges_) {
      graphs.execs.push_back(range.captured ? capture_range(range, queue, replay.block) : nullptr);
      if (graphs.execs.back() != nullptr) ++replay.tally->recordings;
    }
    for (const CudaOp& op : ops_)
      if (op.kind == CudaOp::Kind::library && can_be_captured(op))
        graphs.library_words.insert(graphs.library_words.end(), replay.block + op.word,
                                    replay.block + op.dims_word);
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
  const std::vector<StepRange> ranges_;
  const int words_;
  std::mutex mutex_;
  std::map<std::uint64_t, Graphs> by_queue_;
};

}  // namespace

std::unique_ptr<Recording> GraphRecorder::finish() {
  return std::make_unique<GraphRecording>(device_, take_steps(), image_.num_device_words);
}

}  // namespace gex::runtime::cuda
