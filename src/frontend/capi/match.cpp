// Matches of patterns, and replacing what a match or a boundary encloses, through gex.h.

#include "frontend/capi/match.hpp"

#include <algorithm>
#include <unordered_set>

#include "frontend/capi/boundary.hpp"
#include "frontend/capi/convert.hpp"
#include "passes/engine/pattern_pass.hpp"

using namespace gex;
using namespace gex::capi;

struct gex_matcher : gex::capi::Tagged<gex::capi::Tag::matcher> {
  gex_matcher(gex_graph& searched, Pattern compiled, std::vector<Capture> wanted)
      : graph(searched), pattern(std::move(compiled)), captures(std::move(wanted)) {}

  gex_graph& graph;
  Pattern pattern;
  std::vector<Capture> captures;
  std::unordered_set<gex_value> tried;  // first results of nodes
};

namespace gex::capi {
namespace {

gex_value optional_handle(gex_graph& graph, Value* value) {
  return value == nullptr ? GEX_NO_VALUE : graph.handle(value);
}

}  // namespace

std::vector<Capture> captures_of(const gex_pattern& pattern) {
  require_list(pattern.captures, pattern.capture_count, "captures");
  std::vector<Capture> captures;
  for (std::size_t k = 0; k < pattern.capture_count; ++k) {
    const Value* value = pattern.graph->value(pattern.captures[k], str("capture ", k).c_str());
    Capture capture{std::nullopt, static_cast<std::size_t>(value->index())};
    std::size_t number = 0;
    for (const Node& node : pattern.graph->graph->nodes()) {
      if (&node == value->producer()) capture.node = number;
      ++number;
    }
    captures.push_back(capture);
  }
  return captures;
}

gex_match match_of(gex_graph& graph, const Match& found, const std::vector<Capture>& captures) {
  gex_match match;
  for (Value* value : found.inputs) match.inputs.push_back(graph.handle(value));
  for (Value* value : found.outputs) match.outputs.push_back(graph.handle(value));
  for (const Capture& capture : captures)
    match.captures.push_back(graph.handle(capture.node
                                              ? found.nodes[*capture.node]->output(capture.output)
                                              : found.inputs[capture.output]));
  return match;
}

gex_match match_of(gex_graph& graph, Node& node) {
  gex_match match;
  for (Value* value : node.inputs()) match.inputs.push_back(optional_handle(graph, value));
  for (std::size_t k = 0; k < node.num_outputs(); ++k)
    match.outputs.push_back(graph.handle(node.output(k)));
  return match;
}

}  // namespace gex::capi

namespace {

gex_value at(const std::vector<gex_value>& values, std::size_t index, const char* what) {
  if (index >= values.size())
    fail(ErrorCode::invalid_argument, what, " ", index, " of ", values.size(), " does not exist");
  return values[index];
}

std::vector<Value*> values_of(const gex_graph& graph, const gex_value* values, std::size_t count,
                              const char* what) {
  require_list(values, count, what);
  std::vector<Value*> found;
  for (std::size_t k = 0; k < count; ++k)
    found.push_back(graph.value(values[k], str(what, " ", k).c_str()));
  return found;
}

void erase_unused(gex_graph& graph, const std::vector<Node*>& nodes) {
  for (std::size_t k = nodes.size(); k-- > 0;) {
    Node* node = nodes[k];
    bool used = false;
    for (std::size_t i = 0; i < node->num_outputs(); ++i)
      used = used || !node->output(i)->uses().empty();
    if (used) continue;
    if (graph.graph->insertion_point() == node) graph.graph->insert_before(node->next());
    for (std::size_t i = 0; i < node->num_outputs(); ++i) graph.forget(node->output(i));
    graph.graph->erase(node);
  }
}

}  // namespace

extern "C" {

gex_status gex_match_counts(const gex_match* match, size_t* inputs, size_t* outputs,
                            size_t* captures) {
  return guarded([&] {
    const gex_match& m = required(match, "match");
    if (inputs != nullptr) *inputs = m.inputs.size();
    if (outputs != nullptr) *outputs = m.outputs.size();
    if (captures != nullptr) *captures = m.captures.size();
  });
}

gex_status gex_match_input(const gex_match* match, size_t index, gex_value* value) {
  return guarded(
      [&] { required(value, "value") = at(required(match, "match").inputs, index, "input"); });
}

gex_status gex_match_output(const gex_match* match, size_t index, gex_value* value) {
  return guarded(
      [&] { required(value, "value") = at(required(match, "match").outputs, index, "output"); });
}

gex_status gex_match_captured(const gex_match* match, size_t index, gex_value* value) {
  return guarded([&] {
    required(value, "value") = at(required(match, "match").captures, index, "captured value");
  });
}

void gex_match_destroy(gex_match* match) { destroy(match, "gex_match_destroy", "match"); }

gex_status gex_matcher_create(gex_graph* graph, const gex_pattern* pattern, int32_t any_constants,
                              int32_t any_attributes, gex_matcher** matcher) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    const gex_pattern& given = required(pattern, "pattern");
    required(matcher, "matcher");
    Pattern compiled =
        passes::compile_pattern(required(given.graph, "the pattern's graph").graph->clone(),
                                any_constants != 0, any_attributes != 0);
    *matcher = new gex_matcher(g, std::move(compiled), captures_of(given));
  });
}

void gex_matcher_destroy(gex_matcher* matcher) {
  destroy(matcher, "gex_matcher_destroy", "matcher");
}

gex_status gex_matcher_next(gex_matcher* matcher, gex_match** match) {
  return guarded([&] {
    gex_matcher& m = required(matcher, "matcher");
    required(match, "match") = nullptr;
    for (Node& node : required(&m.graph, "the matcher's graph").graph->nodes()) {
      if (&node.op() != &m.pattern.root_op()) continue;
      if (!m.tried.insert(m.graph.handle(node.output())).second) continue;
      if (const std::optional<Match> found = m.pattern.match_at(&node)) {
        *match = new gex_match(match_of(m.graph, *found, m.captures));
        return;
      }
    }
  });
}

gex_status gex_graph_rewrite(gex_graph* graph, const gex_value* inputs, size_t input_count,
                             const gex_value* outputs, size_t output_count,
                             const gex_graph* replacement) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    const Graph& by = *required(replacement, "replacement").graph;
    if (&by == g.graph.get())
      fail(ErrorCode::invalid_argument, "graph '", by.name(), "' can't replace a part of itself");
    const Match region = region_between(values_of(g, inputs, input_count, "input"),
                                        values_of(g, outputs, output_count, "output"));
    const auto inline_replacement = [&](Graph& into, const Match& match) {
      return into.inline_graph(by, match.inputs);
    };
    if (by.inputs().size() != input_count || by.outputs().size() != output_count)
      fail(ErrorCode::invalid_argument, "the replacement has ", by.inputs().size(), " inputs and ",
           by.outputs().size(), " outputs, the boundary ", input_count, " and ", output_count);
    g.subgraph_names.reset();
    if (!replace_match(*g.graph, region, inline_replacement))
      fail(ErrorCode::invalid_argument,
           "the graph promises a memory layout for an output that the replacement does not have");
    erase_unused(g, region.nodes);
  });
}

}  // extern "C"
