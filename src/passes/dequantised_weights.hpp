#pragma once
// The right operand of a matmul as (q - zero) * scale + offset.

#include <optional>

#include "ir/graph.hpp"

namespace gex::passes {

// Numbers of a parameter: one for all, for each output, or for each group of inputs of an output.
struct WeightParameter {
  Value* value = nullptr;   // [outputs or 1, groups] after by_outputs(); null: there is none
  Shape shape;              // broadcast to `weights`
  Shape weights;            // of the elementwise node that reads it
  bool inputs_last = true;  // order of the weights' elements in that node
};

struct DequantisedWeights {
  Value* numbers = nullptr;  // integers
  bool inputs_last = true;   // [outputs, inputs] if reshaped to two axes, else [inputs, outputs]
  bool halves = false;       // from 0 to 15, in whatever dtype
  WeightParameter scale, zero, offset;
};

// `weights` is [inputs, outputs].
std::optional<DequantisedWeights> dequantised_weights(Value* weights);

// How many adjacent inputs share an entry of the parameter; 0: all of them. Nothing if entries vary
// in another way.
std::optional<std::int64_t> group_of(const WeightParameter& p, Dim outputs, Dim inputs);
// The parameter as [outputs or 1, groups], for groups of this size that divides the inputs.
Value* by_outputs(Graph& g, const WeightParameter& p, Dim outputs, Dim inputs, std::int64_t group);

}  // namespace gex::passes
