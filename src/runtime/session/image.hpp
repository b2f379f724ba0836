#pragma once
// A Program prepared for replay, once per Session: every Dim has a slot in a tape, every step its
// words in the parameter block, every segment is a list of items (batches of device steps, and host
// steps between them). State that changes with a key or a call is in Capture and Frame.
//
// Epochs: sizes known from the inputs are in epoch 0; each step that binds symbols begins the next
// epoch. Slots, words, buffers and outputs belong to the first epoch in which all their symbols are
// known.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "plan/lifetimes.hpp"
#include "plan/planner.hpp"
#include "program/program.hpp"
#include "runtime/recorder.hpp"

namespace gex::runtime {

// Ids, slots and words are ints with -1 for none; converts them to vector indices.
inline std::size_t index(int i) { return static_cast<std::size_t>(i); }

// block[word] = base[root] + values[offset_slot]
struct PointerWord {
  int word;
  program::BufferId root;
  int offset_slot;
};
// block[word] = values[slot]
struct ValueWord {
  int word;
  int slot;
};
// A list of numbers in the block: a shape, strides or the integers of a call.
struct WordList {
  int word = 0;
  int count = 0;
};

struct TensorLayout {
  int pointer_word = -1;  // none for a call's outputs
  DType dtype = DType::f32;
  WordList shape, strides;
  // Set if the operand of a call is exactly an input, or exactly the result of an earlier call.
  int input = -1;
  program::BufferId external = -1;
};

struct CallLayout {
  const program::Call* call = nullptr;
  std::vector<TensorLayout> inputs, outputs;
  WordList integers;
  // Symbols that result shapes define: program.symbols[symbol] := size of output at axis.
  struct Binding {
    int symbol, output, axis;
  };
  std::vector<Binding> bindings;
  std::vector<int> unknown_words;  // sizes not known before the call; the host gets -1
};

struct BindLayout {
  int symbol = -1;
  int pointer_word = -1;
  DType dtype = DType::i64;
};

// Consecutive device steps: [first, last) of one segment, words [word_begin, word_end).
struct BatchLayout {
  int segment = 0, first = 0, last = 0;
  int word_begin = 0, word_end = 0;
  int epoch = 0;
  int first_launch = 0;         // number of its first launch
  std::vector<int> step_words;  // by step, each followed by the steps of its segments
};

struct ControlLayout {
  int pointer_word = -1;                        // of the condition
  int first_segment = -1, second_segment = -1;  // then, else; condition, body
};

struct Item {
  enum class Kind : std::uint8_t { batch, call, bind, branch, loop };
  Kind kind = Kind::batch;
  int index = 0;                           // in the list of its kind
  int step = 0;                            // the first step of the segment that it covers
  std::vector<program::BufferId> release;  // externals whose last use this was
};

// An input whose release is reported to the host: position of its last use in the flattened order,
// or -1.
struct InputEnd {
  int position = -1;
  int input = 0;
  int bytes_slot = 0;
};

struct OutputLayout {
  WordList shape, strides;
  int offset_slot = -1, value_slot = -1;
  int epoch = 0;
};

// Everything that becomes known at the same time.
struct EpochLayout {
  DimTape tape;        // over the symbols known in this epoch
  int first_slot = 0;  // its slots in the table of all values
  std::vector<ValueWord> value_words;
  std::vector<PointerWord> arena_words;   // temporaries, constants
  std::vector<PointerWord> caller_words;  // inputs and outputs: patched at every call
  std::vector<int> outputs;               // fresh ones whose shape is now known
  std::vector<int> guards;
  // Temporaries placed in this epoch; the size of each is the largest of its slots.
  std::vector<program::BufferId> placed;
  std::vector<std::vector<int>> size_slots;
  plan::MemoryPlanner planner;
  struct ScratchSlots {
    int bytes, grid;
  };
  std::vector<ScratchSlots> scratch_slots;  // of the launches that need scratch
  // Aliases with sizes of this epoch in a root placed earlier: end slot <= size of the root.
  struct LateAlias {
    program::BufferId buffer, root;
    int end_slot;
  };
  std::vector<LateAlias> late_aliases;
};

struct Image {
  // Of a verified Program. records_control: Loaded::records_control.
  explicit Image(std::shared_ptr<const program::Program> program, bool reuse_memory = true,
                 bool records_control = false);

  int slot(Dim dim) const;  // of a Dim that the Program uses
  int epoch_of(Dim dim) const;
  int num_input_symbols() const { return num_input_symbols_; }

  std::shared_ptr<const program::Program> program;
  bool reuse_memory = true;
  plan::Lifetimes lifetimes;
  std::vector<EpochLayout> epochs;
  std::vector<LaunchOp> launches;  // by number
  std::vector<BatchLayout> batches;
  std::vector<CallLayout> calls;
  std::vector<BindLayout> binds;
  std::vector<ControlLayout> controls;    // of if and while steps that the host decides
  std::vector<std::string> host_control;  // why: a line for each kind of reason
  std::vector<std::vector<Item>> segments;
  std::vector<OutputLayout> outputs;
  std::vector<InputEnd> input_ends;                      // of released inputs, by position
  std::vector<std::vector<PointerWord>> external_words;  // by BufferId
  std::vector<program::BufferId> externals;              // roots
  std::vector<program::BufferId> root;                   // by BufferId
  std::vector<int> bytes_slot, offset_slot;  // by BufferId: own size, offset in the root
  std::vector<bool> returned;                // by BufferId: externals that are outputs
  int num_slots = 0;
  int num_words = 0;         // of the whole block
  int num_device_words = 0;  // words of device steps come first

 private:
  friend class ImageBuilder;
  struct Place {
    int epoch, slot;  // slot within the epoch's tape
  };
  std::unordered_map<Dim, Place> places_;
  std::vector<int> epoch_of_symbol_;  // by position in program->symbols
  int num_input_symbols_ = 0;
};

}  // namespace gex::runtime
