// Types, broadcasting, attribute values and the registry.
#include <limits>
#include <thread>

#include "base/suggest.hpp"
#include "ir/text/text.hpp"
#include "test_ops.hpp"

namespace gex::test {
namespace {

using Types = IrTest;
using Attributes = IrTest;
using OpRegistry = IrTest;

TEST_F(Types, print_as_dtype_sizes_and_strides) {
  Dim s0 = Dim::symbol("s0");
  EXPECT_EQ(f32({s0, 128}).text(), "f32[s0, 128]");
  EXPECT_EQ(f32({}).text(), "f32[]");
  EXPECT_EQ(Type::token().text(), "token");
  Type strided = Type::tensor(DType::bf16, {4, 8});
  strided.strides = {1, 4};
  EXPECT_EQ(strided.text(), "bf16[4, 8]{1, 4}");
  EXPECT_NE(strided, Type::tensor(DType::bf16, {4, 8}));
}

TEST_F(Types, dense_strides_are_row_major) {
  Dim s0 = Dim::symbol("s0");
  EXPECT_EQ(dense_strides({2, s0, 3}), (std::vector<Dim>{s0 * 3, 3, 1}));
  EXPECT_TRUE(dense_strides({}).empty());
}

TEST_F(Types, broadcast_like_pytorch) {
  Dim s0 = Dim::symbol("s0"), s1 = Dim::symbol("s1", {2, 64}), s2 = Dim::symbol("s2", {2, 64});
  auto both = [](const Shape& a, const Shape& b) {
    Shape out = broadcast_shapes(a, b, "op");
    EXPECT_EQ(text_of(out), text_of(broadcast_shapes(b, a, "op")));
    return out;
  };
  EXPECT_EQ(both({4, 1}, {8}), (Shape{4, 8}));
  EXPECT_EQ(both({}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(both({0, 3}, {1, 3}), (Shape{0, 3}));
  EXPECT_EQ(both({s0, 4}, {s0, 4}), (Shape{s0, 4}));
  EXPECT_EQ(both({s0}, {1}), (Shape{s0}));
  EXPECT_EQ(both({s0 * 2 + 1}, {1 + s0 + s0}), (Shape{s0 * 2 + 1}));
  EXPECT_EQ(both({s1}, {8}), (Shape{8}));  // neither can be 1: assumed equal
  EXPECT_EQ(broadcast_shapes({s1}, {s2}, "op"), (Shape{s1}));
}

TEST_F(Types, broadcast_refuses_and_names_both_shapes) {
  Dim s0 = Dim::symbol("s0"), s1 = Dim::symbol("s1", {2, 64});
  auto message = [](const Shape& a, const Shape& b) {
    return user_error([&] { broadcast_shapes(a, b, "add"); }, ErrorCode::shape_mismatch);
  };
  expect_contains(message({2, 3}, {2, 4}), "add: shapes [2, 3] and [2, 4] do not broadcast: 3 ");
  expect_contains(message({2, 3, 5}, {4, 5}), "at axis -2");
  expect_contains(message({0}, {5}), "[0] and [5]");
  expect_contains(message({s1}, {100}), "[s1] and [100]");  // out of its range
  expect_contains(message({s0}, {s1}), "range excludes 1");
  expect_contains(message({s0}, {s0 + 1}), "[s0] and [s0 + 1]");
}

TEST_F(Attributes, are_equal_by_content_and_bits) {
  auto tensor = [](double value) {
    return AttrValue(
        TensorPtr(std::make_shared<HostTensor>(HostTensor::scalar(DType::f32, value))));
  };
  EXPECT_TRUE(attr_equal(tensor(1), tensor(1)));
  EXPECT_FALSE(attr_equal(tensor(1), tensor(2)));
  EXPECT_FALSE(attr_equal(tensor(1), AttrValue(TensorPtr())));
  EXPECT_FALSE(attr_equal(AttrValue(0.0), AttrValue(-0.0)));
  double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(attr_equal(AttrValue(nan), AttrValue(nan)));
  EXPECT_TRUE(attr_equal(AttrValue(std::vector{nan}), AttrValue(std::vector{nan})));
  EXPECT_FALSE(attr_equal(AttrValue(std::int64_t{1}), AttrValue(1.0)));
  EXPECT_NE(attr_hash(AttrValue(std::int64_t{1})), attr_hash(AttrValue(Dim(1))));
}

TEST_F(Attributes, structs_become_lists_and_back) {
  EveryAttrs attrs{.flag = true, .number = 7, .text = "t", .sizes = {1, 2}};
  auto back = from_attr_list<EveryAttrs>(to_attr_list(attrs));
  EXPECT_TRUE(back.flag);
  EXPECT_EQ(back.number, 7);
  EXPECT_EQ(back.text, "t");
  EXPECT_EQ(back.sizes, attrs.sizes);
  AttrSchema schema = schema_of<EveryAttrs>();
  EXPECT_EQ(schema.size(), std::variant_size_v<AttrValue>);
  for (std::size_t i = 0; i < schema.size(); ++i) EXPECT_EQ(schema[i].default_value.index(), i);
  EXPECT_EQ(attr_kind_name(schema[8].default_value), "list of dims");
}

TEST_F(Attributes, convert_only_without_loss) {
  AttrValue one(std::int64_t{1}), real(1.0), dim(Dim(1)), text(std::string("1"));
  EXPECT_TRUE(attr_equal(*attr_convert(one, real), real));
  EXPECT_TRUE(attr_equal(*attr_convert(one, dim), dim));
  EXPECT_TRUE(attr_equal(*attr_convert(dim, one), one));
  EXPECT_FALSE(attr_convert(real, one).has_value());
  EXPECT_FALSE(attr_convert(text, one).has_value());
  EXPECT_FALSE(attr_convert(AttrValue(Dim::symbol("s0")), one).has_value());
}

TEST_F(Attributes, base64_keeps_every_byte) {
  for (std::size_t size = 0; size < 40; ++size) {
    std::string data;
    for (std::size_t i = 0; i < size; ++i) data += static_cast<char>(i * 67 + size);
    std::string back;
    EXPECT_TRUE(decode_base64(encode_base64(data.data(), size), back));
    EXPECT_EQ(back, data);
  }
  EXPECT_EQ(encode_base64("Man", 3), "TWFu");
  EXPECT_EQ(encode_base64("M", 1), "TQ==");
  std::string out;
  for (const char* bad : {"T", "TWF", "TW=u", "TQ=", "====", "TWF*", "TQ==TQ=="})
    EXPECT_FALSE(decode_base64(bad, out)) << bad;
}

TEST_F(OpRegistry, finds_ops_and_suggests_near_names) {
  EXPECT_EQ(op("test.neg").name, "test.neg");
  EXPECT_EQ(find_op("test.nge"), nullptr);
  expect_contains(user_error([] { op("test.nge"); }, ErrorCode::not_found),
                  "unknown op 'test.nge'; did you mean 'test.neg'?");
  std::string far = user_error([] { op("completely_unlike_anything"); }, ErrorCode::not_found);
  EXPECT_EQ(far.find("did you mean"), std::string::npos);
  user_error([] { op(std::string(1 << 20, 'x')); }, ErrorCode::not_found);
}

TEST_F(OpRegistry, lists_all_ops_by_name) {
  std::vector<const OpDef*> ops = all_ops();
  EXPECT_GE(ops.size(), 14u);
  for (std::size_t i = 1; i < ops.size(); ++i) EXPECT_LT(ops[i - 1]->name, ops[i]->name);
}

TEST_F(OpRegistry, refuses_bad_definitions) {
  auto message = [](auto change) {
    OpDef def;
    def.name = "test.refused";
    def.infer = [](const InferContext&) { return std::vector<Type>{}; };
    change(def);
    std::string text = user_error([&] { register_op(def); }, ErrorCode::invalid_argument);
    EXPECT_EQ(find_op("test.refused"), nullptr);
    return text;
  };
  expect_contains(message([](OpDef& d) { d.name = "test.neg"; }), "already registered");
  expect_contains(message([](OpDef& d) { d.infer = nullptr; }), "no shape rule");
  expect_contains(message([](OpDef& d) { d.name = "two words"; }), "a name consists of");
  expect_contains(message([](OpDef& d) { d.name = "return"; }), "a keyword of the text form");
  expect_contains(message([](OpDef& d) { d.inputs = {{"xs", InputSpec::Arity::variadic}, {"y"}}; }),
                  "'xs' is variadic but not the last");
  expect_contains(message([](OpDef& d) { d.attrs = {{"a", true}, {"a", true}}; }), "twice");
}

TEST_F(OpRegistry, serves_many_threads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        OpDef def;
        def.name = str("test.thread", t, "_", i);
        def.infer = [](const InferContext&) { return std::vector<Type>{}; };
        const OpDef& made = register_op(def);
        EXPECT_EQ(&op(made.name), &made);
        EXPECT_NE(find_op("test.neg"), nullptr);
        EXPECT_TRUE(i % 50 != 0 || !all_ops().empty());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(find_op("test.thread3_199"), nullptr);
}

TEST_F(OpRegistry, edit_distance_counts_edits) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("softmax", "softmax"), 0);
  EXPECT_EQ(edit_distance("sofmtax", "softmax"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

}  // namespace
}  // namespace gex::test
