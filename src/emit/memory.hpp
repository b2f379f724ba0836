#pragma once
// Memory of values: buffers of the program, views of them, windows.

#include <string>

#include "emit/state.hpp"

namespace gex::emit {

// A buffer as an input, output, temporary or constant of this type.
program::BufferDesc describe(const Type& type, program::BufferDesc::Kind kind, std::string name);

class Memory {
 public:
  explicit Memory(State& state) : state_(state) {}

  program::BufferId add(program::BufferDesc desc);
  program::BufferId add_temp(const Type& type, std::string name);
  program::BufferId of(Value* value);  // its own memory; unit outputs get it on first use
  Operand operand(Value* value);       // strided, never copied
  program::BufferId window(program::BufferId base, Dim offset_elements);  // alias at an offset
  Value* input_at(program::BufferId id) const;  // the graph input in this memory, or null

 private:
  State& state_;
};

}  // namespace gex::emit
