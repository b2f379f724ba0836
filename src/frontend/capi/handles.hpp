#pragma once
// What stands behind the opaque handles of gex.h.

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "compile/compile.hpp"
#include "frontend/capi/async.hpp"
#include "frontend/capi/resources.hpp"
#include "gex/gex.h"
#include "ir/graph.hpp"
#include "runtime/session/session.hpp"

// Values go out as numbers (the graph's serial number above, a position in `values` below), so that
// a value of another graph or a made-up one is told instead of followed.
struct gex_graph {
  explicit gex_graph(std::unique_ptr<gex::Graph> graph);

  gex_value handle(gex::Value* value);
  void forget(const gex::Value* value);  // before it is erased: its handle is refused from now on
  gex::Value* value(gex_value handle, const char* what) const;           // UserError
  gex::Value* optional_value(gex_value handle, const char* what) const;  // or null

  // Calls the node "<kind>_<n>".
  void name_node(gex::Node& node, const std::string& kind);

  // Outputs behind the user's own, tied to the variables that are assigned.
  void append_assigned_outputs();
  void remove_assigned_outputs();

  // For a copy of `other`'s graph.
  void continue_from(const gex_graph& other);

  std::unique_ptr<gex::Graph> graph;
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
};

struct gex_program {
  gex::Compiled compiled;
  std::shared_ptr<const gex::capi::Memory> memory;
  std::unique_ptr<gex::runtime::Session> session;
  gex::capi::AsyncRuns async;  // last: it ends before what it uses
};
