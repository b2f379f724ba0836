#pragma once
// What callbacks of user passes receive: the current graph, borrowed, and the match in it.

#include <vector>

#include "frontend/capi/handles.hpp"

struct gex_match : gex::capi::Tagged<gex::capi::Tag::match> {
  std::vector<gex_value> inputs, outputs, captures;
};

namespace gex::capi {

// A handle to a graph owned by another. Values are valid only for this handle: what a callback
// keeps after its return is rejected later.
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
