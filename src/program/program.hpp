#pragma once
// The low-level IR: a Program is a list of segments of steps over buffers whose sizes are Dims. The
// compiler writes it, the runtime replays it; they share nothing else.

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
    input,     // memory of the caller, borrowed for the call
    output,    // allocated by the caller for this call, written by it and not used afterwards
    temp,      // in the arena, placed by the planner
    constant,  // `data`; or, with a slot, frozen memory given to the Session
    external,  // memory returned by a call step; lives until its last use
  };
  std::string name;
  Kind kind = Kind::temp;
  DType dtype = DType::f32;
  std::vector<Dim> shape;
  std::vector<Dim> strides;  // in elements; empty = dense row-major
  Dim bytes;                 // size of its memory
  int slot = -1;             // number of the input, output or frozen memory
  // Shares memory with another buffer, at a byte offset: ties, in-place results, strided views.
  BufferId alias_of = -1;
  Dim alias_offset;
  TensorPtr data;
  // Written and read only by phases of one persistent kernel: every element is stored with a flag
  // that says that it was written, so it takes twice its size.
  bool exchanged = false;
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
  // Tensor: its last use is reported to the host, which can then free the memory.
  bool released = false;
};

struct OutputDesc {
  enum class Kind : std::uint8_t {
    fresh,        // allocated by the caller before it is written, with `shape` and `strides`
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

// What a launch computes: a loop kernel, or a problem with attached loop kernels. Functions are
// found when the Program is loaded (executable.hpp).
struct Code {
  // A kernel that computes an operand of the problem, and the launch arguments that it reads.
  struct Prologue {
    int kernel = -1;  // of Program::kernels
    int operand = 0;
    int first_buffer = 0;  // its inputs among the launch's buffers
    int input_buffers = 0;
    int dims_begin = 0;  // its dims among the launch's dims
    bool operator==(const Prologue&) const = default;
  };
  std::string name;
  std::string problem;    // text of src/problems; empty: a loop kernel
  std::string algorithm;  // the backend's name of the algorithm; may be empty
  int kernel = -1;        // of Program::kernels: the loop kernel, or the epilogue of the problem
  int extra_buffers = 0;  // of the epilogue
  std::vector<Prologue> prologues;
  bool operator==(const Code&) const = default;
};

struct Launch {
  std::string name;
  int code = -1;
  std::vector<BufferId> buffers;  // in the order of the kernel's parameters
  std::vector<bool> writes;       // parallel to buffers
  std::vector<Dim> dims;
  Dim grid;              // points (CPU) or blocks (CUDA)
  Dim scratch_bytes;     // per worker
  Dim work;              // rough cost in bytes touched + flops: decides grain and threads
  bool ordered = false;  // run [0, grid) on one worker, in order
  bool matrix = false;   // a matmul or convolution: limits on matrix cores apply
  int block = 0;         // CUDA: threads per block; 0: computed by the vendor's library
  // May run concurrently with the previous launch, and with those that one may run concurrently
  // with.
  bool with_previous = false;
  // Phase of a persistent kernel (SuperKernel), counted from 0; -1: not part of one. Launches with
  // equal phases run concurrently. A phase reads exchanged buffers as soon as they are written.
  int phase = -1;
  // A phase that must have ended in all blocks before this launch begins; -1: none.
  int after_phase = -1;
  // In a persistent kernel: not a phase of its own; every block that reads its result computes it.
  bool recomputed = false;
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

// A tensor operand of a call: a strided window of a buffer.
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
  int callee = -1;  // a number that the caller's Host resolves
  std::vector<TensorView> inputs;
  std::vector<Dim> integers;        // evaluated and passed along
  std::vector<BufferId> outputs;    // external buffers; shapes and strides as in their descriptions
  std::vector<int> written_inputs;  // indices into `inputs` the call mutates
};

// symbol := element 0 of buffer, as an integer. Ends its segment: buffers whose sizes depend on it
// are placed afterwards.
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
  int threads = 0;       // device steps: maximum number of workers; 0: as many as the caller allows
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
  std::vector<std::string> kernels;  // distinct texts of loop kernels (src/loop)
  std::vector<Code> codes;
  std::vector<Segment> segments;
  std::vector<int> main;     // segments in order; the others belong to if and while steps
  std::vector<Dim> symbols;  // every symbol: those of inputs first, then bound ones
  std::vector<Guard> guards;
  int num_streams = 1, num_events = 0;
  // Facts for reports, such as bytes copied for tied inputs or operators before fusion.
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
Dim offset_from_root(const Program& program, BufferId id);  // in bytes
// Symbols that no input defines: a bind or a call's result shape does, at run time.
bool is_bound_symbol(const Program& program, Dim symbol);
// The symbols that this step binds: a bind's symbol; bare bound symbols in the shapes of a call's
// outputs.
std::vector<Dim> bound_symbols(const Program& program, const Step& step);

std::string_view name_of(BufferDesc::Kind kind);
std::string_view name_of(OutputDesc::Kind kind);
std::string_view symbol_of(Guard::Relation relation);  // "==", "!=", "<", "<="
bool holds(Guard::Relation relation, std::int64_t lhs, std::int64_t rhs);

}  // namespace gex::program
