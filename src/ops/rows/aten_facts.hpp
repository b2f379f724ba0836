#pragma once
// What importers must know about an ATen op besides its conversion to nodes: which arguments are
// indices or divisors, the range of its elements, when a call is a no-op, how padding an input
// affects it. Stated in the file with the op's rows, for all overloads at once.

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace gex {

// Arguments are given by position in the schema; -1 means none.
struct AtenFacts {
  // Integer tensors whose elements are positions along an axis of argument 0.
  enum class Indices : std::uint8_t {
    none,
    along_axis,            // argument 2, along the axis given by argument 1
    along_axis_from_ends,  // the same; negative ones count from the end
    rows,                  // argument 1, along axis 0
    each_axis,     // entry k of the list argument 1, along axis k; negative ones count from the end
    each_element,  // argument 1, among all elements of argument 0; negative ones count from the end
    cells,         // argument 1, among as many elements as the sizes in argument 2 give
    classes,       // argument 1, along the axis of classes; the value of argument 4 is not an index
  };
  // What else eager PyTorch requires of the elements of arguments.
  enum class Values : std::uint8_t {
    any,
    fractions,   // arguments 0 and 1 lie between 0 and 1
    few_trues,   // the mask in argument 1 has no more true elements than argument 2 has elements
    bag_starts,  // argument 2 starts with 0 and ends within argument 1
  };
  // Range of an integer result, from the ranges of the arguments.
  enum class Range : std::uint8_t {
    unknown,
    same,        // elements of argument 0
    zero,        //
    filled,      // argument 1
    counted,     // from a start (0 if there is only one argument) to an end
    sum,         // of arguments 0 and 1
    difference,  // of arguments 0 and 1
    product,     // of arguments 0 and 1
    remainder,   // below argument 1
    clamped,     // between arguments 1 and 2
    chosen,      // elements of arguments 1 and 2
    place,       // a position along the axis given by argument 1, or in all of argument 0
  };
  // When a call whose result has the type, sizes and strides of an argument returns that argument
  // unchanged.
  enum class NoOp : std::uint8_t {
    never,
    always,
    on_integers,   // argument 0 has no floats
    no_padding,    // argument 1 is all zeros
    power_of_one,  // argument 1 is 1
    one_part,      // argument 0 is a list of one
  };
  // Whether a result at a position of a padded axis never depends on later positions.
  enum class Padding : std::uint8_t {
    unknown,
    keeps_positions,
    reads_sizes,       // only the sizes of its arguments
    contracts,         // sums over the last axis of argument `padding_argument`
    folds,             // over the axes given by argument `padding_argument`, or all
    along_axis,        // takes parts along the axis given by argument `padding_argument`
    from_the_front,    // the same, but keeps positions counted from the front
    attends,           // to all keys unless argument `padding_argument` (causal) is true
    normalises_last,   // over as many last axes as argument `padding_argument` has entries
    normalises_batch,  // over all axes but the channels if argument `padding_argument` is true
    convolves,         // over all axes but the batch
  };
  // Which of PyTorch's decompositions is used if no row accepts a call.
  enum class Decomposition : std::uint8_t {
    core,       // PyTorch's for core ops, or the op's own
    any,        // also from its full table: as fast as a kernel once it is fused
    of_floats,  // none for i64, where it rounds differently
  };

  Indices indices = Indices::none;
  Values values = Values::any;
  int divisor =
      -1;  // an argument for which eager PyTorch rejects zeros if the result is an integer
  Range range = Range::unknown;
  int places_axis = -1;  // the argument with the axis along which result 1 holds positions
  NoOp no_op = NoOp::never;
  int no_op_argument = 0;  // the argument that is returned
  Padding padding = Padding::unknown;
  int padding_argument = 1;
  Decomposition decomposition = Decomposition::core;
};

// By the op's name without the overload: "aten.add". Unknown ops have the default AtenFacts.
const AtenFacts& aten_facts(std::string_view name);
// Several names: ops with the same facts. A duplicate name is a bug.
void register_aten_facts(std::initializer_list<const char*> names, const AtenFacts& facts);

}  // namespace gex
