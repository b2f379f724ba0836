#pragma once
// A cluster is a set of nodes meant for one launch; lowering it writes the launch's kernel or says
// why it can't be one. Fusion grows clusters and asks here, so "legal" has one definition: what can
// be lowered.

#include <string>
#include <unordered_set>
#include <vector>

#include "lower/fused_graph.hpp"

namespace gex::lower {

// Nodes that compute an operand of the cluster's contraction, and nothing else.
struct ClusterPrologue {
  int operand = 0;
  Value* value = nullptr;          // the operand is a view of it
  std::vector<const Node*> nodes;  // in graph order
};

struct Cluster {
  Unit::Kind kind = Unit::Kind::loop;
  const Node* anchor = nullptr;            // contraction, scatter, step
  std::vector<const Node*> nodes;          // in graph order
  Shape space;                             // the iteration space; grid = the axes not in `inner`
  std::vector<int> inner;                  // axes folded by the cluster's reductions, sorted
  bool sealed = false;                     // takes no consumers (scans, scatters, steps)
  std::vector<ClusterPrologue> prologues;  // of a contraction; their nodes are in `nodes` too
};

// Inlined wherever it is used, never a reason to write memory: views, generated constants and the
// borders of convolutions.
bool is_free(const Node& node);
// Zeros around images that only convolutions read: the kernels pad images themselves.
bool is_conv_border(const Node& node);
// The value whose memory a contraction reads for an operand: without the border of a convolution.
Value* operand_value(const Node& contraction, int operand);
// Computed by a Choice of src/backend/cpu/kernels. Integer contractions are plain loops.
bool is_contraction(const Node& node);
// Kernels of matmul, convolution and attention hand their results to an epilogue.
bool takes_epilogue(const Node& node);
// Rough cost in cycles of computing one element of a map node, operands not counted.
int weight_of(const Node& node);

struct LoweredCluster {
  bool ok = false;
  std::string reason;  // where not ok
  std::vector<Value*> inputs;
  loop::Kernel kernel;
};

// Of a contraction the epilogue alone: see prologue.hpp for the rest.
// `escaping`: the values of the cluster that must be in memory afterwards, in output order.
// `in_memory`: values of free nodes that have memory of their own and so are read, not inlined.
LoweredCluster lower_cluster(const Cluster& cluster, const std::vector<Value*>& escaping,
                             const std::unordered_set<const Value*>& in_memory,
                             const FuseOptions& options);

}  // namespace gex::lower
