// Bad input of every public function, as a table: each row is one misuse and the words that answer
// it. Nothing crashes, nothing leaks (SAN=address), nothing blames gex, and no result is written.

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <regex>
#include <set>
#include <sstream>

#include "harness.hpp"

namespace gex::test {
namespace {

constexpr std::int64_t kBillion = 1'000'000'000;

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

std::vector<Misuse> misuses() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return {
      {"gex_graph_create", "no place", [](Valid&) { return gex_graph_create("g", nullptr); },
       "NULL"},
      {"gex_graph_clone", "no graph", [](Valid& v) { return gex_graph_clone(nullptr, &v.made); },
       "NULL"},
      {"gex_graph_parse", "no text", [](Valid& v) { return gex_graph_parse(nullptr, 9, &v.made); },
       "NULL"},
      {"gex_graph_parse", "empty", [](Valid& v) { return v.parse(""); }, "1:1"},
      {"gex_graph_parse", "garbage", [](Valid& v) { return v.parse("\x01\xff\x80 nonsense"); },
       "1:1"},
      {"gex_graph_parse", "zero bytes", [](Valid& v) { return v.parse(std::string(100, '\0')); },
       "1:1"},
      {"gex_graph_parse", "truncated",
       [](Valid& v) { return v.parse("graph g(%x: f32[2]) -> (f32[2]) {\n  %0 = neg(%x"); }, "2:"},
      {"gex_graph_parse", "cycle",
       [](Valid& v) {
         return v.parse(
             "graph g(%x: f32[2]) -> (f32[2]) {\n  %a = add(%x, %b) : f32[2]\n"
             "  %b = neg(%a) : f32[2]\n  return %b\n}");
       },
       "%b"},
      {"gex_graph_parse", "itself",
       [](Valid& v) {
         return v.parse("graph g() -> (f32[2]) {\n  %a = neg(%a) : f32[2]\n  return %a\n}");
       },
       "%a"},
      {"gex_graph_parse", "wrong result type",
       [](Valid& v) {
         return v.parse(
             "graph g(%x: f32[2]) -> (i64[2]) {\n  %a = neg(%x) : i64[2]\n"
             "  return %a\n}");
       },
       "f32[2]"},
      {"gex_graph_parse", "negative size",
       [](Valid& v) { return v.parse("graph g(%x: f32[-2]) -> () {\n  return\n}"); }, "negative"},
      {"gex_graph_parse", "deep nesting",
       [](Valid& v) {
         return v.parse("graph g(%x: f32[" + std::string(200000, '(') + "1]) -> () { return }");
       },
       "1:"},
      {"gex_graph_print", "no graph", [](Valid& v) { return gex_graph_print(nullptr, &v.text); },
       "NULL"},
      {"gex_graph_verify", "no graph", [](Valid&) { return gex_graph_verify(nullptr); }, "NULL"},
      {"gex_graph_symbol", "no name",
       [](Valid& v) { return gex_graph_symbol(v.g(), nullptr, 0, 1); }, "NULL"},
      {"gex_graph_symbol", "no identifier",
       [](Valid& v) { return gex_graph_symbol(v.g(), "s 1", 0, 1); }, "s 1"},
      {"gex_graph_symbol", "empty range",
       [](Valid& v) { return gex_graph_symbol(v.g(), "s1", 5, 1); }, "5"},
      {"gex_graph_symbol", "known already",
       [](Valid& v) { return gex_graph_symbol(v.g(), "s0", 0, 7); }, "s0"},
      {"gex_graph_input", "no shape",
       [](Valid& v) { return gex_graph_input(v.g(), "z", GEX_F32, nullptr, 2, &v.value); }, "NULL"},
      {"gex_graph_input", "no dtype", [](Valid& v) { return v.add_input(57, {{2, nullptr}}); },
       "57"},
      {"gex_graph_input", "negative",
       [](Valid& v) { return v.add_input(GEX_F32, {{-2, nullptr}}); }, "negative"},
      {"gex_graph_input", "size in letters",
       [](Valid& v) { return v.add_input(GEX_F32, {{0, "nan*2"}}); }, "nan"},
      {"gex_graph_input", "half a size",
       [](Valid& v) { return v.add_input(GEX_F32, {{0, "2 +"}}); }, "2 +"},
      {"gex_graph_input", "too many axes",
       [](Valid& v) { return v.add_input(GEX_F32, std::vector<gex_size>(500, {1, nullptr})); },
       "500"},
      {"gex_graph_input", "more than 64 bits",
       [](Valid& v) {
         return v.add_input(GEX_F32,
                            {{kBillion, nullptr}, {kBillion, nullptr}, {kBillion, nullptr}});
       },
       "64 bits"},
      {"gex_graph_set_input_dtype", "no dtype",
       [](Valid& v) { return gex_graph_set_input_dtype(v.g(), v.whole, -3); }, "-3"},
      {"gex_graph_set_input_dtype", "used",
       [](Valid& v) { return gex_graph_set_input_dtype(v.g(), v.x, GEX_F64); }, "use"},
      {"gex_graph_set_input_shape", "no input",
       [](Valid& v) { return gex_graph_set_input_shape(v.g(), v.y, nullptr, 0); }, "input"},
      {"gex_graph_order_inputs", "no permutation",
       [](Valid& v) {
         const std::size_t order[] = {0, 0};
         return gex_graph_order_inputs(v.g(), order, 2);
       },
       "twice"},
      {"gex_graph_order_inputs", "too few",
       [](Valid& v) {
         const std::size_t order[] = {0};
         return gex_graph_order_inputs(v.g(), order, 1);
       },
       "1"},
      {"gex_graph_constant", "no elements",
       [](Valid& v) { return gex_graph_constant(v.g(), nullptr, GEX_F32, &v.value); }, "NULL"},
      {"gex_graph_constant", "no memory",
       [](Valid& v) {
         v.in.data = nullptr;
         return gex_graph_constant(v.g(), &v.in, GEX_F32, &v.value);
       },
       "NULL"},
      {"gex_graph_constant", "NaN as a whole number",
       [nan](Valid& v) {
         double element = nan;
         const gex_tensor elements = tensor(GEX_F64, {}, &element);
         return gex_graph_constant(v.g(), &elements, GEX_I32, &v.value);
       },
       "i32"},
      {"gex_graph_add", "no such op", [](Valid& v) { return v.add_node("ad", {v.x, v.x}); },
       "did you mean 'add'?"},
      {"gex_graph_add", "too few operands", [](Valid& v) { return v.add_node("add", {v.x}); },
       "add"},
      {"gex_graph_add", "absent operand",
       [](Valid& v) { return v.add_node("neg", {GEX_NO_VALUE}); }, "neg"},
      {"gex_graph_add", "a value of another graph",
       [](Valid& v) { return v.add_node("add", {v.x, v.foreign}); }, "graph"},
      {"gex_graph_add", "a number that is no value",
       [](Valid& v) { return v.add_node("neg", {0xdeadbeefdeadbeef}); }, "graph"},
      {"gex_graph_add", "wrong dtype", [](Valid& v) { return v.add_node("bit_not", {v.x}); },
       "f32"},
      {"gex_graph_add", "wrong rank", [](Valid& v) { return v.add_node("matmul", {v.x, v.whole}); },
       "matmul"},
      {"gex_graph_add", "axis outside",
       [](Valid& v) { return v.add_node("softmax", {v.x}, {int_attr("axis", 5)}); }, "5"},
      {"gex_graph_add", "attribute of another kind",
       [nan](Valid& v) {
         gex_attr attr = {"axis", GEX_ATTR_FLOAT, 0, {}};
         attr.value.real = nan;
         return v.add_node("softmax", {v.x}, {attr});
       },
       "axis"},
      {"gex_graph_add", "an attribute without a name",
       [](Valid& v) { return v.add_node("softmax", {v.x}, {int_attr(nullptr, 0)}); }, "NULL"},
      {"gex_graph_add", "results that it does not have",
       [](Valid& v) {
         gex_value results[3];
         return gex_graph_add(v.g(), "neg", &v.x, 1, nullptr, 0, results, 3);
       },
       "3"},
      {"gex_graph_add_node", "no node",
       [](Valid& v) { return gex_graph_add_node(v.g(), nullptr, &v.value, 1); }, "NULL"},
      {"gex_graph_add_node", "subgraphs where none belong",
       [](Valid& v) {
         const gex_graph* subgraphs[] = {v.other.get()};
         gex_node node = GEX_NODE_INIT;
         node.op = "neg";
         node.inputs = &v.x;
         node.input_count = 1;
         node.subgraphs = subgraphs;
         node.subgraph_count = 1;
         return gex_graph_add_node(v.g(), &node, &v.value, 1);
       },
       "subgraph"},
      {"gex_graph_add_node", "itself as its subgraph",
       [](Valid& v) {
         const gex_graph* subgraphs[] = {v.g(), v.g()};
         gex_node node = GEX_NODE_INIT;
         node.op = "if";
         node.inputs = &v.x;
         node.input_count = 1;
         node.subgraphs = subgraphs;
         node.subgraph_count = 2;
         return gex_graph_add_node(v.g(), &node, &v.value, 1);
       },
       "if"},
      {"gex_graph_set_outputs", "a value of another graph",
       [](Valid& v) { return gex_graph_set_outputs(v.g(), &v.foreign, 1); }, "graph"},
      {"gex_graph_tie", "no such output", [](Valid& v) { return gex_graph_tie(v.g(), 3, 0); }, "3"},
      {"gex_graph_input_count", "no graph",
       [](Valid& v) { return gex_graph_input_count(nullptr, &v.count); }, "NULL"},
      {"gex_graph_output_count", "no place",
       [](Valid& v) { return gex_graph_output_count(v.g(), nullptr); }, "NULL"},
      {"gex_graph_get_input", "outside",
       [](Valid& v) { return gex_graph_get_input(v.g(), 99, &v.value); }, "99"},
      {"gex_graph_get_output", "outside",
       [](Valid& v) { return gex_graph_get_output(v.g(), std::size_t(-1), &v.value); }, "output"},
      {"gex_value_type", "of another graph",
       [](Valid& v) {
         return gex_value_type(v.g(), v.foreign, nullptr, nullptr, nullptr, 0, &v.text);
       },
       "graph"},
      {"gex_graph_nodes", "no count",
       [](Valid& v) { return gex_graph_nodes(v.g(), nullptr, 0, nullptr); }, "NULL"},
      {"gex_graph_nodes", "room without a list",
       [](Valid& v) { return gex_graph_nodes(v.g(), nullptr, 4, &v.count); }, "NULL"},
      {"gex_value_op", "of another graph",
       [](Valid& v) { return gex_value_op(v.g(), v.foreign, &v.text); }, "graph"},
      {"gex_value_operands", "no value",
       [](Valid& v) { return gex_value_operands(v.g(), GEX_NO_VALUE, nullptr, 0, &v.count); },
       "value"},
      {"gex_value_uses", "of another graph",
       [](Valid& v) { return gex_value_uses(v.g(), v.foreign, &v.count); }, "graph"},
      {"gex_value_attr", "that it does not have",
       [](Valid& v) { return gex_value_attr(v.g(), v.y, "axis", &v.text); }, "axis"},
      {"gex_value_attr_integers", "no name",
       [](Valid& v) { return gex_value_attr_integers(v.g(), v.y, nullptr, nullptr, 0, &v.count); },
       "NULL"},
      {"gex_value_constant", "that is none",
       [](Valid& v) { return gex_value_constant(v.g(), v.y, &v.out); }, "constant"},
      {"gex_graph_insert_before", "of another graph",
       [](Valid& v) { return gex_graph_insert_before(v.g(), v.foreign); }, "graph"},
      {"gex_graph_replace", "another type",
       [](Valid& v) { return gex_graph_replace(v.g(), v.x, v.whole); }, "i64"},
      {"gex_graph_replace", "by what is computed from it",
       [](Valid& v) { return gex_graph_replace(v.g(), v.x, v.y); }, "before"},
      {"gex_graph_erase", "an input", [](Valid& v) { return gex_graph_erase(v.g(), v.x); },
       "input"},
      {"gex_graph_inline", "too few inputs",
       [](Valid& v) { return gex_graph_inline(v.g(), v.other.get(), nullptr, 0, nullptr, 0); },
       "1"},
      {"gex_graph_inline", "itself",
       [](Valid& v) {
         const gex_value given[] = {v.whole, v.x};
         return gex_graph_inline(v.g(), v.g(), given, 2, nullptr, 0);
       },
       "graph"},
      {"gex_graph_inline", "inputs that its second node refuses",
       [](Valid& v) {
         gex_graph* callee = nullptr;
         const std::string text =
             "graph c(%a: i64[3, 4]) -> () {\n  %b = neg(%a) : i64[3, 4]\n"
             "  %t = transpose(%b) {perm = [1, 0]} : i64[4, 3]\n  return\n}";
         EXPECT_EQ(gex_graph_parse(text.data(), text.size(), &callee), GEX_OK);
         const gex_status status = gex_graph_inline(v.g(), callee, &v.whole, 1, nullptr, 0);
         gex_graph_destroy(callee);
         return status;
       },
       "transpose"},
      {"gex_match_counts", "no match",
       [](Valid& v) { return gex_match_counts(nullptr, &v.count, nullptr, nullptr); }, "NULL"},
      {"gex_match_input", "no match",
       [](Valid& v) { return gex_match_input(nullptr, 0, &v.value); }, "NULL"},
      {"gex_match_output", "no match",
       [](Valid& v) { return gex_match_output(nullptr, 0, &v.value); }, "NULL"},
      {"gex_match_captured", "no match",
       [](Valid& v) { return gex_match_captured(nullptr, 0, &v.value); }, "NULL"},
      {"gex_pass_register", "no pass", [](Valid&) { return gex_pass_register(nullptr); }, "NULL"},
      {"gex_pass_register", "no name",
       [](Valid&) {
         const gex_pass pass = GEX_PASS_INIT;
         return gex_pass_register(&pass);
       },
       "name"},
      {"gex_pass_register", "no patterns",
       [](Valid&) {
         gex_pass pass = GEX_PASS_INIT;
         pass.name = "bad_input.empty";
         return gex_pass_register(&pass);
       },
       "bad_input.empty"},
      {"gex_pass_register", "a stage that is none",
       [](Valid&) {
         gex_pass pass = GEX_PASS_INIT;
         pass.kind = GEX_PASS_GRAPH;
         pass.name = "bad_input.stage";
         pass.stage = "sometime";
         pass.run = [](void*, gex_graph*, int32_t*) -> gex_status { return GEX_OK; };
         return gex_pass_register(&pass);
       },
       "sometime"},
      {"gex_pass_unregister", "that is not there",
       [](Valid&) { return gex_pass_unregister("bad_input.absent"); }, "bad_input.absent"},
      {"gex_fail", "for a reason", [](Valid&) { return gex_fail(GEX_UNSUPPORTED, "a reason"); },
       "a reason"},
      {"gex_list_passes", "no place", [](Valid&) { return gex_list_passes(nullptr); }, "NULL"},
      {"gex_load_plugins", "that are not there",
       [](Valid&) { return gex_load_plugins("absent_plugin.so"); }, "absent_plugin.so"},
      {"gex_list_ops", "no place", [](Valid&) { return gex_list_ops(nullptr); }, "NULL"},
      {"gex_compile", "no graph",
       [](Valid& v) { return gex_compile(nullptr, nullptr, &v.compiled_program); }, "NULL"},
      {"gex_compile", "a level that is none",
       [](Valid& v) {
         gex_compile_options options = GEX_COMPILE_OPTIONS_INIT;
         options.level = -1;
         return gex_compile(v.g(), &options, &v.compiled_program);
       },
       "-1"},
      {"gex_compile", "no shapes kept",
       [](Valid& v) {
         gex_compile_options options = GEX_COMPILE_OPTIONS_INIT;
         options.capture_limit = -5;
         return gex_compile(v.g(), &options, &v.compiled_program);
       },
       "-5"},
      {"gex_program_input_count", "no program",
       [](Valid& v) { return gex_program_input_count(nullptr, &v.count); }, "NULL"},
      {"gex_program_output_count", "no place",
       [](Valid& v) { return gex_program_output_count(v.p(), nullptr); }, "NULL"},
      {"gex_program_run", "too few inputs",
       [](Valid& v) { return gex_program_run(v.p(), nullptr, 0, &v.out, 1); }, "1"},
      {"gex_program_run", "too many outputs",
       [](Valid& v) {
         std::vector<gex_tensor> outs(3, v.out);
         return gex_program_run(v.p(), &v.in, 1, outs.data(), 3);
       },
       "3"},
      {"gex_program_run", "no memory",
       [](Valid& v) {
         v.in.data = nullptr;
         return v.run(v.in);
       },
       "NULL"},
      {"gex_program_run", "wrong dtype",
       [](Valid& v) {
         v.in.dtype = GEX_I64;
         return v.run(v.in);
       },
       "i64"},
      {"gex_program_run", "wrong rank",
       [](Valid& v) {
         v.in.rank = 1;
         return v.run(v.in);
       },
       "f32[2]"},
      {"gex_program_run", "negative size",
       [](Valid& v) {
         v.shape = {-2, 3};
         return v.run(tensor(GEX_F32, v.shape, v.memory.data()));
       },
       "negative"},
      {"gex_program_run", "more than 64 bits",
       [](Valid& v) {
         v.shape = {std::numeric_limits<std::int64_t>::max(), 3};
         return v.run(tensor(GEX_F32, v.shape, v.memory.data()));
       },
       "64 bits"},
      {"gex_program_run", "a struct that was not set up",
       [](Valid& v) {
         v.in.struct_size = 0;
         return v.run(v.in);
       },
       "GEX_TENSOR_INIT"},
      {"gex_program_print", "a level that is none",
       [](Valid& v) { return gex_program_print(v.p(), 17, &v.text); }, "17"},
      {"gex_program_run_async", "no callback",
       [](Valid& v) { return gex_program_run_async(v.p(), &v.in, 1, &v.out, 1, nullptr, nullptr); },
       "callback is NULL"},
      {"gex_graph_print_abbreviated", "no graph",
       [](Valid& v) { return gex_graph_print_abbreviated(nullptr, &v.text); }, "NULL"},
      {"gex_graph_print_onnx", "no graph",
       [](Valid& v) { return gex_graph_print_onnx(nullptr, &v.text); }, "NULL"},
      {"gex_graph_input_like", "a value of another graph",
       [](Valid& v) { return gex_graph_input_like(v.g(), "z", v.g(), v.foreign, &v.value); },
       "another graph"},
      {"gex_graph_constant_from_file", "no such file",
       [](Valid& v) {
         return gex_graph_constant_from_file(v.g(), "absent.bin", GEX_F32, v.shape.data(), 2,
                                             &v.value);
       },
       "absent.bin"},
      {"gex_graph_constant_from_file", "a negative size",
       [](Valid& v) {
         v.shape = {-2, 3};
         return gex_graph_constant_from_file(v.g(), "absent.bin", GEX_F32, v.shape.data(), 2,
                                             &v.value);
       },
       "negative"},
      {"gex_graph_add_node_counted", "no room",
       [](Valid& v) {
         gex_node node = GEX_NODE_INIT;
         node.op = "neg";
         node.inputs = &v.x;
         node.input_count = 1;
         return gex_graph_add_node_counted(v.g(), &node, nullptr, 0, &v.count);
       },
       "room for 0"},
      {"gex_graph_set_label", "no name",
       [](Valid& v) {
         const gex_attr label = int_attr("two words", 3);
         return gex_graph_set_label(v.g(), &label);
       },
       "two words"},
      {"gex_graph_label", "absent",
       [](Valid& v) { return gex_graph_label(v.g(), "kept", &v.text); }, "kept"},
      {"gex_value_set_label", "an input",
       [](Valid& v) {
         const gex_attr label = int_attr("kept", 3);
         return gex_value_set_label(v.g(), v.x, &label);
       },
       "made by no node"},
      {"gex_value_set_label", "a fraction",
       [](Valid& v) {
         gex_attr label = {"kept", GEX_ATTR_FLOAT, 0, {}};
         label.value.real = 0.5;
         return gex_value_set_label(v.g(), v.y, &label);
       },
       "0.5"},
      {"gex_value_label", "absent",
       [](Valid& v) { return gex_value_label(v.g(), v.y, "kept", &v.text); }, "kept"},
      {"gex_value_name", "made up", [](Valid& v) { return gex_value_name(v.g(), 77, &v.text); },
       "value"},
      {"gex_graph_assign", "to a result",
       [](Valid& v) { return gex_graph_assign(v.g(), v.y, v.x, &v.value); }, "only inputs"},
      {"gex_graph_assign", "of another shape",
       [](Valid& v) { return gex_graph_assign(v.g(), v.x, v.whole, &v.value); }, "i64[s0]"},
      {"gex_graph_order", "after itself",
       [](Valid& v) { return gex_graph_order(v.g(), v.y, &v.y, 1); }, "cycle"},
      {"gex_graph_order", "an input", [](Valid& v) { return gex_graph_order(v.g(), v.x, &v.y, 1); },
       "made by no node"},
      {"gex_register_op", "no name",
       [](Valid&) {
         const gex_op op = GEX_OP_INIT;
         return gex_register_op(&op);
       },
       "NULL"},
      {"gex_register_op", "a name that is taken",
       [](Valid&) {
         gex_op op = GEX_OP_INIT;
         op.name = "neg";
         op.expand = [](void*, gex_graph*, const gex_value*, std::size_t, gex_value*, std::size_t,
                        std::size_t*) -> gex_status { return GEX_OK; };
         return gex_register_op(&op);
       },
       "neg"},
      {"gex_register_op", "attributes that nobody is given",
       [](Valid&) {
         gex_attr attr = {"slope", GEX_ATTR_FLOAT, 0, {}};
         gex_op op = GEX_OP_INIT;
         op.name = "bad_input.attributes";
         op.expand = [](void*, gex_graph*, const gex_value*, std::size_t, gex_value*, std::size_t,
                        std::size_t*) -> gex_status { return GEX_OK; };
         op.attrs = &attr;
         op.attr_count = 1;
         return gex_register_op(&op);
       },
       "expand_with"},
      {"gex_program_report", "no place",
       [](Valid& v) { return gex_program_report(v.p(), nullptr); }, "NULL"},
      {"gex_program_counters", "a struct that was not set up",
       [](Valid& v) {
         gex_counters counters = {};
         return gex_program_counters(v.p(), &counters);
       },
       "struct_size"},
  };
}

TEST(CApiBadInput, every_misuse_is_answered_in_words) {
  for (const Misuse& misuse : misuses()) {
    SCOPED_TRACE(std::string(misuse.function) + ": " + misuse.what);
    Valid valid;
    const std::string before = printed(valid.graph);
    const gex_status status = misuse.call(valid);
    EXPECT_NE(status, GEX_OK);
    EXPECT_NE(status, GEX_INTERNAL) << gex_last_error();
    EXPECT_TRUE(says(misuse.says));
    EXPECT_EQ(printed(valid.graph), before) << "a failed call changes nothing";
    EXPECT_EQ(valid.made, nullptr);
    EXPECT_EQ(valid.text, nullptr);
    EXPECT_EQ(valid.compiled_program, nullptr);
    EXPECT_EQ(valid.out.data, nullptr);
  }
}

TEST(CApiBadInput, every_function_that_can_fail_has_a_row) {
  std::ifstream file(GEX_TEST_DATA "/../../include/gex/gex.h");
  std::ostringstream header;
  header << file.rdbuf();
  const std::string text = header.str();
  std::set<std::string> tested;
  for (const Misuse& misuse : misuses()) tested.insert(misuse.function);
  const std::regex declaration("GEX_API gex_status (gex_[a-z_]+)\\(");
  int functions = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) {
    ++functions;
    EXPECT_TRUE(tested.contains((*at)[1].str()))
        << (*at)[1] << " needs a row in bad_input_test.cpp";
  }
  EXPECT_GT(functions, 20);
}

// Sizes that fit 64 bits but no machine: said at once, before anything is allocated or computed.
TEST(CApiBadInput, sizes_beyond_all_memory_are_told_and_compile_at_once) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{0, "s0"}});
  const std::vector<gex_size> shape = {{kBillion, nullptr}, {1000, nullptr}};
  gex_attr big = {"shape", GEX_ATTR_SIZES, 2, {}};
  big.value.sizes = shape.data();
  const gex_value filled = add(graph, "full", {}, {big});
  ProgramPtr program = compiled(graph, {add(graph, "cumsum", {filled}), x});
  const std::vector<std::int64_t> one = {1};
  float memory = 1;
  const gex_tensor in = tensor(GEX_F32, one, &memory);
  std::vector<gex_tensor> out(2, GEX_TENSOR_INIT);
  EXPECT_EQ(gex_program_run(program.get(), &in, 1, out.data(), 2), GEX_OUT_OF_MEMORY)
      << gex_last_error();
  EXPECT_EQ(out[0].data, nullptr);
  EXPECT_EQ(out[1].data, nullptr);
}

}  // namespace
}  // namespace gex::test
