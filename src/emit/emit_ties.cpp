// New contents of inputs. A graph is pure: wherever an input stands, its contents from before the
// call are meant. So nothing may overwrite an input that a unit or a copy reads later.

#include <algorithm>
#include <iterator>

#include "emit/emitter.hpp"

namespace gex::emit {

// A tied value takes its input's layout, so that it can be written there by whoever computes it;
// not if its layout is promised to the caller or is that of another input.
void Emitter::lay_out_ties() {
  std::unordered_set<const Value*> fixed;
  for (const Signature::Output& slot : signature_.outputs)
    if (slot.kind == Signature::Output::Kind::tensor)
      fixed.insert(graph_.outputs()[static_cast<std::size_t>(slot.graph_output)]);
  for (const Tie& tie : graph_.ties()) {
    Value* value = graph_.outputs()[static_cast<std::size_t>(tie.output)];
    const Value& input = *graph_.inputs()[static_cast<std::size_t>(tie.input)];
    if (value->is_input() || !fixed.insert(value).second) continue;
    if (value->type().strides == input.type().strides) continue;
    if (written_operand(value) != nullptr) continue;  // lies as the operand that the call changes
    Type type = value->type();
    type.strides = input.type().strides;
    value->set_type(std::move(type));
  }
}

void Emitter::place_ties(const std::vector<lower::Unit>& units) {
  // No unit computes a value that is another input: it is copied in any case.
  std::vector<Tie> computed;
  for (const Tie& tie : graph_.ties()) {
    Value* value = graph_.outputs()[static_cast<std::size_t>(tie.output)];
    Value* input = graph_.inputs()[static_cast<std::size_t>(tie.input)].get();
    if (value == input) continue;
    if (value->is_input())
      tie_copies_.push_back({value, input});
    else
      computed.push_back(tie);
  }
  for (const Tie& tie : computed) {
    Value* value = graph_.outputs()[static_cast<std::size_t>(tie.output)];
    Value* input = graph_.inputs()[static_cast<std::size_t>(tie.input)].get();
    if (options_.in_place_inputs && place_scatter(units, tie)) {
      ++in_place_;
      continue;
    }
    const bool in_place = options_.in_place_inputs && !buffers_.contains(value) &&
                          can_write_in_place(units, value, input) &&
                          copy_before(units, *writer_of(units, value), input);
    if (in_place) {
      buffers_[value] = buffers_.at(input);
      ++in_place_;
    } else {
      tie_copies_.push_back({value, input});
    }
  }
}

// The copies that read `source` and, before each, those that read what it overwrites. False if a
// unit from `writer` on reads what one of them overwrites. `source` gets a computed value, so the
// copies form a tree.
bool Emitter::collect_copies(const std::vector<lower::Unit>& units, std::size_t writer,
                             const Value* source, std::vector<TieCopy>& copies) const {
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

bool Emitter::copy_before(const std::vector<lower::Unit>& units, std::size_t writer,
                          const Value* input) {
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

bool Emitter::is_copied(const Value* input) const {
  const auto copies_it = [&](const TieCopy& copy) { return copy.value == input; };
  return std::ranges::any_of(tie_copies_, copies_it) ||
         std::ranges::any_of(copies_before_, [&](const auto& entry) {
           return std::ranges::any_of(entry.second, copies_it);
         });
}

void Emitter::emit_tie_copy(const TieCopy& copy, const Operand& from) {
  emit_copy(buffers_.at(copy.input), lower::memory_strides(*copy.input), from.buffer, from.strides,
            from.offset, copy.input->type(), "tie");
}

// Each copy comes after those that read what it overwrites. Where that has no beginning (two inputs
// that are swapped), one input is set aside first.
void Emitter::emit_tie_copies() {
  std::unordered_map<const Value*, int> readers;
  std::unordered_map<const Value*, const TieCopy*> writer;
  for (const TieCopy& copy : tie_copies_) {
    ++readers[copy.value];
    writer[copy.input] = &copy;
  }
  std::unordered_map<const Value*, Operand> aside;
  std::unordered_set<const TieCopy*> done;
  // Emits the copy, then the one that waited for it to read its source, and so on.
  const auto emit_from = [&](const TieCopy* copy) {
    while (copy != nullptr && readers[copy->input] == 0 && done.insert(copy).second) {
      const auto kept = aside.find(copy->value);
      emit_tie_copy(*copy, kept != aside.end() ? kept->second : operand(copy->value));
      --readers[copy->value];
      const auto next = writer.find(copy->value);
      copy = next == writer.end() ? nullptr : next->second;
    }
  };
  for (const TieCopy& copy : tie_copies_) emit_from(&copy);
  for (const TieCopy& copy : tie_copies_) {
    if (done.contains(&copy)) continue;
    const Value* input = copy.input;
    const program::BufferId saved = add_temp(input->type(), "aside");
    const std::vector<Dim> strides = lower::memory_strides(*input);
    emit_copy(saved, strides, buffers_.at(input), strides, Dim(0), input->type(), "tie");
    aside[input] = {saved, strides, Dim(0)};
    readers[input] = 0;
    emit_from(&copy);
  }
}

}  // namespace gex::emit
