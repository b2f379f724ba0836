#pragma once
// Shorthand for tests through gex.h.

#include <gex/gex.h>
#include <gtest/gtest.h>
#include <cstdint>

#include <memory>
#include <string>
#include <vector>

namespace gex::test {

struct GraphDeleter {
  void operator()(gex_graph* graph) const { gex_graph_destroy(graph); }
};
struct ProgramDeleter {
  void operator()(gex_program* program) const { gex_program_destroy(program); }
};
using GraphPtr = std::unique_ptr<gex_graph, GraphDeleter>;
using ProgramPtr = std::unique_ptr<gex_program, ProgramDeleter>;

inline GraphPtr new_graph(const char* name = "g") {
  gex_graph* graph = nullptr;
  EXPECT_EQ(gex_graph_create(name, &graph), GEX_OK);
  return GraphPtr(graph);
}

inline std::string taken(char* text) {
  std::string copy = text == nullptr ? "" : text;
  gex_text_free(text);
  return copy;
}

inline std::string printed(const GraphPtr& graph) {
  char* text = nullptr;
  EXPECT_EQ(gex_graph_print(graph.get(), &text), GEX_OK);
  return taken(text);
}

inline std::string type_of(const GraphPtr& graph, gex_value value) {
  char* text = nullptr;
  EXPECT_EQ(gex_value_type(graph.get(), value, nullptr, nullptr, nullptr, 0, &text), GEX_OK)
      << gex_last_error();
  return taken(text);
}

inline gex_value input(const GraphPtr& graph, const char* name, gex_dtype dtype,
                       const std::vector<gex_size>& shape) {
  gex_value value = GEX_NO_VALUE;
  EXPECT_EQ(gex_graph_input(graph.get(), name, dtype, shape.data(), shape.size(), &value), GEX_OK)
      << gex_last_error();
  return value;
}

inline gex_status try_add(const GraphPtr& graph, const char* op,
                          const std::vector<gex_value>& inputs,
                          const std::vector<gex_attr>& attrs = {}) {
  gex_value value = GEX_NO_VALUE;
  return gex_graph_add(graph.get(), op, inputs.data(), inputs.size(), attrs.data(), attrs.size(),
                       &value, 1);
}

inline gex_value add(const GraphPtr& graph, const char* op, const std::vector<gex_value>& inputs,
                     const std::vector<gex_attr>& attrs = {}) {
  gex_value value = GEX_NO_VALUE;
  EXPECT_EQ(gex_graph_add(graph.get(), op, inputs.data(), inputs.size(), attrs.data(), attrs.size(),
                          &value, 1),
            GEX_OK)
      << gex_last_error();
  return value;
}

inline gex_attr int_attr(const char* name, std::int64_t value) {
  gex_attr attr = {name, GEX_ATTR_INT, 0, {}};
  attr.value.integer = value;
  return attr;
}

inline gex_tensor tensor(gex_dtype dtype, const std::vector<std::int64_t>& shape, void* data) {
  gex_tensor t = GEX_TENSOR_INIT;
  t.dtype = dtype;
  t.data = data;
  t.rank = shape.size();
  t.shape = shape.data();
  return t;
}

inline ProgramPtr compiled(const GraphPtr& graph, std::vector<gex_value> outputs) {
  EXPECT_EQ(gex_graph_set_outputs(graph.get(), outputs.data(), outputs.size()), GEX_OK)
      << gex_last_error();
  gex_program* program = nullptr;
  EXPECT_EQ(gex_compile(graph.get(), nullptr, &program), GEX_OK) << gex_last_error();
  return ProgramPtr(program);
}

inline gex_counters counters_of(const ProgramPtr& program) {
  gex_counters counters = GEX_COUNTERS_INIT;
  EXPECT_EQ(gex_program_counters(program.get(), &counters), GEX_OK);
  return counters;
}

inline testing::AssertionResult says(const std::string& part) {
  const std::string message = gex_last_error();
  if (message.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << message << "' does not say '" << part << "'";
}

}  // namespace gex::test
