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
    for (auto* all : {&by_queue_, &traced_})
      for (auto& [queue, graphs] : *all) destroy(graphs);
  }

  void replay(Queue& queue, const Replay& replay) override {
    if (ops_.empty()) return;
    auto& cuda = static_cast<CudaQueue&>(queue);
    device_.make_current();
    cuda.reserve_block(words_);
    cuda.upload(replay.block, ops_.front().word, ops_.back().end_word);
    if (replay.trace != nullptr && !cuda.is_recorded()) {
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
    if (!valid && has_captured_library()) {
      // Libraries initialise on first use, which is not allowed during a capture: this call runs
      // uncaptured, and the next one uses the graphs that are made after it.
      device_.issue_all(ops_, replay, cuda);
      capture(graphs, cuda, replay, false);
    } else {
      if (!valid) capture(graphs, cuda, replay, false);
      for (const StepRange& range : ranges_) launch(range, graphs, cuda, replay, {});
    }
    count(ops_, replay.block, *replay.tally);
  }

 private:
  // The graphs of one queue: kernels in them know the address of its parameter block.
  struct Graphs {
    bool made = false;
    DevicePtr block = 0;
    std::vector<GraphExec> execs;                   // by range; null where not captured
    std::vector<std::unique_ptr<StepTimes>> times;  // by range; null if not traced
    std::vector<std::int64_t> library_words;  // addresses that library calls were captured with
  };

  using ByQueue = std::map<std::uint64_t, Graphs>;

  void launch(const StepRange& range, const Graphs& graphs, CudaQueue& queue, const Replay& replay,
              CudaDevice::Mode mode) {
    const auto number = static_cast<std::size_t>(&range - ranges_.data());
    if (!range.captured) {
      replay.tally->single_launches += num_steps(steps_of(range));
      device_.issue_run(steps_of(range), replay.block, queue, queue.stream(), mode);
    } else if (graphs.execs[number] != nullptr) {
      ++replay.tally->graph_launches;
      check(device_.api(), device_.api().graph_launch(graphs.execs[number], queue.stream()),
            "launching a graph");
    }
  }

  // By graphs of its own, which have events beside the steps.
  void replay_traced(CudaQueue& queue, const Replay& replay) {
    Graphs& graphs = graphs_for(traced_, queue);
    if (!is_valid(graphs, queue, replay.block)) {
      if (has_captured_library()) {  // as in replay()
        device_.issue_traced(ops_, replay, queue);
        return capture(graphs, queue, replay, true);
      }
      capture(graphs, queue, replay, true);
    }
    TracedCall call(device_.api(), queue.stream(), *replay.trace);
    std::vector<std::unique_ptr<StepTimes>> single;
    for (const StepRange& range : ranges_) {
      if (!range.captured) single.push_back(std::make_unique<StepTimes>(device_.api(), false));
      launch(range, graphs, queue, replay,
             {.times = range.captured ? nullptr : single.back().get()});
    }
    call.wait();
    for (std::size_t k = 0; k < ranges_.size(); ++k)
      if (graphs.execs[k] != nullptr) call.give(*graphs.times[k]);
    for (const auto& times : single) call.give(*times);
  }

  bool is_valid(const Graphs& graphs, const CudaQueue& queue, const std::int64_t* block) const {
    return graphs.made && graphs.block == queue.block() && same_addresses(graphs, block);
  }

  std::span<const CudaOp> steps_of(const StepRange& range) const {
    return std::span(ops_).subspan(range.first, range.last - range.first);
  }

  Graphs& graphs_for(ByQueue& all, CudaQueue& queue) {
    const std::lock_guard lock(mutex_);
    return all[queue.number()];
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

  void capture(Graphs& graphs, CudaQueue& queue, const Replay& replay, bool traced) {
    destroy(graphs);
    for (const StepRange& range : ranges_) {
      graphs.times.push_back(traced ? std::make_unique<StepTimes>(device_.api(), true) : nullptr);
      const CudaDevice::Mode mode = {.at_gear = true, .times = graphs.times.back().get()};
      graphs.execs.push_back(range.captured ? capture_range(range, queue, replay.block, mode)
                                            : nullptr);
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
  const std::vector<CudaOp> ops_;
  const std::vector<StepRange> ranges_;
  const int words_;
  std::mutex mutex_;
  ByQueue by_queue_, traced_;
};

}  // namespace

std::unique_ptr<Recording> GraphRecorder::finish() {
  return std::make_unique<GraphRecording>(device_, take_steps(), image_.num_device_words);
}

}  // namespace gex::runtime::cuda
