#include "runtime/memory/last_uses.hpp"

#include <algorithm>

namespace gex::runtime {

using program::BufferId;

namespace {

plan::Interval span_of(const Image& image, const Item& item, int segment) {
  const auto& steps = image.lifetimes.of_step[index(segment)];
  if (item.kind == Item::Kind::batch) {
    const BatchLayout& batch = image.batches[index(item.index)];
    return {steps[index(batch.first)].first, steps[index(batch.last - 1)].last};
  }
  return steps[index(item.step)];
}

bool holds(const Image& image, int segment, plan::Interval live) {
  const auto& steps = image.lifetimes.of_step[index(segment)];
  return !steps.empty() && steps.front().first <= live.first && live.last <= steps.back().last;
}

bool release_in(Image& image, int segment, BufferId id, plan::Interval live) {
  for (Item& item : image.segments[index(segment)]) {
    const plan::Interval span = span_of(image, item, segment);
    if (live.last < span.first || live.last > span.last) continue;
    const bool control = item.kind == Item::Kind::branch || item.kind == Item::Kind::loop;
    if (control && live.first > span.first) {
      const ControlLayout& layout = image.controls[index(item.index)];
      for (int inner : {layout.first_segment, layout.second_segment})
        if (holds(image, inner, live) && release_in(image, inner, id, live)) return true;
    }
    item.release.push_back(id);
    return true;
  }
  return false;
}

}  // namespace

// An external is released by the item with its last use in the innermost segment that also contains
// its definition: one defined before a loop and used inside is released after the loop.
void place_releases(Image& image) {
  for (BufferId id : image.externals) {
    const plan::Interval live = image.lifetimes.of_root[index(id)];
    if (!live.used() || image.returned[index(id)]) continue;
    for (int segment : image.program->main)
      if (release_in(image, segment, id, live)) break;
  }
}

void find_input_ends(Image& image) {
  const auto& inputs = image.program->inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const program::InputDesc& input = inputs[i];
    if (!input.released || input.buffer < 0) continue;
    const int last = image.lifetimes.of_root[index(input.buffer)].last;
    image.input_ends.push_back({last, static_cast<int>(i), image.bytes_slot[index(input.buffer)]});
  }
  std::ranges::stable_sort(image.input_ends, {}, &InputEnd::position);
}

}  // namespace gex::runtime
