#include "runtime/capture/capture.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace gex::runtime {

using program::BufferId;

namespace {

std::int64_t round_up_64(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Records the steps of the batches, split where memory can be released in between.
class BatchRecorder {
 public:
  BatchRecorder(const Image& image, Device& device, Loaded& loaded, Capture& capture,
                bool keep_arena)
      : image_(image), device_(device), loaded_(loaded), capture_(capture) {
    capture.batches.resize(image.batches.size());
    capture.after_calls.resize(image.calls.size());
    if (!device.works_in_replay()) return;
    const bool discard = !keep_arena && worth_discarding(capture.plan.placement.total);
    releases_ = ReleasePlan(image, capture.gear_values, discard ? &capture.plan.placement : nullptr,
                            capture.plan.sizes);
  }

  void run() {
    for (int segment : image_.program->main)
      for (const Item& item : image_.segments[index(segment)]) {
        if (item.kind == Item::Kind::batch) record(item.index, releases_);
        if (item.kind != Item::Kind::call) continue;
        // Host code ran just before this step, so a release here interrupts no batch.
        releases_.pass(image_.lifetimes.of_step[index(segment)][index(item.step)].last);
        capture_.after_calls[index(item.index)] = releases_.take();
      }
    // Steps inside a branch or a loop may run again, so nothing is released there.
    ReleasePlan nothing;
    for (std::size_t b = 0; b < image_.batches.size(); ++b)
      if (capture_.batches[b].empty()) record(static_cast<int>(b), nothing);
  }

 private:
  void record(int number, ReleasePlan& releases) {
    const BatchLayout& batch = image_.batches[index(number)];
    const auto& steps = image_.program->segments[index(batch.segment)].steps;
    const auto& positions = image_.lifetimes.of_step[index(batch.segment)];
    std::vector<BatchPart>& parts = capture_.batches[index(number)];
    Place at{batch.first_launch, batch.step_words};
    auto recorder = device_.make_recorder(image_, loaded_, capture_.gear_values);
    for (int i = batch.first; i < batch.last; ++i) {
      record_step(steps[index(i)], at, *recorder);
      releases.pass(positions[index(i)].last);
      if (!releases.is_worth_it() || i + 1 == batch.last) continue;
      parts.push_back({recorder->finish(), releases.take()});
      recorder = device_.make_recorder(image_, loaded_, capture_.gear_values);
    }
    parts.push_back({recorder->finish(), {}});
    if (releases.is_worth_it()) parts.back().release = releases.take();
  }

  // In a batch: the next launch, and the words of the steps to come.
  struct Place {
    int launch;
    std::span<const int> words;
  };

  void record_step(const program::Step& step, Place& at, Recorder& recorder) {
    const int word = at.words.front();
    at.words = at.words.subspan(1);
    if (const auto* launch = std::get_if<program::Launch>(&step.op)) {
      LaunchOp op = image_.launches[index(at.launch++)];
      op.stream = step.stream;
      op.threads = threads_of(step, launch->matrix);
      recorder.launch(op);
    }
    const int threads = threads_of(step, false);
    if (const auto* copy = std::get_if<program::Copy>(&step.op))
      recorder.copy({copy, word, step.stream, threads});
    if (const auto* fill = std::get_if<program::Fill>(&step.op))
      recorder.fill({fill, word, step.stream, threads});
    if (const auto* event = std::get_if<program::Record>(&step.op))
      recorder.record(event->event, step.stream);
    if (const auto* event = std::get_if<program::Wait>(&step.op))
      recorder.wait(event->event, step.stream);
    if (const auto* branch = std::get_if<program::If>(&step.op))
      record_control({false, word}, branch->then_segment, branch->else_segment, at, recorder);
    if (const auto* loop = std::get_if<program::While>(&step.op))
      record_control({true, word}, loop->condition_segment, loop->body_segment, at, recorder);
  }

  void record_control(const ControlOp& op, int first, int second, Place& at, Recorder& recorder) {
    recorder.begin_control(op);
    for (const program::Step& step : image_.program->segments[index(first)].steps)
      record_step(step, at, recorder);
    recorder.next_segment();
    for (const program::Step& step : image_.program->segments[index(second)].steps)
      record_step(step, at, recorder);
    recorder.end_control();
  }

  int threads_of(const program::Step& step, bool matrix) const {
    if (step.threads != 0) return step.threads;
    return matrix ? capture_.limit.matrix : capture_.limit.vector;
  }

  const Image& image_;
  Device& device_;
  Loaded& loaded_;
  Capture& capture_;
  ReleasePlan releases_;
};

// Scratch of each worker but the first for this launch.
std::int64_t others_need(const Image& image, std::int64_t bytes, std::int64_t grid) {
  return grid > 1 || image.program->num_streams > 1 ? bytes : 0;  // streams share the workers
}

}  // namespace

void evaluate(const Image& image, int epoch, std::span<const std::int64_t> symbols,
              std::span<std::int64_t> values) {
  const EpochLayout& layout = image.epochs[index(epoch)];
  layout.tape.eval(symbols.first(layout.tape.symbols().size()),
                   values.subspan(index(layout.first_slot), index(layout.tape.slots())));
}

void check_guards(const Image& image, int epoch, std::span<const std::int64_t> values) {
  for (int g : image.epochs[index(epoch)].guards) {
    const program::Guard& guard = image.program->guards[index(g)];
    const std::int64_t lhs = values[index(image.slot(guard.lhs))];
    const std::int64_t rhs = values[index(image.slot(guard.rhs))];
    if (program::holds(guard.relation, lhs, rhs)) continue;
    fail(ErrorCode::shape_mismatch, guard.message, " (", guard.lhs, " ",
         program::symbol_of(guard.relation), " ", guard.rhs, " does not hold: got ", lhs, " and ",
         rhs, "; change the sizes of the inputs so that it does)");
  }
}

BlockPlan plan_block(const Image& image, int epoch, std::span<const std::int64_t> values,
                     int workers) {
  const EpochLayout& layout = image.epochs[index(epoch)];
  BlockPlan out;
  out.workers = workers;
  out.sizes.reserve(layout.placed.size());
  for (std::size_t i = 0; i < layout.placed.size(); ++i) {
    std::int64_t size = 0;
    for (int slot : layout.size_slots[i]) {
      if (values[index(slot)] < 0)
        fail(ErrorCode::shape_mismatch, "buffer %", layout.placed[i], " \"",
             image.program->buffers[index(layout.placed[i])].name, "\" would take ",
             values[index(slot)], " bytes for these sizes; sizes must not be negative");
      size = std::max(size, values[index(slot)]);
    }
    out.sizes.push_back(size);
  }
  out.placement = image.reuse_memory ? layout.planner.plan(out.sizes)
                                     : layout.planner.plan(out.sizes, plan::Strategy::apart);
  for (const auto& slots : layout.scratch_slots) {
    const std::int64_t bytes = round_up_64(values[index(slots.bytes)]);
    out.first_scratch = std::max(out.first_scratch, bytes);
    out.other_scratch =
        std::max(out.other_scratch, others_need(image, bytes, values[index(slots.grid)]));
  }
  return out;
}

Frame::Frame(const Image& the_image, const Loaded& loaded) : image(the_image) {
  symbols.assign(image.program->symbols.size(), 0);
  values.assign(index(image.num_slots), 0);
  block.assign(index(image.num_words), 0);
  base.assign(image.program->buffers.size(), nullptr);
  scratch.resize(image.epochs.size());
  late_plans_.resize(image.epochs.size());
  handle.assign(base.size(), 0);
  held.assign(base.size(), kNone);
  for (std::size_t i = 0; i < base.size(); ++i)
    base[i] = static_cast<std::byte*>(loaded.constants[i]);
  for (const CallLayout& call : image.calls) {
    CallState state;
    for (const TensorLayout& input : call.inputs) state.inputs.push_back(make_ref(input));
    for (const TensorLayout& output : call.outputs) state.expected.push_back(make_ref(output));
    state.results.resize(call.outputs.size());
    calls.push_back(std::move(state));
  }
}

TensorRef Frame::make_ref(const TensorLayout& layout) {
  const std::span<const std::int64_t> words(block);
  TensorRef ref;
  ref.dtype = layout.dtype;
  ref.shape = words.subspan(index(layout.shape.word), index(layout.shape.count));
  ref.strides = words.subspan(index(layout.strides.word), index(layout.strides.count));
  ref.input = layout.input;
  return ref;
}

void Frame::set_key(std::span<const std::int64_t> key) {
  if (has_key_ && std::equal(key.begin(), key.end(), symbols.begin())) return;
  has_key_ = false;
  std::copy(key.begin(), key.end(), symbols.begin());
  evaluate(image, 0, symbols, values);
  check_guards(image, 0, values);
  for (const ValueWord& word : image.epochs[0].value_words)
    block[index(word.word)] = values[index(word.slot)];
  scratch[0] = {};  // addresses depend on offsets, which may have changed: place() must run again
  has_key_ = true;
}

void Frame::set_symbol(int symbol, std::int64_t value) { symbols[index(symbol)] = value; }

void Frame::begin_epoch(int epoch) {
  evaluate(image, epoch, symbols, values);
  check_guards(image, epoch, values);
  for (const ValueWord& word : image.epochs[index(epoch)].value_words)
    block[index(word.word)] = values[index(word.slot)];
  for (const auto& alias : image.epochs[index(epoch)].late_aliases) {
    const std::int64_t room = values[index(image.bytes_slot[index(alias.root)])];
    if (values[index(alias.end_slot)] > room)
      fail(ErrorCode::shape_mismatch, "buffer %", alias.buffer, " needs ",
           values[index(alias.end_slot)], " bytes of %", alias.root, ", which has ", room);
  }
  for (BufferId root : image.externals)
    if (held[index(root)] != kNone) patch_external(root);
}

void Frame::place(int epoch, const BlockPlan& plan, std::byte* memory) {
  ScratchArea& area = scratch[index(epoch)];
  const EpochLayout& layout = image.epochs[index(epoch)];
  std::byte* const first = memory + plan.placement.total + plan.other_scratch * (plan.workers - 1);
  if (epoch == 0 && area.first == first && area.workers == plan.workers) return;
  area = {first, plan.other_scratch, plan.workers};
  for (std::size_t i = 0; i < layout.placed.size(); ++i)
    base[index(layout.placed[i])] = memory + plan.placement.offsets[i];
  for (const PointerWord& pointer : layout.arena_words)
    block[index(pointer.word)] = reinterpret_cast<std::int64_t>(base[index(pointer.root)] +
                                                                values[index(pointer.offset_slot)]);
}

const BlockPlan& Frame::late_plan(int epoch, int workers) {
  LatePlan& late = late_plans_[index(epoch)];
  if (late.symbols != symbols || late.plan.workers != workers) {
    late.plan = plan_block(image, epoch, values, workers);
    late.symbols = symbols;
  }
  return late.plan;
}

void Frame::patch_callers(int epoch) {
  for (const PointerWord& pointer : image.epochs[index(epoch)].caller_words)
    block[index(pointer.word)] = reinterpret_cast<std::int64_t>(base[index(pointer.root)] +
                                                                values[index(pointer.offset_slot)]);
}

void Frame::patch_external(BufferId root) {
  for (const PointerWord& pointer : image.external_words[index(root)])
    block[index(pointer.word)] =
        reinterpret_cast<std::int64_t>(base[index(root)] + values[index(pointer.offset_slot)]);
}

std::shared_ptr<Capture> make_capture(const Image& image, const program::Executable& executable,
                                      Device& device, Loaded& loaded,
                                      std::span<const std::int64_t> gear_key, bool keep_arena,
                                      CoreLimit limit) {
  auto capture = std::make_shared<Capture>();
  capture->limit = limit;
  capture->key.assign(gear_key.begin(), gear_key.end());
  capture->gear_values.assign(index(image.num_slots), 0);
  evaluate(image, 0, gear_key, capture->gear_values);
  capture->plan = plan_block(image, 0, capture->gear_values, device.workers());
  BatchRecorder(image, device, loaded, *capture, keep_arena).run();
  auto code = std::make_shared<CodeTable>();
  for (const LaunchOp& op : image.launches)
    code->functions.push_back(executable.functions.empty()
                                  ? program::Callable{}
                                  : executable.functions[index(op.launch->code)]);
  capture->generic_code = std::move(code);
  return capture;
}

bool Capture::has_room_for(const Image& image, std::span<const std::int64_t> values) const {
  const EpochLayout& epoch = image.epochs[0];
  for (std::size_t i = 0; i < epoch.placed.size(); ++i)
    for (int slot : epoch.size_slots[i])
      if (values[index(slot)] < 0 || values[index(slot)] > plan.sizes[i]) return false;
  return std::ranges::all_of(epoch.scratch_slots, [&](const auto& slots) {
    const std::int64_t bytes = round_up_64(values[index(slots.bytes)]);
    return bytes <= plan.first_scratch &&
           others_need(image, bytes, values[index(slots.grid)]) <= plan.other_scratch;
  });
}

}  // namespace gex::runtime
