#pragma once
// One misuse of a public function, and part of its message.

#include <cstdint>
#include <functional>
#include <vector>

#include "harness.hpp"

namespace gex::test {

inline constexpr std::int64_t kBillion = 1'000'000'000;

// Something valid of each kind for the arguments that are not under test.
struct Valid {
  GraphPtr graph = new_graph("valid");
  GraphPtr other = new_graph("other");
  gex_value x, y, whole, foreign;
  ProgramPtr program;
  std::vector<std::int64_t> shape = {2, 3};
  std::vector<float> memory = std::vector<float>(6, 1);
  gex_tensor in = tensor(GEX_F32, shape, memory.data());
  gex_tensor out = GEX_TENSOR_INIT;
  char* text = nullptr;
  gex_graph* made = nullptr;
  gex_program* compiled_program = nullptr;
  gex_value value = GEX_NO_VALUE;
  std::size_t count = 0;

  Valid() {
    x = input(graph, "x", GEX_F32, {{0, "s0"}, {3, nullptr}});
    whole = input(graph, "n", GEX_I64, {{0, "s0"}});
    y = add(graph, "neg", {x});
    foreign = input(other, "x", GEX_F32, {{0, "s0"}, {3, nullptr}});
    GraphPtr runnable = new_graph("runnable");
    const gex_value a = input(runnable, "x", GEX_F32, {{0, "s0"}, {3, nullptr}});
    program = compiled(runnable, {add(runnable, "neg", {a})});
  }
  gex_graph* g() { return graph.get(); }
  gex_program* p() { return program.get(); }

  gex_status add_node(const char* op, std::vector<gex_value> inputs,
                      std::vector<gex_attr> attrs = {}) {
    return gex_graph_add(g(), op, inputs.data(), inputs.size(), attrs.data(), attrs.size(), &value,
                         1);
  }
  gex_status add_input(gex_dtype dtype, std::vector<gex_size> sizes) {
    return gex_graph_input(g(), "z", dtype, sizes.data(), sizes.size(), &value);
  }
  gex_status parse(const std::string& graph_text) {
    return gex_graph_parse(graph_text.data(), graph_text.size(), &made);
  }
  gex_status run(const gex_tensor& given) { return gex_program_run(p(), &given, 1, &out, 1); }
};

struct Misuse {
  const char* function;
  const char* what;
  std::function<gex_status(Valid&)> call;
  const char* says;  // part of the message
};

std::vector<Misuse> misuses_of_graphs();    // making, reading and changing them
std::vector<Misuse> misuses_of_programs();  // passes, ops, compiling and running

}  // namespace gex::test
