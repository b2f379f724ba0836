#pragma once
// Labels that say where and how a node runs. Replacements of a node inherit them
// (label_propagation.hpp). They affect at most the last bits of a value.

#include <string_view>

#include "ir/graph.hpp"

namespace gex {

inline constexpr std::string_view kStreamNumberLabel = "_stream";
inline constexpr std::string_view kStreamLabel = "_stream_label";  // a stream by name
inline constexpr std::string_view kMatrixCoresLabel = "_op_aicore_num";
inline constexpr std::string_view kVectorCoresLabel = "_op_vectorcore_num";
inline constexpr std::string_view kLevelLabel = "_deterministic_level";

struct RunLabels {
  int stream = 0;                          // may run concurrently with others; 0: the caller's
  int matrix_cores = 0, vector_cores = 0;  // maximum for matmuls, for the rest; 0: any
  bool any_batch = false;  // deterministic level 3: bits of a row don't depend on the row count
  bool same_limits(const RunLabels& other) const {
    return matrix_cores == other.matrix_cores && vector_cores == other.vector_cores;
  }
};
RunLabels run_labels_of(const Node& node);

// Numbers the streams that nodes name, in the order of first use, including subgraphs; the first is
// the caller's stream. Returns the number of names.
int number_streams(Graph& graph);

}  // namespace gex
