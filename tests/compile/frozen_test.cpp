// Inputs with fixed contents: folded at compile time, packed, and never copied unnecessarily.

#include <cstring>

#include "harness.hpp"

namespace gex::test {
namespace {

std::shared_ptr<const void> memory_of(const HostTensor& tensor) {
  auto owner = std::make_shared<HostTensor>(tensor);
  return {owner, owner->data()};
}

struct FrozenRun {
  Compiled compiled;
  std::vector<HostTensor> outputs;
};

// Input k of the graph is frozen if frozen[k]; the others are passed.
FrozenRun run_frozen(const std::string& text, const std::vector<HostTensor>& inputs,
                     const std::vector<bool>& frozen, bool contents = true) {
  CompileOptions options;
  std::vector<HostTensor> passed;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (frozen[k])
      options.frozen.push_back({static_cast<int>(k), memory_of(inputs[k]), contents});
    else
      passed.push_back(inputs[k]);
  }
  FrozenRun result;
  result.compiled = compile(parse_graph(text), options);
  runtime::SessionOptions session_options;
  session_options.frozen = result.compiled.frozen;
  runtime::Session session(result.compiled.executable, session_options,
                           result.compiled.specialiser);
  result.outputs = execute(session, passed);
  return result;
}

std::int64_t count_of(const Compiled& compiled, const std::string& name) {
  std::int64_t total = 0;
  for (const auto& [key, value] : compiled.report.counts) total += key == name ? value : 0;
  return total;
}

const char* const kLinear =
    R"(graph main(%x: f32[40, 24], %w: f32[70, 24], %b: f32[70]) -> (f32[40, 70]) {
  %t = transpose(%w) {perm = [1, 0]} : f32[24, 70]
  %p = matmul(%x, %t) : f32[40, 70]
  %y = add(%p, %b) : f32[40, 70]
  return %y
}
)";

TEST(Frozen, packed_operand_gives_the_bits_of_the_unpacked_one) {
  std::mt19937 random(7);
  const std::vector<HostTensor> inputs = {random_tensor(DType::f32, {40, 24}, random),
                                          random_tensor(DType::f32, {70, 24}, random),
                                          random_tensor(DType::f32, {70}, random)};
  const FrozenRun packed = run_frozen(kLinear, inputs, {false, true, true});
  const FrozenRun plain = run_frozen(kLinear, inputs, {false, false, false});
  const FrozenRun in_place = run_frozen(kLinear, inputs, {false, true, true}, /*contents=*/false);
  EXPECT_EQ(packed.outputs, plain.outputs);
  EXPECT_EQ(in_place.outputs, plain.outputs);
  EXPECT_GT(count_of(packed.compiled, "packed_bytes"), 0);
  EXPECT_EQ(count_of(in_place.compiled, "packed_bytes"), 0);
  EXPECT_EQ(packed.compiled.program->inputs.size(), 1U);
}

TEST(Frozen, arithmetic_on_frozen_contents_is_folded) {
  const std::string text = R"(graph main(%x: f32[8, 4], %w: f32[4], %s: f32[1]) -> (f32[8, 4]) {
  %a = mul(%w, %s) : f32[4]
  %e = exp(%a) : f32[4]
  %y = mul(%x, %e) : f32[8, 4]
  return %y
}
)";
  std::mt19937 random(3);
  const std::vector<HostTensor> inputs = {random_tensor(DType::f32, {8, 4}, random),
                                          random_tensor(DType::f32, {4}, random),
                                          random_tensor(DType::f32, {1}, random)};
  const FrozenRun folded = run_frozen(text, inputs, {false, true, true});
  EXPECT_EQ(count_of(folded.compiled, "folded_with_frozen"), 2);
  EXPECT_EQ(folded.outputs, run_frozen(text, inputs, {false, false, false}).outputs);
  const FrozenRun kept = run_frozen(text, inputs, {false, true, true}, /*contents=*/false);
  EXPECT_EQ(count_of(kept.compiled, "folded_with_frozen"), 0);
  EXPECT_EQ(kept.outputs, folded.outputs);
}

// The axes that the reshape merges are not adjacent in memory, so that no strides describe it.
TEST(Frozen, view_that_a_matmul_would_copy_at_each_call_is_computed_once) {
  const std::string text =
      R"(graph main(%x: f32[40, 24], %w: f32[4, 24, 10]) -> (f32[40, 40]) {
  %t = transpose(%w) {perm = [1, 0, 2]} : f32[24, 4, 10]
  %m = reshape(%t) {shape = [24, 40]} : f32[24, 40]
  %y = matmul(%x, %m) : f32[40, 40]
  return %y
}
)";
  std::mt19937 random(5);
  const std::vector<HostTensor> inputs = {random_tensor(DType::f32, {40, 24}, random),
                                          random_tensor(DType::f32, {4, 24, 10}, random)};
  const auto launches = [](const FrozenRun& run) {
    return run.compiled.program->segments.at(0).steps.size();
  };
  const FrozenRun once = run_frozen(text, inputs, {false, true});
  const FrozenRun each = run_frozen(text, inputs, {false, false});
  EXPECT_EQ(launches(once), 1U);
  EXPECT_EQ(launches(each), 2U);
  EXPECT_EQ(once.outputs, each.outputs);
  EXPECT_GT(count_of(once.compiled, "packed_bytes"), 0);
}

TEST(Frozen, frozen_input_may_be_an_output) {
  const std::string text = R"(graph main(%x: f32[2], %w: f32[2]) -> (f32[2], f32[2]) {
  %y = add(%x, %w) : f32[2]
  return %y, %w
}
)";
  const std::vector<HostTensor> inputs = {HostTensor::of({2}, std::vector<float>{1, 2}),
                                          HostTensor::of({2}, std::vector<float>{10, 20})};
  const FrozenRun result = run_frozen(text, inputs, {false, true});
  EXPECT_EQ(result.outputs.at(0), HostTensor::of({2}, std::vector<float>{11, 22}));
  EXPECT_EQ(result.outputs.at(1), inputs[1]);
}

TEST(Frozen, an_input_of_varying_size_is_refused) {
  CompileOptions options;
  options.frozen.push_back({0, memory_of(HostTensor::of({1}, std::vector<float>{1})), true});
  const std::string text = R"(symbols s0
graph main(%x: f32[s0]) -> (f32[s0]) {
  %y = exp(%x) : f32[s0]
  return %y
}
)";
  try {
    compile(parse_graph(text), options);
    ADD_FAILURE() << "compiled";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("\"x\""), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace gex::test
