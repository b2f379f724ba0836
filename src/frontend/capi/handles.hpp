#pragma once
// What stands behind the opaque handles of gex.h.

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "compile/compile.hpp"
#include "gex/gex.h"
#include "ir/graph.hpp"
#include "runtime/session.hpp"

// Values go out as numbers (the graph's serial number above, a position in `values` below), so that
// a value of another graph or a made-up one is told instead of followed.
struct gex_graph {
  explicit gex_graph(std::unique_ptr<gex::Graph> graph);

  gex_value handle(gex::Value* value);
  void forget(const gex::Value* value);  // before it is erased: its handle is refused from now on
  gex::Value* value(gex_value handle, const char* what) const;           // UserError
  gex::Value* optional_value(gex_value handle, const char* what) const;  // or null

  std::unique_ptr<gex::Graph> graph;
  std::unordered_map<std::string, gex::Dim> symbols;

 private:
  std::uint32_t serial_;
  std::vector<gex::Value*> values_;
  std::unordered_map<const gex::Value*, gex_value> handles_;
};

struct gex_program {
  gex::Compiled compiled;
  std::unique_ptr<gex::runtime::Session> session;
};
