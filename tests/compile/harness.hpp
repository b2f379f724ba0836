#pragma once
// Compiles a graph given as text and compares every output with the interpreter's.

#include <gtest/gtest.h>
#include <cstdint>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "compile/compile.hpp"
#include "compile/execute.hpp"
#include "interp/interp.hpp"
#include "ir/graph.hpp"

namespace gex::test {

inline HostTensor random_tensor(DType dtype, std::vector<std::int64_t> shape, std::mt19937& random,
                                double low = -2, double high = 2) {
  HostTensor tensor(dtype, std::move(shape));
  std::uniform_real_distribution<double> real(low, high);
  for (std::int64_t k = 0; k < tensor.numel(); ++k) {
    double value = real(random);
    if (is_float(dtype)) {
      tensor.set(k, value);
    } else {
      tensor.set_int(k, static_cast<std::int64_t>(value));
    }
  }
  return tensor;
}

inline double largest_error(const HostTensor& got, const HostTensor& want) {
  if (got.shape() != want.shape() || got.dtype() != want.dtype()) return 1e30;
  double worst = 0;
  for (std::int64_t k = 0; k < got.numel(); ++k) {
    double a = got.get(k), b = want.get(k);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    double error = std::abs(a - b) / (1 + std::abs(b));
    if (!(error <= worst)) worst = std::isnan(error) ? 1e30 : error;
  }
  return worst;
}

struct Result {
  Compiled compiled;
  std::vector<HostTensor> outputs;
  int launches = 0;
};

inline int count_launches(const program::Program& program) {
  int launches = 0;
  for (const program::Segment& segment : program.segments) {
    for (const program::Step& step : segment.steps)
      launches += std::holds_alternative<program::Launch>(step.op);
  }
  return launches;
}

// Runs `text` compiled and interpreted on the same inputs; tied inputs are compared as well.
inline Result check(const std::string& text, std::vector<HostTensor> inputs,
                    double tolerance = 2e-5, CompileOptions options = {}) {
  auto graph = parse_graph(text);
  std::vector<HostTensor> want = interp::interpret(*graph, inputs);
  std::vector<Tie> ties = graph->ties();
  Result result;
  result.compiled = compile(parse_graph(text), options);
  runtime::Session session(result.compiled.executable, {}, result.compiled.specialiser);
  std::vector<HostTensor> given = inputs;
  result.outputs = execute(session, given);
  result.launches = count_launches(*result.compiled.program);
  std::size_t next = 0;
  for (std::size_t k = 0; k < want.size(); ++k) {
    const Tie* tie = nullptr;
    for (const Tie& t : ties) {
      if (t.output == static_cast<int>(k)) tie = &t;
    }
    const HostTensor& got =
        tie ? given[static_cast<std::size_t>(tie->input)] : result.outputs[next++];
    EXPECT_LE(largest_error(got, want[k]), tolerance) << "output " << k << " of\n"
                                                      << text << "\n"
                                                      << result.compiled.report.kernel_text << "\n"
                                                      << program::print(*result.compiled.program);
  }
  return result;
}

}  // namespace gex::test
