#include "runtime/session/executor.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace gex::runtime {

using program::BufferId;
using program::OutputDesc;

namespace {

std::int64_t integer_at(const std::byte* data, DType dtype) {
  const auto as = [data]<class T>(T value) {
    std::memcpy(&value, data, sizeof value);
    return static_cast<std::int64_t>(value);
  };
  switch (dtype) {
    case DType::i64:
      return as(std::int64_t{});
    case DType::i32:
      return as(std::int32_t{});
    case DType::i16:
      return as(std::int16_t{});
    case DType::i8:
      return as(std::int8_t{});
    case DType::u8:
    case DType::boolean:
      return as(std::uint8_t{});
    default:
      break;
  }
  GEX_CHECK(false, "a bound size has dtype ", dtype);
  return 0;
}

}  // namespace

Executor::Executor(const Capture& capture, std::shared_ptr<const CodeTable> code, Frame& frame,
                   DeviceContext& context, std::span<const InputArg> inputs, Host& host,
                   bool keep_arena)
    : capture_(capture),
      code_(std::move(code)),
      frame_(frame),
      context_(context),
      inputs_(inputs),
      host_(host),
      keep_arena_(keep_arena),
      trace_(tracing() ? std::make_unique<CallTrace>(context.device->workers()) : nullptr) {}

Executor::~Executor() {
  for (BufferId id : frame_.image.externals) {
    release(id);
    frame_.held[index(id)] = Frame::kNone;
  }
}

void Executor::run() {
  const Image& image = frame_.image;
  context_.device->check_usable();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const BufferId id = image.program->inputs[i].buffer;
    if (id >= 0) frame_.base[index(id)] = static_cast<std::byte*>(inputs_[i].tensor.data);
  }
  allocate_outputs(0);
  const std::optional<std::uint64_t> stream = host_.stream();
  host_.about_to_block();
  {
    const bool is_recorded = stream.has_value() && context_.device->is_capturing(*stream);
    QueueLease lease(*context_.queues, static_cast<std::size_t>(capture_.plan.bytes()),
                     is_recorded);
    lease_ = &lease;
    lease.queue().begin(stream);
    const std::int64_t before = lease.queue().arena.allocations();
    frame_.place(0, capture_.plan, reserve(capture_.arena_block, capture_.plan));
    frame_.patch_callers(0);
    for (int segment : image.program->main) run_segment(segment);
    lease.queue().finish();
    lease_ = nullptr;
    if (!keep_arena_ && worth_discarding(temporaries_)) lease.queue().arena.discard();
    counts_.allocations = lease.queue().arena.allocations() - before;
  }
  give_outputs();
  if (trace_ != nullptr) give_trace();
}

void Executor::give_trace() {
  trace_->end = CallTrace::now();
  const Image& image = frame_.image;
  for (std::size_t k = 0; k < image.program->symbols.size(); ++k)
    trace_->sizes.push_back({image.program->symbols[k], frame_.symbols[k]});
  if (const std::shared_ptr<TraceSink> sink = trace_sink())
    sink->take(image.program, std::move(*trace_));
}

std::byte* Executor::reserve(int block, const BlockPlan& plan) {
  temporaries_ = std::max(temporaries_, plan.placement.total);
  const std::int64_t bytes = plan.bytes();
  Arena& arena = lease_->queue().arena;
  try {
    return arena.reserve(index(block), static_cast<std::size_t>(bytes));
  } catch (const UserError& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    context_.queues->trim();
    return arena.reserve(index(block), static_cast<std::size_t>(bytes));
  }
}

void Executor::run_segment(int segment) {
  for (const Item& item : frame_.image.segments[index(segment)]) {
    run_item(item);
    for (BufferId id : item.release) release(id);
  }
}

void Executor::run_item(const Item& item) {
  const Image& image = frame_.image;
  switch (item.kind) {
    case Item::Kind::batch: {
      Replay replay;
      replay.block = frame_.block.data();
      replay.values = frame_.values;
      replay.code = code_->functions;
      if (code_->device.number != 0) replay.device_code = &code_->device;
      replay.scratch = frame_.scratch;
      replay.tally = &counts_.tally;
      replay.trace = trace_.get();
      for (const BatchPart& part : capture_.batches[index(item.index)]) {
        if (control_ != nullptr) control_->check();
        host_.about_to_block();
        part.recording->replay(lease_->queue(), replay);
        release_early(part.release);
      }
      break;
    }
    case Item::Kind::call:
      run_call(image.calls[index(item.index)], frame_.calls[index(item.index)]);
      release_early(capture_.after_calls[index(item.index)]);
      break;
    case Item::Kind::bind:
      run_bind(image.binds[index(item.index)]);
      break;
    case Item::Kind::branch: {
      const ControlLayout& layout = image.controls[index(item.index)];
      run_segment(condition(layout.pointer_word) ? layout.first_segment : layout.second_segment);
      break;
    }
    case Item::Kind::loop: {
      const ControlLayout& layout = image.controls[index(item.index)];
      while (true) {
        run_segment(layout.first_segment);
        if (!condition(layout.pointer_word)) break;
        run_segment(layout.second_segment);
        if (control_ != nullptr) control_->on_iteration();
      }
      break;
    }
  }
}

bool Executor::condition(int pointer_word) {
  std::uint8_t value = 0;
  const auto* address = reinterpret_cast<const void*>(frame_.block[index(pointer_word)]);
  if (!lease_->queue().read(&value, address, 1)) return false;
  return value != 0;
}

// While the host runs, the queue is parked and does not count as computing.
template <class HostWork>
void Executor::in_host_code(HostWork work) {
  struct Suspended {
    QueuePool& pool;
    explicit Suspended(QueuePool& the_pool) : pool(the_pool) { pool.suspend(); }
    ~Suspended() { pool.resume(); }
  };
  lease_->queue().park();
  const Suspended suspended(lease_->pool());
  work();
}

void Executor::run_call(const CallLayout& layout, Frame::CallState& state) {
  for (std::size_t i = 0; i < layout.inputs.size(); ++i) {
    const TensorLayout& input = layout.inputs[i];
    state.inputs[i].data = reinterpret_cast<void*>(frame_.block[index(input.pointer_word)]);
    if (input.external >= 0) state.inputs[i].handle = frame_.handle[index(input.external)];
  }
  for (int word : layout.unknown_words) frame_.block[index(word)] = -1;
  for (Host::CallResult& result : state.results) {
    result.data = nullptr;
    result.handle = 0;
    result.shape.clear();
  }
  const std::span<const std::int64_t> integers(frame_.block.data() + layout.integers.word,
                                               index(layout.integers.count));
  ++counts_.host_calls;
  const std::int64_t began = trace_ == nullptr ? 0 : CallTrace::now();
  in_host_code(
      [&] { host_.call(*layout.call, state.inputs, integers, state.expected, state.results); });
  if (trace_ != nullptr) trace_->add(layout.call, TraceEvent::kHost, began, CallTrace::now());
  take_results(layout, state);
}

void Executor::take_results(const CallLayout& layout, Frame::CallState& state) {
  for (std::size_t k = 0; k < layout.outputs.size(); ++k) {
    const BufferId id = layout.call->outputs[k];
    release(id);  // the one of the previous loop iteration
    frame_.base[index(id)] = static_cast<std::byte*>(state.results[k].data);
    frame_.handle[index(id)] = state.results[k].handle;
    frame_.held[index(id)] = Frame::kHeld;
  }
  for (std::size_t k = 0; k < layout.outputs.size(); ++k) {
    const auto& got = state.results[k].shape;
    const auto expected = state.expected[k].shape;
    if (got.empty()) continue;
    bool fits = got.size() == expected.size();
    for (std::size_t d = 0; fits && d < got.size(); ++d)
      fits = expected[d] == -1 || expected[d] == got[d];
    if (!fits)
      fail(ErrorCode::shape_mismatch, "call \"", layout.call->name, "\" returned as result ", k,
           " a tensor of rank ", got.size(),
           " whose shape differs from the one it was compiled for; ",
           "compile again for this shape");
  }
  int next = epoch_;
  for (const CallLayout::Binding& binding : layout.bindings) {
    const auto& shape = state.results[index(binding.output)].shape;
    if (index(binding.axis) >= shape.size())
      fail(ErrorCode::invalid_argument, "call \"", layout.call->name, "\" must set the shape of ",
           "its result ", binding.output, ", which is known only after the call");
    bind_symbol(binding.symbol, shape[index(binding.axis)]);
    next = epoch_ + 1;
  }
  if (next != epoch_) begin_epoch(next);
  for (BufferId id : layout.call->outputs) frame_.patch_external(id);
}

void Executor::bind_symbol(int symbol, std::int64_t value) {
  const Dim dim = frame_.image.program->symbols[index(symbol)];
  const DimRange range = dim.range();
  if (value < range.lo || value > range.hi)
    fail(ErrorCode::shape_mismatch, "size ", dim, " is ", value,
         " at run time; the program was compiled for ", range.lo, " to ", range.hi);
  frame_.set_symbol(symbol, value);
}

void Executor::run_bind(const BindLayout& layout) {
  std::byte raw[8] = {};
  const auto* address = reinterpret_cast<const void*>(frame_.block[index(layout.pointer_word)]);
  std::int64_t value = 0;
  if (lease_->queue().read(raw, address, size_of(layout.dtype))) {
    value = integer_at(raw, layout.dtype);
  } else {
    const DimRange range = frame_.image.program->symbols[index(layout.symbol)].range();
    value = std::clamp<std::int64_t>(0, range.lo, range.hi);
  }
  bind_symbol(layout.symbol, value);
  begin_epoch(epoch_ + 1);
}

void Executor::begin_epoch(int epoch) {
  epoch_ = epoch;
  frame_.begin_epoch(epoch);
  if (!frame_.image.epochs[index(epoch)].outputs.empty())
    in_host_code([&] { allocate_outputs(epoch); });
  const BlockPlan& plan = frame_.late_plan(epoch, context_.device->workers());
  frame_.place(epoch, plan, reserve(epoch, plan));
  frame_.patch_callers(epoch);
}

void Executor::allocate_outputs(int epoch) {
  const Image& image = frame_.image;
  const std::span<const std::int64_t> words(frame_.block);
  for (int k : image.epochs[index(epoch)].outputs) {
    const OutputDesc& output = image.program->outputs[index(k)];
    const OutputLayout& layout = image.outputs[index(k)];
    frame_.base[index(output.buffer)] = static_cast<std::byte*>(host_.allocate_output(
        k, output.dtype, words.subspan(index(layout.shape.word), index(layout.shape.count)),
        words.subspan(index(layout.strides.word), index(layout.strides.count))));
  }
}

void Executor::release_early(const Release& release) {
  for (const ByteRange& range : release.arena)
    lease_->queue().arena.discard(range.begin, range.end);
  for (int input : release.inputs) host_.release_input(input);
  counts_.inputs_released += static_cast<std::int64_t>(release.inputs.size());
}

void Executor::release(BufferId id) {
  if (frame_.held[index(id)] != Frame::kHeld) return;
  frame_.held[index(id)] = Frame::kNone;
  host_.release(frame_.handle[index(id)]);
}

void Executor::give_outputs() {
  const Image& image = frame_.image;
  const std::span<const std::int64_t> words(frame_.block);
  for (std::size_t i = 0; i < image.outputs.size(); ++i) {
    const OutputDesc& output = image.program->outputs[i];
    const OutputLayout& layout = image.outputs[i];
    const auto k = static_cast<int>(i);
    const auto shape = words.subspan(index(layout.shape.word), index(layout.shape.count));
    const auto strides = words.subspan(index(layout.strides.word), index(layout.strides.count));
    switch (output.kind) {
      case OutputDesc::Kind::fresh:
      case OutputDesc::Kind::none:
        break;
      case OutputDesc::Kind::input_view:
        host_.set_view_output(k, output.input, shape, strides,
                              frame_.values[index(layout.offset_slot)]);
        break;
      case OutputDesc::Kind::output_view:
        host_.set_output_view_output(k, output.input, shape, strides,
                                     frame_.values[index(layout.offset_slot)]);
        break;
      case OutputDesc::Kind::integer:
        host_.set_integer_output(k, frame_.values[index(layout.value_slot)]);
        break;
      case OutputDesc::Kind::external:
        if (frame_.held[index(output.buffer)] == Frame::kNone)
          fail(ErrorCode::invalid_graph, "output ", i, " \"", output.name,
               "\" is the result of a call that did not run; compute it on every path");
        frame_.held[index(output.buffer)] = Frame::kGiven;
        host_.set_external_output(k, frame_.handle[index(output.buffer)]);
        break;
    }
  }
}

}  // namespace gex::runtime
