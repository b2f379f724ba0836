// A Program is whole: printed, parsed and compiled again it gives the same bits. For every op of
// the registry, and for graphs with attached kernels, packed constants and control flow.

#include <gtest/gtest.h>

#include <cstring>

#include "compile/compile.hpp"
#include "compile/execute.hpp"
#include "compile/program_text.hpp"
#include "sample_graphs.hpp"

namespace gex {
namespace {

using namespace test;

// The same program by way of its text.
std::shared_ptr<const program::Executable> again(const program::Program& program) {
  const std::string text = program::print(program);
  auto executable = compile_program_text(text);
  EXPECT_EQ(program::print(*executable->program), text);
  return executable;
}

void expect_same_bits(const Tensors& got, const Tensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t k = 0; k < want.size(); ++k) {
    ASSERT_EQ(got[k].shape(), want[k].shape());
    ASSERT_EQ(got[k].bytes(), want[k].bytes());
    EXPECT_EQ(std::memcmp(got[k].data(), want[k].data(), want[k].bytes()), 0) << "result " << k;
  }
}

void check(std::unique_ptr<Graph> graph, const Tensors& inputs) {
  const Compiled compiled = compile(std::move(graph));
  Tensors mine = inputs, theirs = inputs;
  runtime::Session session(compiled.executable, {});
  runtime::Session from_text(again(*compiled.program), {});
  const Tensors want = execute(session, mine), got = execute(from_text, theirs);
  expect_same_bits(got, want);
  expect_same_bits(theirs, mine);  // tied inputs
}

TEST(ProgramText, EveryOpGivesTheSameBitsFromItsText) {
  int checked = 0;
  for (const OpDef* op : computed_ops()) {
    if (sample_of(*op) == nullptr) continue;
    for (const DType dtype : {DType::f32, DType::i64}) {
      auto graph = graph_of(*op, dtype);
      if (!graph) continue;
      SCOPED_TRACE(str(op->name, " ", dtype));
      check(std::move(graph), inputs_of(*op, dtype, 3));
      ++checked;
    }
  }
  EXPECT_GT(checked, 150);
}

Tensors numbers(std::initializer_list<std::vector<std::int64_t>> shapes) {
  Tensors tensors;
  for (const auto& shape : shapes) {
    HostTensor tensor(DType::f32, shape);
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      tensor.set(i, static_cast<double>((i * 37 + 11) % 64) / 16 - 2);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

TEST(ProgramText, ContainsEpiloguesAndPrologues) {
  auto graph = parse_graph(R"(symbols s0 in [1, 512]
graph main(%x: f32[s0, 48], %w: f32[48, 40], %b: f32[40], %state: f32[s0, 40]) -> (f32[s0, 40]) {
  %s = mul(%w, %w) : f32[48, 40]
  %a = matmul(%x, %s) : f32[s0, 40]
  %c = add(%a, %b) : f32[s0, 40]
  %d = relu(%c) : f32[s0, 40]
  %e = add(%d, %state) : f32[s0, 40]
  return %e
})");
  const Compiled compiled = compile(graph->clone());
  const std::string text = program::print(*compiled.program);
  EXPECT_NE(text.find("problem \"matmul"), std::string::npos) << text;
  EXPECT_NE(text.find(" extra "), std::string::npos) << text;
  check(std::move(graph), numbers({{7, 48}, {48, 40}, {40}, {7, 40}}));
}

}  // namespace
}  // namespace gex
