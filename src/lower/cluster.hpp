#pragma once
// A cluster is a set of nodes for one launch; lowering it writes the launch's kernel or returns the
// reason why it can't. Fusion grows clusters and calls this, so legality has one definition: what
// can be lowered.

#include <string>
#include <unordered_set>
#include <vector>

#include "lower/fused_graph.hpp"

namespace gex::lower {

// Nodes that compute an operand of the cluster's problem, and nothing else.
struct ClusterPrologue {
  int operand = 0;
  Value* value = nullptr;          // the operand is a view of it
  std::vector<const Node*> nodes;  // in graph order
};

struct Cluster {
  Unit::Kind kind = Unit::Kind::loop;
  const Node* anchor = nullptr;            // problem, scatter, step
  std::vector<const Node*> nodes;          // in graph order
  Shape space;                             // the iteration space; grid = the axes not in `inner`
  std::vector<int> inner;                  // axes reduced by the cluster's reductions, sorted
  bool sealed = false;                     // takes no consumers (scans, scatters, steps)
  std::vector<ClusterPrologue> prologues;  // of a problem; their nodes are in `nodes` too
};

// Inlined wherever it is used, never stored for its own sake: views, generated constants and the
// zeros around the input of convolutions.
bool is_free(const Node& node);
// The value whose memory a problem reads for an operand: for a convolution the input without its
// padding.
Value* operand_value(const Node& problem, int operand);
// Computed as a problem of src/problems: matmuls, sorts and the like.
bool is_problem(const Node& node);
// Whether its kernels pass their results to an epilogue.
bool takes_epilogue(const Node& node);
// Rough cost in cycles of computing one element of a map node, without its operands.
int weight_of(const Node& node);
// Reads of its operands that depend on the index: those of padding and concatenation.
int conditional_reads(const Node& node);

struct LoweredCluster {
  bool ok = false;
  std::string reason;  // if not ok
  std::vector<Value*> inputs;
  loop::Kernel kernel;
};

// For a problem only the epilogue (see prologue.hpp for the rest). `escaping`: values of the
// cluster that must be in memory afterwards, in output order. `in_memory`: values of free nodes
// that have their own memory and so are read, not inlined.
LoweredCluster lower_cluster(const Cluster& cluster, const std::vector<Value*>& escaping,
                             const std::unordered_set<const Value*>& in_memory,
                             const FuseOptions& options);

}  // namespace gex::lower
