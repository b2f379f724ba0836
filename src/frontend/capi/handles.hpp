#pragma once
// The objects behind the opaque handles of gex.h.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compile/compile.hpp"
#include "frontend/capi/async.hpp"
#include "frontend/capi/resources.hpp"
#include "frontend/capi/tagged.hpp"
#include "gex/gex.h"
#include "ir/graph.hpp"
#include "runtime/session/session.hpp"

// Values are passed as numbers (the graph's serial number in the high bits, a position in `values`
// in the low bits), so that a value of another graph or an invalid one is detected and never
// dereferenced.
struct gex_graph : gex::capi::Tagged<gex::capi::Tag::graph> {
  explicit gex_graph(std::unique_ptr<gex::Graph> graph);

  gex_value handle(gex::Value* value);
  void forget(const gex::Value* value);  // before it is erased: its handle is rejected from now on
  gex::Value* value(gex_value handle, const char* what) const;           // UserError
  gex::Value* optional_value(gex_value handle, const char* what) const;  // or null

  // Names the node "<kind>_<n>".
  void name_node(gex::Node& node, const std::string& kind);

  // Outputs after the user's own, tied to the assigned variables.
  void append_assigned_outputs();
  void remove_assigned_outputs();

  // For a copy of `other`'s graph.
  void continue_from(const gex_graph& other);

  // A control edge: `node` comes after `before`.
  void add_order(const gex::Node& node, gex::Node& before);
  // Nodes that must come before `node`: producers of its operands, and by control edges.
  std::vector<gex::Node*> predecessors(const gex::Node& node) const;

  std::unique_ptr<gex::Graph> graph;
  // Names of all subgraphs; nothing if they have to be collected again.
  std::optional<std::unordered_set<std::string>> subgraph_names;
  bool is_lent = false;  // borrowed by a callback, which must not destroy it
  std::unordered_map<std::string, gex::Dim> symbols;
  struct Assignment {
    gex::Value* variable;
    gex::Value* value;
  };
  std::vector<Assignment> assignments;                             // the last one of each variable
  std::unordered_map<const gex::Value*, gex::Value*> assigned_by;  // every one's variable

 private:
  std::uint32_t serial_;
  int next_node_ = 0;
  std::size_t assigned_outputs_ = 0;
  std::vector<gex::Value*> values_;
  std::unordered_map<const gex::Value*, gex_value> handles_;
  // Nodes by their first results; forget() removes them.
  std::unordered_map<const gex::Value*, std::vector<gex::Value*>> order_;
};

struct gex_program : gex::capi::Tagged<gex::capi::Tag::program> {
  gex::Compiled compiled;
  std::shared_ptr<const gex::capi::Memory> memory;
  std::unique_ptr<gex::runtime::Session> session;
  std::size_t async_limit = 0;
  int threads = 0;             // that a run may use; 0: as many as there are
  gex::capi::AsyncRuns async;  // last, so that it is destroyed before what it uses
};

struct gex_cancel : gex::capi::Tagged<gex::capi::Tag::cancel> {
  std::atomic<bool> requested{false};
};
