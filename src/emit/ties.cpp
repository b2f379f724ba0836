#include "emit/ties.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "emit/in_place.hpp"

namespace gex::emit {

// A tied value gets its input's layout, so that its producer can write it there; not if its layout
// is promised to the caller or is that of another input.
void Ties::lay_out() {
  std::unordered_set<const Value*> fixed;
  for (const Signature::Output& slot : state_.signature.outputs)
    if (slot.kind == Signature::Output::Kind::tensor)
      fixed.insert(state_.graph.outputs()[static_cast<std::size_t>(slot.graph_output)]);
  for (const Tie& tie : state_.graph.ties()) {
    Value* value = state_.graph.outputs()[static_cast<std::size_t>(tie.output)];
    const Value& input = *state_.graph.inputs()[static_cast<std::size_t>(tie.input)];
    if (value->is_input() || !fixed.insert(value).second) continue;
    if (value->type().strides == input.type().strides) continue;
    if (written_operand(value) != nullptr)
      continue;  // has the layout of the operand that the call writes
    Type type = value->type();
    type.strides = input.type().strides;
    value->set_type(std::move(type));
  }
}

void Ties::place(const Units& units) {
  // A value that is another input has no producer: it is always copied.
  std::vector<Tie> computed;
  for (const Tie& tie : state_.graph.ties()) {
    Value* value = state_.graph.outputs()[static_cast<std::size_t>(tie.output)];
    Value* input = state_.graph.inputs()[static_cast<std::size_t>(tie.input)].get();
    if (value == input) continue;
    if (value->is_input())
      tie_copies_.push_back({value, input});
    else
      computed.push_back(tie);
  }
  for (const Tie& tie : computed) {
    Value* value = state_.graph.outputs()[static_cast<std::size_t>(tie.output)];
    Value* input = state_.graph.inputs()[static_cast<std::size_t>(tie.input)].get();
    if (state_.options.in_place_inputs && place_scatter(units, tie)) {
      ++state_.in_place;
      continue;
    }
    const bool in_place = state_.options.in_place_inputs && !state_.buffers.contains(value) &&
                          can_write_in_place(units, value, input) &&
                          copy_before(units, *writer_of(units, value), input);
    if (in_place) {
      state_.buffers[value] = state_.buffers.at(input);
      ++state_.in_place;
    } else {
      tie_copies_.push_back({value, input});
    }
  }
}

bool Ties::place_scatter(const Units& units, const Tie& tie) {
  const Node* node = scatter_under(state_.graph, tie);
  Value* value = state_.graph.outputs()[static_cast<std::size_t>(tie.output)];
  Value* input = state_.graph.inputs()[static_cast<std::size_t>(tie.input)].get();
  if (node == nullptr || state_.buffers.contains(value) || state_.buffers.contains(node->output()))
    return false;
  const auto unit = std::find_if(units.begin(), units.end(),
                                 [&](const lower::Unit& u) { return u.anchor == node; });
  if (unit == units.end() || std::any_of(unit + 1, units.end(), [&](const lower::Unit& later) {
        return reads(later, input);
      }))
    return false;
  if (!copy_before(units, static_cast<std::size_t>(unit - units.begin()), input)) return false;
  for (Value* same : {value, node->output(), node->input(0)})
    if (!same->is_input()) state_.buffers[same] = state_.buffers.at(input);
  return true;
}

// Collects the copies that read `source` and, before each, those that read what it overwrites.
// False if a unit from `writer` on reads what one of them overwrites. `source` gets a computed
// value, so the copies form a tree.
bool Ties::collect_copies(const Units& units, std::size_t writer, const Value* source,
                          std::vector<TieCopy>& copies) const {
  for (const TieCopy& copy : tie_copies_) {
    if (copy.value != source) continue;
    if (std::any_of(units.begin() + static_cast<std::ptrdiff_t>(writer), units.end(),
                    [&](const lower::Unit& unit) { return reads(unit, copy.input); }))
      return false;
    if (!collect_copies(units, writer, copy.input, copies)) return false;
    copies.push_back(copy);
  }
  return true;
}

bool Ties::copy_before(const Units& units, std::size_t writer, const Value* input) {
  std::vector<TieCopy> copies;
  if (!collect_copies(units, writer, input, copies)) return false;
  if (copies.empty()) return true;
  std::erase_if(tie_copies_, [&](const TieCopy& late) {
    return std::ranges::find(copies, late.input, &TieCopy::input) != copies.end();
  });
  std::vector<TieCopy>& before = copies_before_[&units[writer]];
  before.insert(before.end(), copies.begin(), copies.end());
  return true;
}

bool Ties::is_copied(const Value* input) const {
  const auto copies_it = [&](const TieCopy& copy) { return copy.value == input; };
  return std::ranges::any_of(tie_copies_, copies_it) ||
         std::ranges::any_of(copies_before_, [&](const auto& entry) {
           return std::ranges::any_of(entry.second, copies_it);
         });
}

void Ties::emit_copy(const TieCopy& copy, const Operand& from) {
  launches_.copy(state_.buffers.at(copy.input), lower::memory_strides(*copy.input), from.buffer,
                 from.strides, from.offset, copy.input->type(), "tie");
}

// Each copy comes after those that read what it overwrites. If they form a cycle (two swapped
// inputs), one input is saved first.
void Ties::emit_copies() {
  std::unordered_map<const Value*, int> readers;
  std::unordered_map<const Value*, const TieCopy*> writer;
  for (const TieCopy& copy : tie_copies_) {
    ++readers[copy.value];
    writer[copy.input] = &copy;
  }
  std::unordered_map<const Value*, Operand> aside;
  std::unordered_set<const TieCopy*> done;
  // Emits the copy, then the copy that overwrites what this one read, and so on.
  const auto emit_from = [&](const TieCopy* copy) {
    while (copy != nullptr && readers[copy->input] == 0 && done.insert(copy).second) {
      const auto kept = aside.find(copy->value);
      emit_copy(*copy, kept != aside.end() ? kept->second : memory_.operand(copy->value));
      --readers[copy->value];
      const auto next = writer.find(copy->value);
      copy = next == writer.end() ? nullptr : next->second;
    }
  };
  for (const TieCopy& copy : tie_copies_) emit_from(&copy);
  for (const TieCopy& copy : tie_copies_) {
    if (done.contains(&copy)) continue;
    const Value* input = copy.input;
    const program::BufferId saved = memory_.add_temp(input->type(), "aside");
    const std::vector<Dim> strides = lower::memory_strides(*input);
    launches_.copy(saved, strides, state_.buffers.at(input), strides, Dim(0), input->type(), "tie");
    aside[input] = {saved, strides, Dim(0)};
    readers[input] = 0;
    emit_from(&copy);
  }
}

void Ties::emit_copies_before(const lower::Unit& unit) {
  const auto copies = copies_before_.find(&unit);
  if (copies == copies_before_.end()) return;
  for (const TieCopy& copy : copies->second) emit_copy(copy, memory_.operand(copy.value));
}

bool Ties::copies(const Value* value) const {
  return std::ranges::any_of(tie_copies_,
                             [&](const TieCopy& copy) { return lies_in(copy.value, value); });
}

}  // namespace gex::emit
