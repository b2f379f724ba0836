// Nodes that call user kernels: only in libgex.

#include "frontend/capi/boundary.hpp"
#include "frontend/capi/convert.hpp"
#include "frontend/capi/handles.hpp"
#include "gex/kernel.h"
#include "ops/call.hpp"
#include "runtime/session/host_functions.hpp"
#include "runtime/session/user_kernels.hpp"

using namespace gex;
using namespace gex::capi;

extern "C" gex_status gex_graph_call_kernel(gex_graph* graph, const char* kernel,
                                            const char* parameters, const gex_value* inputs,
                                            size_t input_count, const gex_result* results,
                                            size_t result_count, gex_value* outputs) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    const std::string name = &required(kernel, "kernel");
    require_list(inputs, input_count, "inputs");
    require_list(results, result_count, "results");
    require_list(outputs, result_count, "outputs");
    std::vector<Value*> operands;
    for (std::size_t k = 0; k < input_count; ++k)
      operands.push_back(g.value(inputs[k], str("input ", k, " of kernel ", name).c_str()));
    std::vector<Type> types;
    for (std::size_t k = 0; k < result_count; ++k)
      types.push_back(to_type(results[k].dtype, results[k].shape, results[k].rank, g.symbols));
    const std::string call = runtime::call_of_kernel(name, parameters == nullptr ? "" : parameters);
    const Node* node = g.graph->add(op("call"), std::move(operands),
                                    ops::make_call(runtime::kHostCallee, call, types));
    for (std::size_t k = 0; k < result_count; ++k) outputs[k] = g.handle(node->output(k));
  });
}
