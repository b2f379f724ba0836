#pragma once
// Matches for users: the current graph, borrowed by a callback, and what was matched in it.

#include <cstddef>
#include <optional>
#include <vector>

#include "frontend/capi/handles.hpp"
#include "ir/matcher.hpp"

struct gex_match : gex::capi::Tagged<gex::capi::Tag::match> {
  std::vector<gex_value> inputs, outputs, captures;
};

namespace gex::capi {

// The position of a captured value: input number `output`, or result `output` of the pattern's
// node.
struct Capture {
  std::optional<std::size_t> node;
  std::size_t output;
};
std::vector<Capture> captures_of(const gex_pattern& pattern);

gex_match match_of(gex_graph& graph, const Match& found, const std::vector<Capture>& captures);
gex_match match_of(gex_graph& graph, Node& node);

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
