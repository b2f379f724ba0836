#pragma once
// What importers must know about an ATen op besides how it becomes nodes: which arguments hold
// indices or divisors, what its elements can be, when a call does nothing, what padding an input
// does to it. Told by the file that has the op's rows, for all overloads at once.

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace gex {

// Arguments are named by their positions in the schema, -1 being none.
struct AtenFacts {
  // Integer tensors whose elements are places along an axis of argument 0.
  enum class Indices : std::uint8_t {
    none,
    along_axis,  // argument 2, along the axis that argument 1 names
    rows,        // argument 1, along axis 0
    each_axis,   // entry k of the list argument 1, along axis k; negative ones count from the end
    classes,     // argument 1, along the axis of classes; the value of argument 4 is no index
  };
  // Bounds of an integer result, from those of the arguments.
  enum class Range : std::uint8_t {
    unknown,
    same,        // elements of argument 0
    zero,        //
    filled,      // argument 1
    counted,     // a start (0 if there is one argument) and an end
    sum,         // of arguments 0 and 1
    difference,  // of arguments 0 and 1
    product,     // of arguments 0 and 1
    remainder,   // below argument 1
    clamped,     // between arguments 1 and 2
    chosen,      // elements of arguments 1 and 2
    place,       // along the axis that argument 1 names, or in all of argument 0
  };
  // When a call whose result has the type, the sizes and the strides of an argument is that
  // argument.
  enum class NoOp : std::uint8_t {
    never,
    always,
    on_integers,   // argument 0 has no floats
    no_padding,    // argument 1 is all zeros
    power_of_one,  // argument 1 is 1
    one_part,      // argument 0 is a list of one
  };
  // Whether a result at a position of a padded axis comes from no later position.
  enum class Padding : std::uint8_t {
    unknown,
    keeps_positions,
    reads_sizes,       // nothing but the sizes of its arguments
    contracts,         // sums over the last axis of argument `padding_argument`
    folds,             // over the axes that argument `padding_argument` names, or all
    along_axis,        // takes parts along the axis that argument `padding_argument` names
    from_the_front,    // the same, positions from the front on staying where they are
    attends,           // to all keys unless argument `padding_argument` says causal
    normalises_last,   // over as many last axes as argument `padding_argument` has entries
    normalises_batch,  // over all axes but the channels if argument `padding_argument` holds
    convolves,         // over all axes but the batch
  };
  // Which decomposition of PyTorch's is used if no row takes a call.
  enum class Decomposition : std::uint8_t {
    core,       // PyTorch's for core ops, or the op's own
    any,        // also from its full table: as good as a kernel once it is fused
    of_floats,  // none for i64, where it rounds differently
  };

  Indices indices = Indices::none;
  int divisor = -1;  // an argument in which eager refuses zeros, if the result is an integer
  Range range = Range::unknown;
  int places_axis = -1;  // the argument that names the axis along which result 1 holds places
  NoOp no_op = NoOp::never;
  int no_op_argument = 0;  // the argument that comes back
  Padding padding = Padding::unknown;
  int padding_argument = 1;
  Decomposition decomposition = Decomposition::core;
};

// By the op's name without the overload: "aten.add". Unknown ops have the facts of AtenFacts{}.
const AtenFacts& aten_facts(std::string_view name);
// Several names: ops with the same facts. A name told twice is a bug.
void register_aten_facts(std::initializer_list<const char*> names, const AtenFacts& facts);

}  // namespace gex
