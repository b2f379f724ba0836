#pragma once
// What callbacks of users' passes get to see: the graph at hand, borrowed, and the match in it.

#include <vector>

#include "frontend/capi/handles.hpp"

struct gex_match : gex::capi::Tagged<gex::capi::Tag::match> {
  std::vector<gex_value> inputs, outputs, captures;
};

namespace gex::capi {

// A handle to a graph that belongs to somebody else. Values are known to this handle alone: what a
// callback keeps beyond its return is refused later.
class BorrowedGraph {
 public:
  explicit BorrowedGraph(Graph& graph) : handle_(std::unique_ptr<Graph>(&graph)) {
    handle_.is_lent = true;
  }
  ~BorrowedGraph() { handle_.graph.release(); }
  BorrowedGraph(const BorrowedGraph&) = delete;
  BorrowedGraph& operator=(const BorrowedGraph&) = delete;
  gex_graph& handle() { return handle_; }

 private:
  gex_graph handle_;
};

}  // namespace gex::capi
