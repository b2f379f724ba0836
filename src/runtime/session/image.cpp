#include "runtime/session/image.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "plan/streams.hpp"
#include "program/control.hpp"
#include "runtime/memory/last_uses.hpp"

namespace gex::runtime {

using plan::is_device_step;
using program::BufferDesc;
using program::BufferId;
using program::condition_of;
using program::is_control;
using program::Program;
using program::segments_of;
using program::Step;

namespace {

std::vector<Dim> strides_or_dense(const std::vector<Dim>& shape, const std::vector<Dim>& strides) {
  if (!strides.empty() || shape.empty()) return strides;
  std::vector<Dim> dense(shape.size(), 1);
  for (std::size_t i = shape.size() - 1; i > 0; --i) dense[i - 1] = dense[i] * max(shape[i], 1);
  return dense;
}

}  // namespace

// Two walks over the Program with the same code: the first collects Dims into the tapes; the
// second, with all slots known, lays out words and items (`laying_out_`).
class ImageBuilder {
 public:
  ImageBuilder(Image& image, bool records_control)
      : image_(image), program_(*image.program), records_control_(records_control) {}

  void build() {
    image_.lifetimes = plan::lifetimes_of(program_);
    find_epochs();
    roots();
    find_control();
    walk();
    int slots = 0;
    for (EpochLayout& epoch : image_.epochs) {
      epoch.first_slot = slots;
      slots += epoch.tape.slots();
    }
    image_.num_slots = slots;
    laying_out_ = true;
    walk();
    image_.num_words = next_word_;
    for (EpochLayout& epoch : image_.epochs) {
      std::vector<plan::Interval> lives;
      for (BufferId id : epoch.placed) lives.push_back(image_.lifetimes.of_root[index(id)]);
      epoch.planner = plan::MemoryPlanner(std::move(lives));
    }
    place_releases(image_);
    find_input_ends(image_);
  }

 private:
  const BufferDesc& buffer(BufferId id) const { return program_.buffers[index(id)]; }

  void find_epochs() {
    const auto& symbols = program_.symbols;
    image_.epoch_of_symbol_.assign(symbols.size(), -1);
    std::vector<Dim> known;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      if (program::is_bound_symbol(program_, symbols[i])) continue;
      image_.epoch_of_symbol_[i] = 0;
      known.push_back(symbols[i]);
    }
    image_.num_input_symbols_ = static_cast<int>(known.size());
    image_.epochs.resize(1);
    image_.epochs[0].tape = DimTape(known);
    for (int segment : program_.main) {
      for (const Step& step : program_.segments[index(segment)].steps) {
        const std::size_t before = known.size();
        for (Dim symbol : program::bound_symbols(program_, step)) {
          const std::size_t at = position_of(symbol);
          if (image_.epoch_of_symbol_[at] >= 0) continue;
          image_.epoch_of_symbol_[at] = static_cast<int>(image_.epochs.size());
          known.push_back(symbol);
        }
        if (known.size() == before) continue;
        image_.epochs.emplace_back();
        image_.epochs.back().tape = DimTape(known);
      }
    }
  }

  std::size_t position_of(Dim symbol) const {
    const auto& symbols = program_.symbols;
    return index(
        static_cast<int>(std::find(symbols.begin(), symbols.end(), symbol) - symbols.begin()));
  }

  void roots() {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i)
      image_.root.push_back(program::root_of(program_, static_cast<BufferId>(i)));
    image_.returned.assign(program_.buffers.size(), false);
    image_.external_words.resize(program_.buffers.size());
    for (std::size_t i = 0; i < program_.buffers.size(); ++i)
      if (program_.buffers[i].kind == BufferDesc::Kind::external)
        image_.externals.push_back(static_cast<BufferId>(i));
    for (const auto& output : program_.outputs)
      if (output.kind == program::OutputDesc::Kind::external)
        image_.returned[index(output.buffer)] = true;
  }

  // Which segments become part of the batches of the steps that they belong to.
  void find_control() {
    in_batch_.assign(program_.segments.size(), false);
    for (const program::Segment& segment : program_.segments)
      for (const Step& step : segment.steps) {
        if (!is_control(step) || !records_control_) continue;
        const std::string why = why_host(step);
        if (why.empty())
          for (int inner : segments_of(step)) in_batch_[index(inner)] = true;
        else if (std::ranges::find(image_.host_control, why) == image_.host_control.end())
          image_.host_control.push_back(why);
      }
  }

  // Why the host decides an if or while step; empty if it need not.
  std::string why_host(const Step& step) const {
    const std::string kind = std::holds_alternative<program::If>(step.op) ? "if" : "while";
    for (int inner : segments_of(step))
      for (const Step& within : program_.segments[index(inner)].steps) {
        if (const auto* call = std::get_if<program::Call>(&within.op))
          return str(kind, ": \"", call->name, "\" is called by the host");
        if (std::holds_alternative<program::Bind>(within.op))
          return kind + ": a size is read by the host";
        if (has_late_sizes(within)) return kind + ": its sizes are known after a step before it";
        if (!is_control(within)) continue;
        const std::string why = why_host(within);
        if (!why.empty()) return kind + ", " + why;
      }
    return {};
  }

  bool has_late_sizes(const Step& step) const {
    if (const auto* launch = std::get_if<program::Launch>(&step.op)) {
      std::vector<Dim> sizes = launch->dims;
      sizes.insert(sizes.end(), {launch->grid, launch->work, launch->scratch_bytes});
      return std::ranges::any_of(sizes, [&](Dim dim) { return image_.epoch_of(dim) > 0; });
    }
    if (const auto* copy = std::get_if<program::Copy>(&step.op))
      return std::max({image_.epoch_of(copy->bytes), image_.epoch_of(copy->dst_offset),
                       image_.epoch_of(copy->src_offset)}) > 0;
    const auto* fill = std::get_if<program::Fill>(&step.op);
    return fill != nullptr && image_.epoch_of(fill->bytes) > 0;
  }

  // Whether the step is part of a batch.
  bool is_in_batch(const Step& step) const {
    return is_device_step(step) || (is_control(step) && in_batch_[index(segments_of(step)[0])]);
  }

  // First walk: creates the slot. Second walk: looks it up.
  int slot(Dim dim) {
    if (laying_out_) return image_.slot(dim);
    if (image_.places_.contains(dim)) return -1;
    const int known = image_.epoch_of(dim);
    image_.places_.emplace(dim, Image::Place{known, epoch(known).tape.add(dim)});
    return -1;
  }

  EpochLayout& epoch(int number) { return image_.epochs[index(number)]; }

  int value_word(Dim dim) {
    const int at = slot(dim), word = next_word_++;
    if (laying_out_) epoch(image_.epoch_of(dim)).value_words.push_back({word, at});
    return word;
  }

  WordList value_words(const std::vector<Dim>& dims) {
    const WordList list{next_word_, static_cast<int>(dims.size())};
    for (Dim dim : dims) value_word(dim);
    return list;
  }

  int pointer_word(BufferId id, Dim extra_bytes = 0) {
    const Dim offset = program::offset_from_root(program_, id) + extra_bytes;
    const int at = slot(offset), word = next_word_++;
    if (!laying_out_) return word;
    const BufferId root = image_.root[index(id)];
    const BufferDesc& desc = buffer(root);
    const PointerWord pointer{word, root, at};
    const int known = std::max(image_.epoch_of(offset), image_.epoch_of(desc.bytes));
    switch (desc.kind) {
      case BufferDesc::Kind::temp:
      case BufferDesc::Kind::constant:
        epoch(known).arena_words.push_back(pointer);
        break;
      case BufferDesc::Kind::input:
      case BufferDesc::Kind::output:
        epoch(std::max(known, epoch_of_output(desc))).caller_words.push_back(pointer);
        break;
      case BufferDesc::Kind::external:
        image_.external_words[index(root)].push_back(pointer);
        break;
    }
    return word;
  }

  int epoch_of_output(const BufferDesc& desc) const {
    if (desc.kind != BufferDesc::Kind::output) return 0;
    const auto& output = program_.outputs[index(desc.slot)];
    int known = 0;
    for (const auto* list : {&output.shape, &output.strides})
      for (Dim dim : *list) known = std::max(known, image_.epoch_of(dim));
    return known;
  }

  void walk() {
    next_word_ = 0;
    if (laying_out_) image_.segments.resize(program_.segments.size());
    // Words of device steps come first, so that they are contiguous in the block.
    for (std::size_t s = 0; s < program_.segments.size(); ++s)
      if (!in_batch_[s]) device_steps(static_cast<int>(s));
    image_.num_device_words = next_word_;
    current_epoch_ = 0;
    std::vector<bool> is_main(program_.segments.size(), false);
    for (int segment : program_.main) is_main[index(segment)] = true;
    // Main segments in order, so that the epoch at each step is known.
    for (int segment : program_.main) host_steps(segment);
    for (std::size_t s = 0; s < program_.segments.size(); ++s)
      if (!is_main[s] && !in_batch_[s]) host_steps(static_cast<int>(s));
    buffers();
    outputs();
    for (std::size_t g = 0; g < program_.guards.size(); ++g) {
      const auto& guard = program_.guards[g];
      slot(guard.lhs);
      slot(guard.rhs);
      if (!laying_out_) continue;
      epoch(std::max(image_.epoch_of(guard.lhs), image_.epoch_of(guard.rhs)))
          .guards.push_back(static_cast<int>(g));
    }
    for (const auto& input : program_.inputs) {
      for (Dim dim : input.shape) slot(dim);
      for (Dim dim : input.strides) slot(dim);
      slot(input.value);
    }
  }

  void device_steps(int segment) {
    const auto& steps = program_.segments[index(segment)].steps;
    for (std::size_t i = 0; i < steps.size();) {
      if (!is_in_batch(steps[i])) {
        ++i;
        continue;
      }
      BatchLayout batch;
      batch.segment = segment;
      batch.first = static_cast<int>(i);
      batch.word_begin = next_word_;
      batch.first_launch = static_cast<int>(image_.launches.size());
      for (; i < steps.size() && is_in_batch(steps[i]); ++i)
        batch.epoch = std::max(batch.epoch, step_of_batch(steps[i], batch));
      batch.last = static_cast<int>(i);
      batch.word_end = next_word_;
      if (laying_out_) image_.batches.push_back(std::move(batch));
    }
  }

  int step_of_batch(const Step& step, BatchLayout& batch) {
    batch.step_words.push_back(next_word_);
    if (!is_control(step)) return device_step(step);
    pointer_word(condition_of(step));
    for (int inner : segments_of(step))
      for (const Step& within : program_.segments[index(inner)].steps) step_of_batch(within, batch);
    return 0;
  }

  // Returns the epoch of the step.
  int device_step(const Step& step) {
    if (const auto* launch = std::get_if<program::Launch>(&step.op)) {
      LaunchOp op;
      op.launch = launch;
      op.number = static_cast<int>(image_.launches.size());
      op.word = next_word_;
      for (BufferId id : launch->buffers) pointer_word(id);
      std::vector<Dim> values = launch->dims;
      for (Dim dim : {launch->grid, launch->work, launch->scratch_bytes}) values.push_back(dim);
      for (Dim dim : values) {
        value_word(dim);
        op.epoch = std::max(op.epoch, image_.epoch_of(dim));
      }
      if (laying_out_) {
        if (launch->scratch_bytes != Dim(0))
          epoch(op.epoch).scratch_slots.push_back(
              {image_.slot(launch->scratch_bytes), image_.slot(launch->grid)});
        image_.launches.push_back(op);
      }
      return op.epoch;
    }
    if (const auto* copy = std::get_if<program::Copy>(&step.op)) {
      pointer_word(copy->dst, copy->dst_offset);
      pointer_word(copy->src, copy->src_offset);
      value_word(copy->bytes);
      return std::max({image_.epoch_of(copy->bytes), image_.epoch_of(copy->dst_offset),
                       image_.epoch_of(copy->src_offset)});
    }
    if (const auto* fill = std::get_if<program::Fill>(&step.op)) {
      pointer_word(fill->dst);
      value_word(fill->bytes);
      return image_.epoch_of(fill->bytes);
    }
    return 0;
  }

  void host_steps(int segment) {
    const auto& steps = program_.segments[index(segment)].steps;
    std::vector<Item> items;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      Item item;
      item.step = static_cast<int>(i);
      if (is_in_batch(steps[i])) {
        while (i + 1 < steps.size() && is_in_batch(steps[i + 1])) ++i;
        item.kind = Item::Kind::batch;
        item.index = batch_at(segment, static_cast<int>(i) + 1);
      } else if (const auto* call = std::get_if<program::Call>(&steps[i].op)) {
        item.kind = Item::Kind::call;
        item.index = static_cast<int>(image_.calls.size());
        call_step(*call, steps[i]);
      } else if (const auto* bind = std::get_if<program::Bind>(&steps[i].op)) {
        item.kind = Item::Kind::bind;
        item.index = static_cast<int>(image_.binds.size());
        BindLayout layout;
        layout.symbol = static_cast<int>(position_of(bind->symbol));
        layout.pointer_word = pointer_word(bind->buffer);
        layout.dtype = buffer(bind->buffer).dtype;
        if (laying_out_) image_.binds.push_back(layout);
        current_epoch_ = image_.epoch_of_symbol_[index(layout.symbol)];
      } else {
        control_step(steps[i], item);
      }
      items.push_back(std::move(item));
    }
    if (laying_out_) image_.segments[index(segment)] = std::move(items);
  }

  int batch_at(int segment, int last) const {
    for (std::size_t b = 0; b < image_.batches.size(); ++b)
      if (image_.batches[b].segment == segment && image_.batches[b].last == last)
        return static_cast<int>(b);
    return -1;  // first walk
  }

  void control_step(const Step& step, Item& item) {
    item.kind =
        std::holds_alternative<program::If>(step.op) ? Item::Kind::branch : Item::Kind::loop;
    const auto [first, second] = segments_of(step);
    const ControlLayout layout{pointer_word(condition_of(step)), first, second};
    item.index = static_cast<int>(image_.controls.size());
    if (laying_out_) image_.controls.push_back(layout);
  }

  void call_step(const program::Call& call, const Step& step) {
    CallLayout layout;
    layout.call = &call;
    for (const program::TensorView& view : call.inputs) {
      const Dim skip = view.offset * Dim(static_cast<std::int64_t>(size_of(view.dtype)));
      TensorLayout tensor;
      tensor.pointer_word = pointer_word(view.buffer, skip);
      tensor.dtype = view.dtype;
      tensor.shape = value_words(view.shape);
      tensor.strides = value_words(view.strides);
      const BufferDesc& whole = buffer(view.buffer);
      if (view.offset == Dim(0) && whole.alias_of < 0 && view.shape == whole.shape &&
          view.strides == strides_or_dense(whole.shape, whole.strides)) {
        if (whole.kind == BufferDesc::Kind::input) tensor.input = whole.slot;
        if (whole.kind == BufferDesc::Kind::external) tensor.external = view.buffer;
      }
      layout.inputs.push_back(tensor);
    }
    layout.integers = value_words(call.integers);
    for (BufferId id : call.outputs) {
      const BufferDesc& desc = buffer(id);
      TensorLayout tensor;
      tensor.dtype = desc.dtype;
      tensor.shape = value_words(desc.shape);
      tensor.strides = value_words(strides_or_dense(desc.shape, desc.strides));
      layout.outputs.push_back(tensor);
      const std::vector<Dim> strides = strides_or_dense(desc.shape, desc.strides);
      for (std::size_t axis = 0; axis < desc.shape.size(); ++axis) {
        if (image_.epoch_of(desc.shape[axis]) > current_epoch_)
          layout.unknown_words.push_back(tensor.shape.word + static_cast<int>(axis));
        if (image_.epoch_of(strides[axis]) > current_epoch_)
          layout.unknown_words.push_back(tensor.strides.word + static_cast<int>(axis));
      }
    }
    int after = current_epoch_;
    for (Dim symbol : program::bound_symbols(program_, step)) {
      const std::size_t at = position_of(symbol);
      if (image_.epoch_of_symbol_[at] <= current_epoch_)
        continue;  // already known: checked, not bound
      after = std::max(after, image_.epoch_of_symbol_[at]);
      for (std::size_t k = 0; k < call.outputs.size(); ++k) {
        const auto& shape = buffer(call.outputs[k]).shape;
        const auto axis = std::find(shape.begin(), shape.end(), symbol);
        if (axis == shape.end()) continue;
        layout.bindings.push_back(
            {static_cast<int>(at), static_cast<int>(k), static_cast<int>(axis - shape.begin())});
        break;
      }
    }
    current_epoch_ = after;
    if (laying_out_) image_.calls.push_back(std::move(layout));
  }

  void buffers() {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const BufferDesc& desc = program_.buffers[i];
      const auto id = static_cast<BufferId>(i);
      const Dim offset = program::offset_from_root(program_, id);
      const int bytes_slot = slot(desc.bytes), offset_slot = slot(offset);
      const int end_slot = slot(offset + desc.bytes);
      if (!laying_out_) continue;
      image_.bytes_slot.push_back(bytes_slot);
      image_.offset_slot.push_back(offset_slot);
      const BufferId root = image_.root[i];
      if (buffer(root).kind != BufferDesc::Kind::temp) continue;
      if (!image_.lifetimes.of_root[index(root)].used()) continue;
      const int placed_in = image_.epoch_of(buffer(root).bytes);
      EpochLayout& home = epoch(placed_in);
      if (root == id) {
        home.placed.push_back(id);
        home.size_slots.push_back({end_slot});
      }
    }
    if (!laying_out_) return;
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const auto id = static_cast<BufferId>(i);
      const BufferId root = image_.root[i];
      if (root == id || buffer(root).kind != BufferDesc::Kind::temp) continue;
      EpochLayout& home = epoch(image_.epoch_of(buffer(root).bytes));
      const auto at = std::find(home.placed.begin(), home.placed.end(), root);
      if (at == home.placed.end()) continue;
      const Dim end = program::offset_from_root(program_, id) + buffer(id).bytes;
      const int known = image_.epoch_of(end);
      if (known <= image_.epoch_of(buffer(root).bytes)) {
        home.size_slots[index(static_cast<int>(at - home.placed.begin()))].push_back(
            image_.slot(end));
      } else {
        epoch(known).late_aliases.push_back({id, root, image_.slot(end)});
      }
    }
  }

  void outputs() {
    for (std::size_t k = 0; k < program_.outputs.size(); ++k) {
      const auto& output = program_.outputs[k];
      OutputLayout layout;
      layout.shape = value_words(output.shape);
      const std::vector<Dim> strides = strides_or_dense(output.shape, output.strides);
      layout.strides = value_words(strides);
      layout.offset_slot = slot(output.offset);
      layout.value_slot = slot(output.value);
      for (const auto* list : {&output.shape, &strides})
        for (Dim dim : *list) layout.epoch = std::max(layout.epoch, image_.epoch_of(dim));
      if (!laying_out_) continue;
      if (output.kind == program::OutputDesc::Kind::fresh)
        epoch(layout.epoch).outputs.push_back(static_cast<int>(k));
      image_.outputs.push_back(layout);
    }
  }

  Image& image_;
  const Program& program_;
  const bool records_control_;
  std::vector<bool> in_batch_;  // by segment
  bool laying_out_ = false;
  int next_word_ = 0;
  int current_epoch_ = 0;
};

Image::Image(std::shared_ptr<const program::Program> the_program, bool reuses, bool records_control)
    : program(std::move(the_program)), reuse_memory(reuses) {
  ImageBuilder(*this, records_control).build();
}

int Image::epoch_of(Dim dim) const {
  if (dim.is_const()) return 0;
  if (const auto found = places_.find(dim); found != places_.end()) return found->second.epoch;
  std::vector<Dim> symbols;
  dim.collect_symbols(symbols);
  int epoch = 0;
  for (Dim symbol : symbols) {
    const auto at = std::find(program->symbols.begin(), program->symbols.end(), symbol);
    GEX_CHECK(at != program->symbols.end(), "unknown symbol ", symbol);
    epoch =
        std::max(epoch, epoch_of_symbol_[index(static_cast<int>(at - program->symbols.begin()))]);
  }
  return epoch;
}

int Image::slot(Dim dim) const {
  const auto found = places_.find(dim);
  GEX_CHECK(found != places_.end(), "no slot for ", dim);
  return epochs[index(found->second.epoch)].first_slot + found->second.slot;
}

}  // namespace gex::runtime
