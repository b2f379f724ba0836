#include "report/model.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "base/error.hpp"
#include "cache/store.hpp"
#include "compile/execute.hpp"
#include "compile/graph_lines.hpp"
#include "report/chrome_trace.hpp"
#include "report/page.hpp"

namespace gex::report {
namespace {

constexpr const char* kGraph = R"(symbols s0
graph main(%x: f32[s0, 64], %w: f32[64, 32], %c: bool[]) -> (f32[s0, 32], f32[s0]) {
  %y = matmul(%x, %w) : f32[s0, 32]  @ "model.py:3 in forward"
  %z = relu(%y) : f32[s0, 32]  @ "a \"quoted\" place"
  %i = if(%c, %z) regions(
    graph then(%a: f32[s0, 32]) -> (f32[s0, 32]) {
      %0 = neg(%a) : f32[s0, 32]
      return %0
    },
    graph else(%a: f32[s0, 32]) -> (f32[s0, 32]) {
      return %a
    }) : f32[s0, 32]
  %s = reduce_sum(%x) {axes = [1]} : f32[s0]
  return %i, %s
}
)";

TEST(GraphLines, reads_what_print_writes) {
  const GraphLines lines = read_lines(print(*parse_graph(kGraph)));
  EXPECT_EQ(lines.name, "main");
  ASSERT_EQ(lines.nodes.size(), 5U);
  EXPECT_EQ(lines.nodes[0].op, "matmul");
  EXPECT_EQ(lines.nodes[0].location, "model.py:3 in forward");
  EXPECT_EQ(lines.nodes[1].location, "a \"quoted\" place");
  EXPECT_EQ(lines.nodes[1].inputs, lines.nodes[0].outputs);
  EXPECT_EQ(lines.nodes[2].op, "if");
  EXPECT_EQ(lines.nodes[3].op, "neg");
  EXPECT_EQ(lines.nodes[3].parent, 2);
  EXPECT_EQ(lines.nodes[4].attributes, "{axes = [1]}");
  EXPECT_EQ(lines.inputs.size(), 3U);
  EXPECT_EQ(lines.values[static_cast<std::size_t>(lines.outputs[1])].type, "f32[s0]");
}

TEST(GraphLines, refuses_other_texts) {
  EXPECT_THROW(read_lines("graph main(%x: f32[2]"), UserError);
  EXPECT_THROW(read_lines(""), UserError);
}

// The graph compiled and run once under a trace.
struct Traced {
  Compiled compiled;
  std::optional<TraceKeeper::Kept> kept;

  explicit Traced(const char* text, std::vector<HostTensor> inputs)
      : compiled(compile(parse_graph(text))) {
    runtime::Session session(compiled.executable, {}, compiled.specialiser);
    const auto keeper = std::make_shared<TraceKeeper>();
    runtime::set_trace_sink(keeper);
    execute(session, inputs);
    runtime::set_trace_sink(nullptr);
    execute(session, inputs);
    kept = keeper->of(compiled.program.get());
  }

  Sizes sizes() const {
    return [this](Dim symbol) -> std::optional<std::int64_t> {
      for (const auto& [known, value] : kept->fastest.sizes)
        if (known == symbol) return value;
      return std::nullopt;
    };
  }
};

TEST(Trace, sees_each_launch_of_a_traced_call_and_nothing_else) {
  std::vector<HostTensor> inputs;
  inputs.emplace_back(DType::f32, std::vector<std::int64_t>{5, 64});
  inputs.emplace_back(DType::f32, std::vector<std::int64_t>{64, 32});
  inputs.emplace_back(DType::boolean, std::vector<std::int64_t>{});
  const Traced traced(kGraph, std::move(inputs));
  ASSERT_TRUE(traced.kept.has_value());
  EXPECT_EQ(traced.kept->times.size(), 1U);
  EXPECT_EQ(traced.sizes()(traced.compiled.program->symbols[0]), 5);
  const auto events = traced.kept->fastest.events();
  ASSERT_FALSE(events.empty());
  for (const runtime::TraceEvent& event : events) {
    EXPECT_LE(traced.kept->fastest.begin, event.begin);
    EXPECT_LE(event.begin, event.end);
    EXPECT_LE(event.end, traced.kept->fastest.end);
  }
  EXPECT_FALSE(runtime::tracing());
}

TEST(Costs, count_a_product_and_an_elementwise_kernel) {
  std::vector<HostTensor> inputs;
  inputs.emplace_back(DType::f32, std::vector<std::int64_t>{16, 64});
  inputs.emplace_back(DType::f32, std::vector<std::int64_t>{64, 32});
  const Traced traced(
      R"(graph main(%x: f32[16, 64], %w: f32[64, 32]) -> (f32[16, 32], f32[16, 64]) {
  %y = matmul(%x, %w) : f32[16, 32]
  %z = relu(%y) : f32[16, 32]
  %n = neg(%x) : f32[16, 64]
  return %z, %n
}
)",
      std::move(inputs));
  const program::Program& program = *traced.compiled.program;
  const Costs costs(program);
  int products = 0, loops = 0;
  for (const program::Step& step : program.segments[0].steps) {
    const auto* launch = std::get_if<program::Launch>(&step.op);
    if (launch == nullptr) continue;
    const auto cost = costs.of(step, traced.sizes());
    ASSERT_TRUE(cost.has_value());
    if (program.codes[static_cast<std::size_t>(launch->code)].problem.empty()) {
      ++loops;
      EXPECT_EQ(cost->read, 16 * 64 * 4);
      EXPECT_EQ(cost->written, 16 * 64 * 4);
    } else {
      ++products;
      EXPECT_GE(cost->flops, 2.0 * 16 * 64 * 32);
      EXPECT_LE(cost->flops, 2.1 * 16 * 64 * 32);
      EXPECT_EQ(cost->read, (16 * 64 + 64 * 32) * 4);
      EXPECT_EQ(cost->written, 16 * 32 * 4);
    }
  }
  EXPECT_EQ(products, 1);
  EXPECT_EQ(loops, 1);
}

TEST(Origins, link_nodes_units_and_steps) {
  const Compiled compiled = compile(parse_graph(kGraph));
  const Origins& origins = compiled.report.origins;
  const GraphLines lines = read_lines(compiled.report.graph_text);
  ASSERT_FALSE(origins.units.empty());
  for (const Origins::Unit& unit : origins.units)
    for (int node : unit.nodes) {
      ASSERT_GE(node, 0);
      ASSERT_LT(static_cast<std::size_t>(node), lines.nodes.size());
      EXPECT_NE(unit.label.find(lines.nodes[static_cast<std::size_t>(node)].op), std::string::npos)
          << unit.label;
    }
  ASSERT_EQ(origins.unit_of_step.size(), compiled.program->segments.size());
  EXPECT_FALSE(origins.passes.empty());
}

TEST(Origins, are_kept_in_the_cache) {
  std::string folder = testing::TempDir() + "gex_origins_cache_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  CompileOptions options;
  options.cache = Store::at(folder);
  options.cache->clear();
  const Compiled first = compile(parse_graph(kGraph), options);
  const Compiled second = compile(parse_graph(kGraph), options);
  const auto& counts = second.report.counts;
  ASSERT_TRUE(std::ranges::any_of(
      counts, [](const auto& count) { return count.first == "programs_from_cache"; }));
  const Origins &before = first.report.origins, &after = second.report.origins;
  ASSERT_EQ(after.units.size(), before.units.size());
  for (std::size_t k = 0; k < before.units.size(); ++k) {
    EXPECT_EQ(after.units[k].label, before.units[k].label);
    EXPECT_EQ(after.units[k].nodes, before.units[k].nodes);
  }
  EXPECT_EQ(after.unit_of_step, before.unit_of_step);
  EXPECT_EQ(after.separate.size(), before.separate.size());
  EXPECT_EQ(after.passes.size(), before.passes.size());
  options.cache->clear();
}

TEST(Page, holds_the_model_and_nothing_from_outside) {
  const std::string page = html_page({R"({"format":"gex-report"})"});
  EXPECT_NE(page.find(R"([{"format":"gex-report"}])"), std::string::npos);
  for (const char* outside : {"src=\"http", "href=\"http", "@import", "url(http", "fetch("})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

}  // namespace
}  // namespace gex::report
