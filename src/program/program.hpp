#pragma once
// The low-level IR: a Program is segments of steps over buffers whose sizes are Dims. The compiler
// writes it, the runtime replays it, and they share nothing else.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dim/dim.hpp"
#include "base/dtype.hpp"
#include "base/tensor.hpp"

namespace gex::program {

using BufferId = int;

struct BufferDesc {
  enum class Kind : std::uint8_t {
    input,     // the caller's memory, borrowed for the call
    output,    // memory the caller makes for this call, written here and never touched again
    temp,      // in the arena, placed by the planner
    constant,  // `data`; or, with a slot, memory that the Session was given for good
    external,  // memory that a call step hands over; lives until its last use
  };
  std::string name;
  Kind kind = Kind::temp;
  DType dtype = DType::f32;
  std::vector<Dim> shape;
  std::vector<Dim> strides;  // in elements; empty = dense row-major
  Dim bytes;                 // extent of the memory behind it
  int slot = -1;             // number of the input, output or frozen memory
  // Same memory as another buffer, from a byte offset: ties, in-place results, strided views.
  BufferId alias_of = -1;
  Dim alias_offset;
  TensorPtr data;
};

struct InputDesc {
  enum class Kind : std::uint8_t { tensor, integer };
  Kind kind = Kind::tensor;
  std::string name;
  DType dtype = DType::f32;
  std::vector<Dim> shape;  // tensor: checked (or bound, where it is a bare new symbol) at each call
  std::vector<Dim> strides;  // empty = dense
  Dim value;                 // integer: likewise
  BufferId buffer = -1;
  // Tensor: the host hears of its last use, so that it can let go of the memory.
  bool released = false;
};

struct OutputDesc {
  enum class Kind : std::uint8_t {
    fresh,        // made by the caller before it is written, with `shape` and `strides`
    input_view,   // a view of input `input`: same memory, given shape, strides and offset
    output_view,  // a view of output `input` of this call
    external,     // the object a call step returned
    integer,      // `value`
    none,
  };
  Kind kind = Kind::fresh;
  std::string name;
  DType dtype = DType::f32;
  std::vector<Dim> shape;
  std::vector<Dim> strides;  // empty = dense
  Dim offset;                // views: in elements from the start of the viewed memory
  int input = -1;
  Dim value;
  BufferId buffer = -1;
};

// What a launch computes: a loop kernel, or a problem with loop kernels around it. Functions are
// found when the Program is loaded (executable.hpp).
struct Code {
  // A kernel that computes an operand of the problem, and where the launch has what it reads.
  struct Prologue {
    int kernel = -1;  // of Program::kernels
    int operand = 0;
    int first_buffer = 0;  // its inputs among the launch's buffers
    int input_buffers = 0;
    int dims_begin = 0;  // its own dims among the launch's dims
    bool operator==(const Prologue&) const = default;
  };
  std::string name;
  std::string problem;    // text of src/problems; empty: a loop kernel
  std::string algorithm;  // the backend's own name of how it computes the problem; may be empty
  int kernel = -1;        // of Program::kernels: the loop kernel, or the epilogue of the problem
  int extra_buffers = 0;  // of the epilogue
  std::vector<Prologue> prologues;
  bool operator==(const Code&) const = default;
};

struct Launch {
  std::string name;
  int code = -1;
  std::vector<BufferId> buffers;  // in the order of the kernel's signature
  std::vector<bool> writes;       // parallel to buffers
  std::vector<Dim> dims;
  Dim grid;              // points (CPU) or blocks (CUDA)
  Dim scratch_bytes;     // for each worker
  Dim work;              // rough cost in bytes touched + flops: decides grain and threads
  bool ordered = false;  // [0, grid) on one worker, in order
  bool matrix = false;   // a product: limits for matrix cores hold
  int block = 0;         // CUDA: threads in a block; the library computes it where it is 0
  // It may run at the same time as the launch before it, and as those that one may run beside.
  bool with_previous = false;
  // The launches after it that are marked with_previous read what it writes; a device that runs them
  // as one kernel has every block compute all of it first.
  bool repeated = false;
};

struct Copy {
  BufferId dst = -1, src = -1;
  Dim dst_offset, src_offset, bytes;
};

struct Fill {
  BufferId dst = -1;
  Dim bytes;
  std::uint64_t pattern = 0;
  int pattern_bytes = 1;  // 1, 2, 4 or 8
};

// A tensor as a call sees it: a strided window of a buffer.
struct TensorView {
  BufferId buffer = -1;
  DType dtype = DType::f32;
  std::vector<Dim> shape;
  std::vector<Dim> strides;  // in elements; never empty for rank > 0
  Dim offset;                // in elements
};

// Work done by the host program (PyTorch, a user function) on the calling thread, in order.
struct Call {
  std::string name;
  int callee = -1;  // meaning belongs to the caller's CallHandler
  std::vector<TensorView> inputs;
  std::vector<Dim> integers;        // evaluated and passed along
  std::vector<BufferId> outputs;    // external buffers; shapes and strides as their descs say
  std::vector<int> written_inputs;  // indices into `inputs` the call mutates
};

// symbol := element 0 of buffer, as an integer. Ends its segment: what depends on it is placed
// after.
struct Bind {
  Dim symbol;
  BufferId buffer = -1;
};

struct If {
  BufferId condition = -1;  // 0-d bool
  int then_segment = -1, else_segment = -1;
};

struct While {
  int condition_segment = -1;
  BufferId condition = -1;
  int body_segment = -1;
};

struct Record {
  int event = -1;
};
struct Wait {
  int event = -1;
};

struct Step {
  std::variant<Launch, Copy, Fill, Call, Bind, If, While, Record, Wait> op;
  int stream = 0;
  std::string location;  // the user's line, for errors and traces
  int threads = 0;       // device steps: at most so many workers; 0: as many as the caller allows
};

struct Segment {
  std::string name;
  std::vector<Step> steps;
};

struct Guard {
  Dim lhs, rhs;
  enum class Relation : std::uint8_t { eq, ne, lt, le } relation = Relation::eq;
  std::string message;  // shown with the actual numbers
};

struct Program {
  std::string name;
  std::vector<InputDesc> inputs;
  std::vector<OutputDesc> outputs;
  std::vector<BufferDesc> buffers;
  std::string target = "cpu";        // "cpu", "cuda:0": see target/target.hpp
  std::vector<std::string> kernels;  // texts of loop kernels (src/loop), distinct
  std::vector<Code> codes;
  std::vector<Segment> segments;
  std::vector<int> main;     // segments in order; the others belong to if and while steps
  std::vector<Dim> symbols;  // every symbol: those of inputs first, then bound ones
  std::vector<Guard> guards;
  int num_streams = 1, num_events = 0;
  // Facts for reports: bytes that copies of tied inputs cost, operators before fusion, and so on.
  std::vector<std::pair<std::string, std::int64_t>> counters;
};

void verify(const Program& program);  // UserError(invalid_graph)
struct PrintOptions {
  bool constant_data =
      true;  // false: contents of constants are left out; such text parses to zeros
};
std::string print(const Program& program, PrintOptions options = {});
Program parse_program(std::string_view text);
std::vector<BufferId> reads_of(const Step& step);  // buffers, aliases not resolved
std::vector<BufferId> writes_of(const Step& step);
BufferId root_of(const Program& program, BufferId id);      // follows alias_of
Dim offset_from_root(const Program& program, BufferId id);  // in bytes, along the same way
// Symbols that no input gives: a bind or a call's result shape does, while the program runs.
bool is_bound_symbol(const Program& program, Dim symbol);
// Those that this step binds: a bind's symbol; bare bound symbols in the shapes of a call's
// outputs.
std::vector<Dim> bound_symbols(const Program& program, const Step& step);

std::string_view name_of(BufferDesc::Kind kind);
std::string_view name_of(OutputDesc::Kind kind);
std::string_view symbol_of(Guard::Relation relation);  // "==", "!=", "<", "<="
bool holds(Guard::Relation relation, std::int64_t lhs, std::int64_t rhs);

}  // namespace gex::program
