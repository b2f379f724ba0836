// Compiling and running through gex.h: memory of results, and what is rejected.

#include <array>
#include <numeric>
#include <random>
#include <thread>

#include "harness.hpp"

namespace gex::test {
namespace {

// y = 2*x + 1 over f32[s0, 3].
struct Doubler {
  GraphPtr graph = new_graph("doubler");
  ProgramPtr program;
  Doubler() {
    const gex_value x = input(graph, "x", GEX_F32, {{0, "s0"}, {3, nullptr}});
    program = compiled(graph, {add(graph, "add", {add(graph, "mul", {x, number(2)}), number(1)})});
  }
  gex_value number(float value) {
    gex_tensor elements = GEX_TENSOR_INIT;
    elements.data = &value;
    gex_value constant = GEX_NO_VALUE;
    EXPECT_EQ(gex_graph_constant(graph.get(), &elements, GEX_F32, &constant), GEX_OK);
    return constant;
  }
};

std::vector<float> iota(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST(CApiRun, results_in_library_memory) {
  Doubler doubler;
  for (std::int64_t rows : {1, 4, 2, 4}) {
    const std::vector<std::int64_t> shape = {rows, 3};
    std::vector<float> x = iota(static_cast<std::size_t>(rows) * 3);
    const gex_tensor in = tensor(GEX_F32, shape, x.data());
    gex_tensor out = GEX_TENSOR_INIT;
    ASSERT_EQ(gex_program_run(doubler.program.get(), &in, 1, &out, 1), GEX_OK) << gex_last_error();
    ASSERT_EQ(out.rank, 2u);
    EXPECT_EQ(out.shape[0], rows);
    EXPECT_EQ(out.strides[0], 3);
    const auto* y = static_cast<const float*>(out.data);
    for (std::size_t k = 0; k < x.size(); ++k) EXPECT_EQ(y[k], 2 * x[k] + 1);
    gex_tensor_release(&out);
    EXPECT_EQ(out.data, nullptr);
    gex_tensor_release(&out);
  }
  const gex_counters counters = counters_of(doubler.program);
  EXPECT_EQ(counters.calls, 4);
  EXPECT_EQ(counters.captures, 3);
  EXPECT_EQ(counters.launches, 4);  // one fused kernel a call
}

TEST(CApiRun, results_in_the_callers_memory) {
  Doubler doubler;
  const std::vector<std::int64_t> shape = {2, 3};
  std::vector<float> x = iota(6), y(6, -1);
  const gex_tensor in = tensor(GEX_F32, shape, x.data());
  gex_tensor out = tensor(GEX_F32, shape, y.data());
  ASSERT_EQ(gex_program_run(doubler.program.get(), &in, 1, &out, 1), GEX_OK) << gex_last_error();
  EXPECT_EQ(out.data, y.data());
  EXPECT_EQ(out.owner, nullptr);
  EXPECT_EQ(y, (std::vector<float>{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(counters_of(doubler.program).bytes_copied, 0);
}

TEST(CApiRun, the_callers_memory_may_have_any_strides) {
  Doubler doubler;
  const std::vector<std::int64_t> shape = {2, 3}, columns_first = {1, 2};
  std::vector<float> x = iota(6), y(6, -1);
  const gex_tensor in = tensor(GEX_F32, shape, x.data());
  gex_tensor out = tensor(GEX_F32, shape, y.data());
  out.strides = columns_first.data();
  ASSERT_EQ(gex_program_run(doubler.program.get(), &in, 1, &out, 1), GEX_OK) << gex_last_error();
  EXPECT_EQ(y, (std::vector<float>{1, 7, 3, 9, 5, 11}));
}

TEST(CApiRun, an_output_may_overlap_an_input) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{4, nullptr}});
  gex_attr axes = {"axes", GEX_ATTR_INTS, 1, {}};
  const std::int64_t zero = 0;
  axes.value.integers = &zero;
  const gex_value flipped = add(graph, "flip", {x}, {axes});
  ProgramPtr program = compiled(graph, {add(graph, "neg", {flipped}), x});
  const std::vector<std::int64_t> shape = {4};
  std::vector<float> memory = {1, 2, 3, 4};
  const gex_tensor in = tensor(GEX_F32, shape, memory.data());
  std::array<gex_tensor, 2> out = {tensor(GEX_F32, shape, memory.data()), GEX_TENSOR_INIT};
  ASSERT_EQ(gex_program_run(program.get(), &in, 1, out.data(), 2), GEX_OK) << gex_last_error();
  EXPECT_EQ(memory, (std::vector<float>{-4, -3, -2, -1}));
  // The other output is the input as it was.
  EXPECT_EQ(static_cast<float*>(out[1].data)[0], 1);
  gex_tensor_release(&out[1]);
}

TEST(CApiRun, memory_of_the_wrong_size_is_rejected_before_it_is_written) {
  Doubler doubler;
  const std::vector<std::int64_t> shape = {2, 3}, wrong = {3, 2};
  std::vector<float> x = iota(6), y(6, -1);
  const gex_tensor in = tensor(GEX_F32, shape, x.data());
  gex_tensor out = tensor(GEX_F32, wrong, y.data());
  EXPECT_EQ(gex_program_run(doubler.program.get(), &in, 1, &out, 1), GEX_SHAPE_MISMATCH);
  EXPECT_TRUE(says("output 0 is f32[2, 3], but the memory for it is f32[3, 2]"));
  out = tensor(GEX_I32, shape, y.data());
  EXPECT_EQ(gex_program_run(doubler.program.get(), &in, 1, &out, 1), GEX_TYPE_MISMATCH);
  EXPECT_EQ(y, std::vector<float>(6, -1));
  out = tensor(GEX_F32, shape, y.data());
  EXPECT_EQ(gex_program_run(doubler.program.get(), &in, 1, &out, 1), GEX_OK) << gex_last_error();
}

TEST(CApiRun, wrong_inputs_are_named) {
  Doubler doubler;
  const std::vector<std::int64_t> right = {2, 3}, wrong = {2, 4}, flat = {6}, negative = {-2, 3};
  std::vector<float> x(8, 0);
  gex_tensor out = GEX_TENSOR_INIT;
  const auto run = [&](gex_tensor in) {
    return gex_program_run(doubler.program.get(), &in, 1, &out, 1);
  };
  EXPECT_EQ(run(tensor(GEX_F32, wrong, x.data())), GEX_SHAPE_MISMATCH);
  EXPECT_TRUE(says("input 0 \"x\": expected f32[s0, 3], got f32[2, 4]"));
  EXPECT_EQ(run(tensor(GEX_F32, flat, x.data())), GEX_SHAPE_MISMATCH);
  EXPECT_EQ(run(tensor(GEX_F64, right, x.data())), GEX_TYPE_MISMATCH);
  EXPECT_EQ(run(tensor(GEX_F32, negative, x.data())), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(run(tensor(GEX_F32, right, nullptr)), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("data is NULL"));
  EXPECT_EQ(run(tensor(55, right, x.data())), GEX_INVALID_ARGUMENT);
  gex_tensor old = tensor(GEX_F32, right, x.data());
  old.struct_size = 8;
  EXPECT_EQ(run(old), GEX_INVALID_ARGUMENT);
  const gex_tensor in = tensor(GEX_F32, right, x.data());
  EXPECT_EQ(gex_program_run(doubler.program.get(), nullptr, 1, &out, 1), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_program_run(doubler.program.get(), &in, 1, nullptr, 1), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_program_run(doubler.program.get(), &in, 1, &out, 0), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_program_run(doubler.program.get(), &in, 0, &out, 1), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_program_run(nullptr, &in, 1, &out, 1), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(out.data, nullptr);
}

TEST(CApiRun, sizes_known_only_at_run_time_are_checked_at_run_time) {
  GraphPtr graph = new_graph();
  const gex_value a = input(graph, "a", GEX_F32, {{2, nullptr}, {0, "m"}});
  const gex_value b = input(graph, "b", GEX_F32, {{0, "n"}, {3, nullptr}});
  ProgramPtr program = compiled(graph, {add(graph, "matmul", {a, b})});
  const auto run = [&](std::int64_t m, std::int64_t n) {
    const std::vector<std::int64_t> a_shape = {2, m}, b_shape = {n, 3};
    std::vector<float> a_data(static_cast<std::size_t>(2 * m), 1);
    std::vector<float> b_data(static_cast<std::size_t>(3 * n), 1);
    const gex_tensor in[] = {tensor(GEX_F32, a_shape, a_data.data()),
                             tensor(GEX_F32, b_shape, b_data.data())};
    gex_tensor out = GEX_TENSOR_INIT;
    const gex_status status = gex_program_run(program.get(), in, 2, &out, 1);
    if (status == GEX_OK) {
      EXPECT_EQ(static_cast<float*>(out.data)[5], static_cast<float>(m));
    }
    gex_tensor_release(&out);
    return status;
  };
  EXPECT_EQ(run(4, 4), GEX_OK) << gex_last_error();
  EXPECT_EQ(run(4, 5), GEX_SHAPE_MISMATCH);
  EXPECT_TRUE(says("matmul(f32[2, m], f32[n, 3])"));
  EXPECT_TRUE(says("got 4 and 5"));
  EXPECT_EQ(run(5, 4), GEX_SHAPE_MISMATCH);
  EXPECT_EQ(run(7, 7), GEX_OK) << gex_last_error();
}

TEST(CApiRun, slices_out_of_range_are_rejected_at_run_time) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{0, "n"}});
  const std::int64_t two = 2, one = 1;
  const gex_size three = {3, nullptr};
  gex_attr starts = {"starts", GEX_ATTR_INTS, 1, {}}, steps = {"steps", GEX_ATTR_INTS, 1, {}};
  gex_attr sizes = {"sizes", GEX_ATTR_SIZES, 1, {}};
  starts.value.integers = &two;
  steps.value.integers = &one;
  sizes.value.sizes = &three;
  ProgramPtr program =
      compiled(graph, {add(graph, "neg", {add(graph, "slice", {x}, {starts, steps, sizes})})});
  for (std::int64_t n = 0; n < 8; ++n) {
    const std::vector<std::int64_t> shape = {n};
    std::vector<float> data = iota(static_cast<std::size_t>(n));
    const gex_tensor in = tensor(GEX_F32, shape, data.data());
    gex_tensor out = GEX_TENSOR_INIT;
    const gex_status status = gex_program_run(program.get(), &in, 1, &out, 1);
    EXPECT_EQ(status, n >= 5 ? GEX_OK : GEX_SHAPE_MISMATCH) << n << gex_last_error();
    if (status == GEX_OK) {
      EXPECT_EQ(static_cast<float*>(out.data)[2], -4);
    }
    gex_tensor_release(&out);
  }
}

TEST(CApiRun, empty_tensors_need_no_memory) {
  Doubler doubler;
  const std::vector<std::int64_t> shape = {0, 3};
  const gex_tensor in = tensor(GEX_F32, shape, nullptr);
  gex_tensor out = GEX_TENSOR_INIT;
  ASSERT_EQ(gex_program_run(doubler.program.get(), &in, 1, &out, 1), GEX_OK) << gex_last_error();
  EXPECT_EQ(out.shape[0], 0);
  gex_tensor_release(&out);
}

TEST(CApiRun, tied_inputs_are_written) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{3, nullptr}});
  const gex_value y = add(graph, "neg", {x});
  ASSERT_EQ(gex_graph_set_outputs(graph.get(), &y, 1), GEX_OK);
  ASSERT_EQ(gex_graph_tie(graph.get(), 0, 0), GEX_OK);
  gex_program* compiled_program = nullptr;
  ASSERT_EQ(gex_compile(graph.get(), nullptr, &compiled_program), GEX_OK) << gex_last_error();
  ProgramPtr program(compiled_program);
  std::size_t outputs = 9;
  ASSERT_EQ(gex_program_output_count(program.get(), &outputs), GEX_OK);
  EXPECT_EQ(outputs, 0u);
  const std::vector<std::int64_t> shape = {3};
  std::vector<float> memory = {1, 2, 3};
  const gex_tensor in = tensor(GEX_F32, shape, memory.data());
  ASSERT_EQ(gex_program_run(program.get(), &in, 1, nullptr, 0), GEX_OK) << gex_last_error();
  EXPECT_EQ(memory, (std::vector<float>{-1, -2, -3}));
}

TEST(CApiRun, every_level_prints) {
  Doubler doubler;
  std::vector<std::string> texts;
  for (std::int32_t level : {GEX_LEVEL_GRAPH, GEX_LEVEL_KERNELS, GEX_LEVEL_PROGRAM}) {
    char* text = nullptr;
    ASSERT_EQ(gex_program_print(doubler.program.get(), level, &text), GEX_OK);
    texts.push_back(taken(text));
  }
  EXPECT_NE(texts[0].find("graph doubler("), std::string::npos) << texts[0];
  EXPECT_NE(texts[1].find("kernel"), std::string::npos) << texts[1];
  EXPECT_NE(texts[2].find("launch"), std::string::npos) << texts[2];
  char* text = nullptr;
  EXPECT_EQ(gex_program_print(doubler.program.get(), 4, &text), GEX_INVALID_ARGUMENT);
  ASSERT_EQ(gex_program_report(doubler.program.get(), &text), GEX_OK);
  EXPECT_NE(taken(text).find("generator: "), std::string::npos);
}

TEST(CApiRun, compile_options_are_checked) {
  Doubler doubler;
  gex_program* program = nullptr;
  gex_compile_options options = GEX_COMPILE_OPTIONS_INIT;
  options.level = 7;
  EXPECT_EQ(gex_compile(doubler.graph.get(), &options, &program), GEX_INVALID_ARGUMENT);
  options = GEX_COMPILE_OPTIONS_INIT;
  const char* const unknown[] = {"foldd"};
  options.disabled_passes = unknown;
  options.disabled_pass_count = 1;
  EXPECT_EQ(gex_compile(doubler.graph.get(), &options, &program), GEX_NOT_FOUND);
  EXPECT_TRUE(says("did you mean 'fold'?"));
  options.disabled_passes = nullptr;
  EXPECT_EQ(gex_compile(doubler.graph.get(), &options, &program), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_compile(doubler.graph.get(), nullptr, nullptr), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_compile(nullptr, nullptr, &program), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(program, nullptr);
  options = GEX_COMPILE_OPTIONS_INIT;
  options.fuse = 0;
  options.generate_code = 0;
  ASSERT_EQ(gex_compile(doubler.graph.get(), &options, &program), GEX_OK) << gex_last_error();
  gex_program_destroy(program);
}

TEST(CApiRun, threads_may_run_one_program_at_once) {
  Doubler doubler;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int call = 0; call < 50; ++call) {
        const std::vector<std::int64_t> shape = {1 + (t + call) % 5, 3};
        std::vector<float> x = iota(static_cast<std::size_t>(shape[0]) * 3), y(x.size());
        const gex_tensor in = tensor(GEX_F32, shape, x.data());
        gex_tensor out = tensor(GEX_F32, shape, y.data());
        ASSERT_EQ(gex_program_run(doubler.program.get(), &in, 1, &out, 1), GEX_OK)
            << gex_last_error();
        for (std::size_t k = 0; k < x.size(); ++k) ASSERT_EQ(y[k], 2 * x[k] + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters_of(doubler.program).calls, 200);
}

// No sequence of calls through the interface crashes the process.
// Makes random calls that extend a graph, most of them invalid.
class RandomCalls {
 public:
  explicit RandomCalls(std::vector<std::string> ops) : ops_(std::move(ops)) {}

  // An input, or a node over some of the values.
  gex_status add(gex_graph* graph, const std::vector<gex_value>& values, gex_value& result) {
    std::vector<gex_value> operands;
    for (std::size_t k = below(4); k > 0; --k) operands.push_back(values[below(values.size())]);
    std::vector<std::int64_t> ints;
    for (std::size_t k = below(4); k > 0; --k) ints.push_back(kNumbers[below(10)]);
    std::vector<gex_size> shape;
    for (std::size_t k = below(4); k > 0; --k) shape.push_back(kSizes[below(5)]);
    std::vector<gex_attr> attrs;
    for (std::size_t k = below(3); k > 0; --k) attrs.push_back(attr(ints, shape));
    if (below(3) == 0)
      return gex_graph_input(graph, nullptr, static_cast<gex_dtype>(below(11)), shape.data(),
                             shape.size(), &result);
    return gex_graph_add(graph, ops_[below(ops_.size())].c_str(), operands.data(), operands.size(),
                         attrs.data(), attrs.size(), &result, 1);
  }

 private:
  static constexpr std::int64_t kNumbers[] = {0,
                                              1,
                                              2,
                                              3,
                                              -1,
                                              -7,
                                              64,
                                              std::int64_t{1} << 40,
                                              std::numeric_limits<std::int64_t>::max(),
                                              std::numeric_limits<std::int64_t>::min()};
  static constexpr const char* kNames[] = {"axis",  "axes", "shape", "perm",   "keepdim",
                                           "dtype", "size", "value", "starts", "sizes",
                                           "steps", "low",  "high",  "groups"};
  static constexpr gex_size kSizes[] = {
      {2, nullptr}, {3, nullptr}, {0, "s0"}, {0, "s0*2 + 1"}, {1, nullptr}};

  gex_attr attr(const std::vector<std::int64_t>& ints, const std::vector<gex_size>& shape) {
    gex_attr made = {kNames[below(14)], GEX_ATTR_INT, 0, {}};
    made.value.integer = kNumbers[below(10)];
    if (below(2) == 0) {
      made.kind = GEX_ATTR_INTS;
      made.count = ints.size();
      made.value.integers = ints.data();
    } else if (below(2) == 0) {
      made.kind = GEX_ATTR_SIZES;
      made.count = shape.size();
      made.value.sizes = shape.data();
    }
    return made;
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  const std::vector<std::string> ops_;
  std::mt19937 random_{7};
};

TEST(CApiRun, random_calls_end_in_a_status) {
  char* listed = nullptr;
  ASSERT_EQ(gex_list_ops(&listed), GEX_OK);
  std::vector<std::string> ops;
  for (std::string text = taken(listed); !text.empty(); text.erase(0, text.find('\n') + 1))
    ops.push_back(text.substr(0, text.find('(')));
  RandomCalls calls(std::move(ops));
  int succeeded = 0, runs = 0;
  for (int round = 0; round < 30; ++round) {
    GraphPtr graph = new_graph();
    std::vector<gex_value> values = {GEX_NO_VALUE};
    for (int step = 0; step < 60; ++step) {
      gex_value result = GEX_NO_VALUE;
      const gex_status status = calls.add(graph.get(), values, result);
      ASSERT_NE(status, GEX_INTERNAL) << gex_last_error();
      if (status != GEX_OK) continue;
      ++succeeded;
      values.push_back(result);
    }
    values.erase(values.begin());
    ASSERT_EQ(gex_graph_verify(graph.get()), GEX_OK) << gex_last_error() << printed(graph);
    if (values.empty()) continue;
    const gex_value output = values.back();
    if (gex_graph_set_outputs(graph.get(), &output, 1) != GEX_OK) continue;
    gex_program* program = nullptr;
    gex_compile_options options = GEX_COMPILE_OPTIONS_INIT;
    options.generate_code = 0;
    const gex_status status = gex_compile(graph.get(), &options, &program);
    ASSERT_NE(status, GEX_INTERNAL) << gex_last_error() << printed(graph);
    runs += status == GEX_OK;
    gex_program_destroy(program);
  }
  EXPECT_GT(succeeded, 300);
  EXPECT_GT(runs, 10);
}

}  // namespace
}  // namespace gex::test
