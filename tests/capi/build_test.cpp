// Building graphs through gex.h: what works, and the message of every mistake.

#include <limits>
#include <thread>

#include "harness.hpp"

namespace gex::test {
namespace {

TEST(CApiBuild, builds_prints_and_parses_back) {
  GraphPtr graph = new_graph("mlp");
  const gex_value x = input(graph, "x", GEX_F32, {{0, "s0"}, {4, nullptr}});
  const gex_value w = input(graph, "w", GEX_F32, {{4, nullptr}, {8, nullptr}});
  const gex_value y = add(graph, "softmax", {add(graph, "matmul", {x, w})}, {int_attr("axis", 1)});
  ASSERT_EQ(gex_graph_set_outputs(graph.get(), &y, 1), GEX_OK);
  EXPECT_EQ(type_of(graph, y), "f32[s0, 8]");
  const std::string text = printed(graph);
  EXPECT_NE(text.find("graph mlp(%x: f32[s0, 4], %w: f32[4, 8]) -> (f32[s0, 8])"),
            std::string::npos)
      << text;
  gex_graph* parsed = nullptr;
  ASSERT_EQ(gex_graph_parse(text.data(), text.size(), &parsed), GEX_OK) << gex_last_error();
  EXPECT_EQ(printed(GraphPtr(parsed)), text);
}

TEST(CApiBuild, a_parsed_graph_can_be_continued) {
  const std::string text = "symbols n\ngraph g(%x: f32[n]) -> (f32[n]) { return %x }";
  gex_graph* parsed = nullptr;
  ASSERT_EQ(gex_graph_parse(text.data(), text.size(), &parsed), GEX_OK) << gex_last_error();
  GraphPtr graph(parsed);
  gex_value x = GEX_NO_VALUE, same = GEX_NO_VALUE;
  ASSERT_EQ(gex_graph_get_input(graph.get(), 0, &x), GEX_OK);
  ASSERT_EQ(gex_graph_get_output(graph.get(), 0, &same), GEX_OK);
  EXPECT_EQ(x, same);
  const gex_value y = input(graph, "y", GEX_F32, {{0, "n"}});
  EXPECT_EQ(type_of(graph, add(graph, "add", {x, y})), "f32[n]");
}

TEST(CApiBuild, clones_share_nothing) {
  GraphPtr graph = new_graph();
  input(graph, "x", GEX_F32, {{0, "s0"}});
  gex_graph* copy = nullptr;
  ASSERT_EQ(gex_graph_clone(graph.get(), &copy), GEX_OK);
  GraphPtr clone(copy);
  const std::string before = printed(graph);
  EXPECT_EQ(printed(clone), before);
  input(clone, "y", GEX_F32, {{0, "s0*2"}});
  EXPECT_EQ(printed(graph), before);
}

TEST(CApiBuild, operands_of_two_dtypes_are_promoted) {
  GraphPtr graph = new_graph();
  const gex_value f = input(graph, "f", GEX_F32, {});
  const gex_value i = input(graph, "i", GEX_I64, {{1, nullptr}});
  const gex_value c = input(graph, "c", GEX_BOOL, {{1, nullptr}});
  EXPECT_EQ(type_of(graph, add(graph, "sub", {f, i})), "f32[1]");
  EXPECT_EQ(type_of(graph, add(graph, "where", {c, i, f})), "f32[1]");
  EXPECT_EQ(type_of(graph, add(graph, "lt", {i, f})), "bool[1]");
  EXPECT_EQ(gex_graph_verify(graph.get()), GEX_OK) << gex_last_error();
}

TEST(CApiBuild, attributes_of_every_kind_reach_the_node) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{0, "s0"}, {6, nullptr}});
  const std::int64_t perm[] = {1, 0};
  gex_attr ints = {"perm", GEX_ATTR_INTS, 2, {}};
  ints.value.integers = perm;
  EXPECT_EQ(type_of(graph, add(graph, "transpose", {x}, {ints})), "f32[6, s0]");
  const gex_size sizes[] = {{0, "s0*2"}, {3, nullptr}};
  gex_attr shape = {"shape", GEX_ATTR_SIZES, 2, {}};
  shape.value.sizes = sizes;
  EXPECT_EQ(type_of(graph, add(graph, "reshape", {x}, {shape})), "f32[s0*2, 3]");
  const char* const texts[] = {"s0*3", "2"};
  gex_attr shape_in_words = {"shape", GEX_ATTR_STRINGS, 2, {}};
  shape_in_words.value.strings = texts;
  EXPECT_EQ(type_of(graph, add(graph, "reshape", {x}, {shape_in_words})), "f32[s0*3, 2]");
  gex_attr dtype = {"dtype", GEX_ATTR_DTYPE, 0, {}};
  dtype.value.integer = GEX_BF16;
  EXPECT_EQ(type_of(graph, add(graph, "cast", {x}, {dtype})), "bf16[s0, 6]");
  gex_attr dtype_in_words = {"dtype", GEX_ATTR_STRING, 0, {}};
  dtype_in_words.value.string = "i8";
  EXPECT_EQ(type_of(graph, add(graph, "cast", {x}, {dtype_in_words})), "i8[s0, 6]");
  gex_attr approximate = {"approximate", GEX_ATTR_STRING, 0, {}};
  approximate.value.string = "tanh";
  add(graph, "gelu", {x}, {approximate});
  EXPECT_NE(printed(graph).find("approximate = \"tanh\""), std::string::npos);
}

TEST(CApiBuild, constants_are_copied_and_converted) {
  GraphPtr graph = new_graph();
  std::vector<std::int64_t> values = {1, -2, 300};
  const std::vector<std::int64_t> shape = {3};
  const gex_tensor elements = tensor(GEX_I64, shape, values.data());
  gex_value f16 = GEX_NO_VALUE, i8 = GEX_NO_VALUE;
  ASSERT_EQ(gex_graph_constant(graph.get(), &elements, GEX_F16, &f16), GEX_OK);
  EXPECT_EQ(type_of(graph, f16), "f16[3]");
  EXPECT_EQ(gex_graph_constant(graph.get(), &elements, GEX_I8, &i8), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("element 2 is 300, which i8 can't hold"));
}

TEST(CApiBuild, shape_errors_name_both_shapes) {
  GraphPtr graph = new_graph();
  const gex_value a = input(graph, "a", GEX_F32, {{2, nullptr}, {3, nullptr}});
  const gex_value b = input(graph, "b", GEX_F32, {{4, nullptr}});
  EXPECT_EQ(try_add(graph, "add", {a, b}), GEX_SHAPE_MISMATCH);
  EXPECT_TRUE(says("[2, 3]"));
  EXPECT_TRUE(says("[4]"));
}

TEST(CApiBuild, a_failed_call_leaves_the_graph_as_it_was) {
  GraphPtr graph = new_graph();
  const gex_value a = input(graph, "a", GEX_F32, {{2, nullptr}});
  const gex_value b = input(graph, "b", GEX_I64, {{3, nullptr}});
  const std::string before = printed(graph);
  EXPECT_EQ(try_add(graph, "add", {a, b}), GEX_SHAPE_MISMATCH);  // b was cast on the way
  gex_value two[2] = {};
  const gex_value operands[] = {a, a};
  EXPECT_EQ(gex_graph_add(graph.get(), "add", operands, 2, nullptr, 0, two, 2),
            GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("1 results, but there is room for 2"));
  const std::vector<gex_size> negative = {{0, "fresh"}, {-1, nullptr}};
  gex_value c = GEX_NO_VALUE;
  EXPECT_EQ(gex_graph_input(graph.get(), "c", GEX_F32, negative.data(), 2, &c),
            GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("can't be negative"));
  EXPECT_EQ(printed(graph), before);
  EXPECT_EQ(gex_graph_symbol(graph.get(), "fresh", 1, 8), GEX_OK) << gex_last_error();
}

TEST(CApiBuild, sizes_know_their_symbols) {
  GraphPtr graph = new_graph();
  ASSERT_EQ(gex_graph_symbol(graph.get(), "batch", 1, 64), GEX_OK);
  const gex_value x = input(graph, "x", GEX_F32, {{0, "batch"}});
  EXPECT_EQ(gex_graph_set_outputs(graph.get(), &x, 1), GEX_OK);
  EXPECT_NE(printed(graph).find("symbols batch in [1, 64]"), std::string::npos) << printed(graph);
  EXPECT_EQ(gex_graph_symbol(graph.get(), "batch", 2, 64), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("declare it before its first use"));
  const std::vector<gex_size> shape = {{0, "btach*2"}};
  gex_value y = GEX_NO_VALUE;
  EXPECT_EQ(gex_graph_input(graph.get(), "y", GEX_F32, shape.data(), 1, &y), GEX_NOT_FOUND);
  EXPECT_TRUE(says("did you mean 'batch'?"));
  EXPECT_EQ(gex_graph_symbol(graph.get(), "a b", 0, 1), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_symbol(graph.get(), "neg", -4, 1), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_symbol(graph.get(), "empty", 4, 1), GEX_INVALID_ARGUMENT);
}

TEST(CApiBuild, inputs_can_be_retyped_until_they_are_used) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {});
  const gex_size shape[] = {{2, nullptr}, {0, "s0"}};
  ASSERT_EQ(gex_graph_set_input_shape(graph.get(), x, shape, 2), GEX_OK);
  ASSERT_EQ(gex_graph_set_input_dtype(graph.get(), x, GEX_F16), GEX_OK);
  EXPECT_EQ(type_of(graph, x), "f16[2, s0]");
  const gex_value y = add(graph, "neg", {x});
  EXPECT_EQ(gex_graph_set_input_dtype(graph.get(), x, GEX_F32), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("before its first use"));
  EXPECT_EQ(gex_graph_set_input_dtype(graph.get(), y, GEX_F32), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("the result of neg"));
  EXPECT_EQ(gex_graph_set_input_dtype(graph.get(), y, GEX_F16), GEX_OK);
}

TEST(CApiBuild, inputs_can_be_reordered) {
  GraphPtr graph = new_graph();
  input(graph, "b", GEX_F32, {});
  input(graph, "a", GEX_I32, {});
  const std::size_t order[] = {1, 0}, twice[] = {0, 0}, outside[] = {0, 2};
  ASSERT_EQ(gex_graph_order_inputs(graph.get(), order, 2), GEX_OK);
  EXPECT_NE(printed(graph).find("(%a: i32[], %b: f32[])"), std::string::npos) << printed(graph);
  EXPECT_EQ(gex_graph_order_inputs(graph.get(), twice, 2), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_order_inputs(graph.get(), outside, 2), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_order_inputs(graph.get(), order, 1), GEX_INVALID_ARGUMENT);
}

TEST(CApiBuild, values_of_another_graph_are_refused) {
  GraphPtr graph = new_graph("mine"), other = new_graph("other");
  const gex_value x = input(graph, "x", GEX_F32, {});
  const gex_value foreign = input(other, "y", GEX_F32, {});
  EXPECT_EQ(try_add(graph, "add", {x, foreign}), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("input 1 of add is not a value of graph 'mine'"));
  EXPECT_EQ(try_add(graph, "add", {x, 12345}), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(try_add(graph, "add", {x, x + 1}), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(try_add(graph, "add", {x, GEX_NO_VALUE}), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("not optional"));
}

TEST(CApiBuild, null_is_reported_everywhere) {
  GraphPtr graph = new_graph();
  gex_value value = GEX_NO_VALUE;
  std::size_t count = 0;
  EXPECT_EQ(gex_graph_create("g", nullptr), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_clone(nullptr, nullptr), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_parse(nullptr, 3, nullptr), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_print(graph.get(), nullptr), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_print(nullptr, nullptr), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_verify(nullptr), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_symbol(graph.get(), nullptr, 0, 1), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_input(graph.get(), "x", GEX_F32, nullptr, 2, &value), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_input(graph.get(), "x", GEX_F32, nullptr, 0, nullptr), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_input(nullptr, "x", GEX_F32, nullptr, 0, &value), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_constant(graph.get(), nullptr, GEX_F32, &value), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_add(graph.get(), nullptr, nullptr, 0, nullptr, 0, &value, 1),
            GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_add(graph.get(), "add", nullptr, 2, nullptr, 0, &value, 1),
            GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_add(graph.get(), "iota", nullptr, 0, nullptr, 1, &value, 1),
            GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_add(graph.get(), "iota", nullptr, 0, nullptr, 0, nullptr, 1),
            GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_add_node(graph.get(), nullptr, &value, 1), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_set_outputs(graph.get(), nullptr, 1), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_input_count(nullptr, &count), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_output_count(graph.get(), nullptr), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_get_input(graph.get(), 0, &value), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("input 0 of 0"));
  EXPECT_EQ(gex_list_ops(nullptr), GEX_INVALID_ARGUMENT);
  gex_graph_destroy(nullptr);
  gex_program_destroy(nullptr);
  gex_tensor_release(nullptr);
  gex_text_free(nullptr);
}

TEST(CApiBuild, impossible_types_are_refused) {
  GraphPtr graph = new_graph();
  gex_value value = GEX_NO_VALUE;
  const std::int64_t huge = std::int64_t{1} << 40;
  const std::vector<gex_size> overflow = {{huge, nullptr}, {huge, nullptr}};
  EXPECT_EQ(gex_graph_input(graph.get(), "x", GEX_F32, overflow.data(), 2, &value),
            GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("in bytes overflows 64 bits"));
  const std::vector<gex_size> many(1000, {1, nullptr});
  EXPECT_EQ(gex_graph_input(graph.get(), "x", GEX_F32, many.data(), many.size(), &value),
            GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_input(graph.get(), "x", 99, nullptr, 0, &value), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_input(graph.get(), "x", -1, nullptr, 0, &value), GEX_INVALID_ARGUMENT);
  const std::vector<gex_size> nonsense = {{0, "s0 +"}};
  EXPECT_EQ(gex_graph_input(graph.get(), "x", GEX_F32, nonsense.data(), 1, &value), GEX_NOT_FOUND);
  const std::string nested(100000, '(');
  const std::vector<gex_size> deep = {{0, nested.c_str()}};
  EXPECT_NE(gex_graph_input(graph.get(), "x", GEX_F32, deep.data(), 1, &value), GEX_OK);
  const gex_value x = input(graph, "x", GEX_F32, {{huge, nullptr}});
  const std::vector<std::int64_t> shape = {huge, huge, 4};
  const gex_tensor elements = tensor(GEX_F32, shape, &value);
  EXPECT_EQ(gex_graph_constant(graph.get(), &elements, GEX_F32, &value), GEX_INVALID_ARGUMENT);
  (void)x;
}

TEST(CApiBuild, misspelt_names_get_a_suggestion) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{4, nullptr}});
  EXPECT_EQ(try_add(graph, "sofmax", {x}), GEX_NOT_FOUND);
  EXPECT_TRUE(says("softmax"));
  EXPECT_EQ(try_add(graph, "softmax", {x}, {int_attr("axs", 0)}), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("did you mean 'axis'?"));
  gex_attr odd = int_attr("axis", 0);
  odd.kind = 77;
  EXPECT_EQ(try_add(graph, "softmax", {x}, {odd}), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("unknown kind 77"));
}

TEST(CApiBuild, structs_of_other_versions_are_read_or_refused) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{4, nullptr}});
  gex_value y = GEX_NO_VALUE;
  gex_node node = GEX_NODE_INIT;
  node.op = "neg";
  node.inputs = &x;
  node.input_count = 1;
  node.location = "model.cpp:12";
  ASSERT_EQ(gex_graph_add_node(graph.get(), &node, &y, 1), GEX_OK) << gex_last_error();
  EXPECT_NE(printed(graph).find("model.cpp:12"), std::string::npos);
  node.struct_size = 0;
  EXPECT_EQ(gex_graph_add_node(graph.get(), &node, &y, 1), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("struct_size"));
  struct Newer {
    gex_node node;
    std::int64_t added;
  } newer = {node, 0};
  newer.node.struct_size = sizeof(newer);
  EXPECT_EQ(gex_graph_add_node(graph.get(), &newer.node, &y, 1), GEX_OK) << gex_last_error();
  newer.added = 1;
  EXPECT_EQ(gex_graph_add_node(graph.get(), &newer.node, &y, 1), GEX_UNSUPPORTED);
}

TEST(CApiBuild, ties_are_checked) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{4, nullptr}});
  const gex_value i = input(graph, "i", GEX_I32, {{4, nullptr}});
  const gex_value y = add(graph, "neg", {x});
  const gex_value outputs[] = {y, i};
  ASSERT_EQ(gex_graph_set_outputs(graph.get(), outputs, 2), GEX_OK);
  EXPECT_EQ(gex_graph_tie(graph.get(), 0, 1), GEX_TYPE_MISMATCH);
  EXPECT_EQ(gex_graph_tie(graph.get(), 2, 0), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_tie(graph.get(), 0, 0), GEX_OK) << gex_last_error();
  EXPECT_EQ(gex_graph_tie(graph.get(), 0, 0), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(gex_graph_set_outputs(graph.get(), nullptr, 0), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("is tied"));
}

TEST(CApiBuild, every_thread_has_its_own_last_error) {
  EXPECT_EQ(gex_graph_verify(nullptr), GEX_INVALID_ARGUMENT);
  const std::string mine = gex_last_error();
  std::thread([] {
    EXPECT_STREQ(gex_last_error(), "");
    EXPECT_EQ(gex_graph_parse("nonsense", 8, nullptr), GEX_INVALID_ARGUMENT);
  }).join();
  EXPECT_EQ(gex_last_error(), mine);
}

TEST(CApiBuild, reports_its_version) {
  EXPECT_EQ(gex_abi_version(), static_cast<std::uint32_t>(GEX_ABI_VERSION));
  EXPECT_STRNE(gex_version(), "");
  EXPECT_STREQ(gex_status_name(GEX_OK), "ok");
  EXPECT_STREQ(gex_status_name(GEX_SHAPE_MISMATCH), "shape_mismatch");
  EXPECT_STREQ(gex_status_name(GEX_INTERNAL), "internal");
  EXPECT_STREQ(gex_status_name(-7), "unknown status");
  char* text = nullptr;
  ASSERT_EQ(gex_list_ops(&text), GEX_OK);
  const std::string ops = taken(text);
  EXPECT_NE(ops.find("softmax(x) {axis = 0}"), std::string::npos) << ops;
}

TEST(CApiBuild, bad_texts_report_the_position) {
  const std::string text = "graph g(%x: f32[2]) -> (f32[2]) {\n  %0 = nothing(%x)\n  return %0\n}";
  gex_graph* graph = nullptr;
  EXPECT_EQ(gex_graph_parse(text.data(), text.size(), &graph), GEX_PARSE_ERROR);
  EXPECT_TRUE(says("2:"));
  EXPECT_EQ(graph, nullptr);
}

}  // namespace
}  // namespace gex::test
