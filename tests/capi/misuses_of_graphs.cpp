#include <limits>

#include "misuse.hpp"

namespace gex::test {

std::vector<Misuse> misuses_of_graphs() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return {
      {"gex_graph_create", "no place", [](Valid&) { return gex_graph_create("g", nullptr); },
       "NULL"},
      {"gex_graph_clone", "no graph", [](Valid& v) { return gex_graph_clone(nullptr, &v.made); },
       "NULL"},
      {"gex_graph_parse", "no text", [](Valid& v) { return gex_graph_parse(nullptr, 9, &v.made); },
       "NULL"},
      {"gex_import_onnx", "no path", [](Valid& v) { return gex_import_onnx(nullptr, &v.made); },
       "NULL"},
      {"gex_import_onnx", "no place", [](Valid&) { return gex_import_onnx("a.onnx", nullptr); },
       "NULL"},
      {"gex_import_onnx", "no file",
       [](Valid& v) { return gex_import_onnx("/no/such/model.onnx", &v.made); },
       "/no/such/model.onnx"},
      {"gex_import_onnx", "a folder", [](Valid& v) { return gex_import_onnx("/", &v.made); },
       "not a regular file"},
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
      {"gex_graph_name", "no graph", [](Valid& v) { return gex_graph_name(nullptr, &v.text); },
       "NULL"},
      {"gex_value_results", "an input",
       [](Valid& v) { return gex_value_results(v.g(), v.x, nullptr, 0, &v.count); }, "input"},
      {"gex_value_readers", "of another graph",
       [](Valid& v) { return gex_value_readers(v.g(), v.foreign, nullptr, nullptr, 0, &v.count); },
       "graph"},
      {"gex_graph_set_operand", "another type",
       [](Valid& v) { return gex_graph_set_operand(v.g(), v.y, 0, v.whole); }, "i64"},
      {"gex_graph_set_operand", "too large an index",
       [](Valid& v) { return gex_graph_set_operand(v.g(), v.y, 1, v.x); }, "1 operands"},
      {"gex_graph_set_operand", "its own result",
       [](Valid& v) { return gex_graph_set_operand(v.g(), v.y, 0, v.y); }, "cycle"},
      {"gex_matcher_create", "a pattern with an unused input",
       [](Valid& v) {
         const gex_pattern pattern = {v.other.get(), nullptr, 0};
         gex_matcher* matcher = nullptr;
         return gex_matcher_create(v.g(), &pattern, 0, 0, &matcher);
       },
       "not used"},
      {"gex_matcher_next", "no matcher",
       [](Valid&) {
         gex_match* match = nullptr;
         return gex_matcher_next(nullptr, &match);
       },
       "NULL"},
      {"gex_graph_rewrite", "another number of outputs",
       [](Valid& v) { return gex_graph_rewrite(v.g(), &v.x, 1, &v.y, 1, v.other.get()); },
       "0 outputs"},
      {"gex_graph_rewrite", "by itself",
       [](Valid& v) { return gex_graph_rewrite(v.g(), &v.x, 1, &v.y, 1, v.g()); }, "itself"},
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
       "which no node computes"},
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
       "which no node computes"},
  };
}

}  // namespace gex::test
