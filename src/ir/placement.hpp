#pragma once
// Where and how the user wants a node to run, said by labels, which go over to whatever takes the
// node's place (carry_labels.hpp). No value depends on them beyond its last bits.

#include <string_view>

#include "ir/graph.hpp"

namespace gex {

inline constexpr std::string_view kLaneLabel = "_lane";
inline constexpr std::string_view kStreamLabel = "_stream_label";  // a lane by name
inline constexpr std::string_view kMatrixCoresLabel = "_op_aicore_num";
inline constexpr std::string_view kVectorCoresLabel = "_op_vectorcore_num";
inline constexpr std::string_view kLevelLabel = "_deterministic_level";

struct Placement {
  int lane = 0;                            // may run beside others; 0: the caller's
  int matrix_cores = 0, vector_cores = 0;  // at most so many for products, for the rest; 0: any
  bool any_batch =
      false;  // deterministic level 3: bits of a row don't depend on how many there are
  bool same_limits(const Placement& other) const {
    return matrix_cores == other.matrix_cores && vector_cores == other.vector_cores;
  }
};
Placement placement_of(const Node& node);

// Numbers the streams that nodes name, in the order of their first use, subgraphs included: the
// first is the caller's lane. Returns how many names there are.
int number_streams(Graph& graph);

}  // namespace gex
