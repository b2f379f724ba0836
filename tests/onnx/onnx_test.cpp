// ONNX files: reading what may be damaged, importing, running without Python.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.hpp"
#include "frontend/onnx/session.hpp"
#include "gex/gex.h"
#include "model_writer.hpp"

namespace gex {
namespace {

using namespace testing_onnx;
constexpr int kFloat = 1, kInt64 = 7;

std::shared_ptr<const onnx::ModelProto> parsed(const std::string& bytes) {
  return onnx::parse_model(onnx::own_bytes(bytes));
}

onnx::HostValue floats(std::vector<std::int64_t> shape, const std::vector<float>& values) {
  return onnx::HostValue::tensor(onnx::Elem::f32, HostTensor::of(std::move(shape), values));
}
onnx::HostValue integers(std::vector<std::int64_t> shape, const std::vector<std::int64_t>& values) {
  return onnx::HostValue::tensor(onnx::Elem::i64, HostTensor::of_i64(std::move(shape), values));
}
std::vector<float> floats_of(const onnx::HostValue& value) {
  std::int64_t count = 1;
  for (const auto d : value.shape) count *= d;
  const auto* data = static_cast<const float*>(value.data.get());
  return {data, data + count};
}

// y = reshape(x + w, [x's second size, -1]) with open sizes.
std::string symbolic_model() {
  GraphParts p;
  p.inputs = {tensor_info("x", kFloat, {"n", "3"})};
  p.outputs = {tensor_info("y", kFloat, {"", ""})};
  p.initialisers = {tensor("w", kFloat, {3}, raw<float>({1, 2, 3})),
                    tensor("one", kInt64, {1}, raw<std::int64_t>({1})),
                    tensor("rest", kInt64, {1}, raw<std::int64_t>({-1}))};
  p.nodes = {node("Add", {"x", "w"}, {"s"}), node("Shape", {"x"}, {"sizes"}),
             node("Gather", {"sizes", "one"}, {"second"}),
             node("Concat", {"second", "rest"}, {"target"}, {int_attribute("axis", 0)}),
             node("Reshape", {"s", "target"}, {"y"})};
  return model(p);
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "gex_onnx_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& bytes) const {
    const auto path = path_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

TEST(OnnxFile, EveryPrefixIsRefusedOrRead) {
  const std::string bytes = symbolic_model();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    try {
      parsed(bytes.substr(0, n));
    } catch (const UserError&) {
    }
  }
  EXPECT_THROW(parsed(""), UserError);
  EXPECT_THROW(parsed("not a model at all"), UserError);
}

TEST(OnnxFile, DamagedBytesNeverGetPastErrors) {
  const std::string bytes = symbolic_model();
  std::mt19937 random(0);
  int imported = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = bytes;
    for (int k = 0; k < 3; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    try {
      onnx::import_graph(parsed(damaged));
      ++imported;
    } catch (const UserError&) {
    }
  }
  EXPECT_GT(imported, 0);  // names may change without harm
}

TEST(OnnxFile, LengthsBeyondTheEndAreRefused) {
  Message lie;
  std::string bytes = lie.bytes(7, "abc").text();
  bytes[1] = 0x7f;
  EXPECT_THROW(parsed(bytes), UserError);
}

TEST(OnnxFile, TensorsWithOtherSizesThanTheirBytesAreRefused) {
  GraphParts p;
  p.outputs = {tensor_info("w", kFloat, {"4"})};
  p.initialisers = {tensor("w", kFloat, {4}, raw<float>({1, 2, 3}))};
  EXPECT_THROW(onnx::import_graph(parsed(model(p))), UserError);
}

TEST(OnnxFile, ExternalDataIsMappedFromTheFolderOnly) {
  const TemporaryFolder folder;
  folder.write("weights.bin", raw<float>({9, 1, 2, 9}));
  const auto run = [&](const std::vector<std::pair<std::string, std::string>>& entries) {
    GraphParts p;
    p.inputs = {tensor_info("x", kFloat, {"2"})};
    p.outputs = {tensor_info("y", kFloat, {"2"})};
    p.initialisers = {external_tensor("w", kFloat, {2}, entries)};
    p.nodes = {node("Add", {"x", "w"}, {"y"})};
    onnx::Session session(onnx::read_model(folder.write("model.onnx", model(p))));
    return floats_of(session.run(std::vector{floats({2}, {10, 20})})[0]);
  };
  EXPECT_EQ(run({{"location", "weights.bin"}, {"offset", "4"}, {"length", "8"}}),
            (std::vector<float>{11, 22}));
  EXPECT_THROW(run({{"location", "weights.bin"}, {"offset", "12"}, {"length", "8"}}), UserError);
  EXPECT_THROW(run({{"location", "weights.bin"}, {"offset", "99999999999"}}), UserError);
  EXPECT_THROW(run({{"location", "../weights.bin"}, {"length", "8"}}), UserError);
  EXPECT_THROW(run({{"location", "/etc/hostname"}, {"length", "8"}}), UserError);
  EXPECT_THROW(run({{"location", "missing.bin"}, {"length", "8"}}), UserError);
  EXPECT_THROW(run({{"location", "weights.bin"}, {"offset", "minus one"}}), UserError);
}

TEST(OnnxFile, NodesThatLackWhatTheyNeedAreRefused) {
  GraphParts p;
  p.inputs = {tensor_info("x", kFloat, {})};
  p.outputs = {tensor_info("y", kFloat, {})};
  for (const char* op : {"SplitToSequence", "Conv", "Softmax", "LSTM", "Gather", "Resize", "Loop",
                         "Scan", "If", "Concat", "Constant", "Trilu", "MaxPool"}) {
    p.nodes = {node(op, {"x"}, {"y"})};
    EXPECT_THROW(onnx::import_graph(parsed(model(p))), UserError) << op;
  }
  // An attribute of another kind than the operator has.
  p.nodes = {node("Constant", {}, {"y"}, {int_attribute("value", 1)})};
  EXPECT_THROW(onnx::import_graph(parsed(model(p))), UserError);
  p.nodes = {node("Constant", {}, {"y"}, {int_attribute("sparse_value", 1)})};
  EXPECT_THROW(onnx::import_graph(parsed(model(p))), UserError);
}

TEST(OnnxFile, NamesInErrorsAreValidText) {
  GraphParts p;
  p.inputs = {tensor_info("x", kFloat, {"2"})};
  p.outputs = {tensor_info("y", kFloat, {"2"})};
  p.nodes = {node("Nothing\xff\xc0", {"x"}, {"y"}, {}, "n\x80")};
  try {
    onnx::import_graph(parsed(model(p)));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("Nothing??: 'n?'"), std::string::npos) << error.what();
  }
}

TEST(OnnxImport, OpenSizesStaySymbols) {
  const auto graph = onnx::import_graph(parsed(symbolic_model()));
  ASSERT_EQ(graph->outputs().size(), 1u);
  const Shape& shape = graph->outputs()[0]->type().shape;
  EXPECT_EQ(shape[0], Dim(3));
  EXPECT_EQ(shape[1], graph->inputs()[0]->type().shape[0]);
}

TEST(OnnxImport, OneProgramServesAllOpenSizes) {
  onnx::Session session(parsed(symbolic_model()));
  for (std::int64_t n = 1; n < 5; ++n) {
    const auto result = session.run(std::vector{floats({n, 3}, std::vector<float>(3 * n, 1))});
    EXPECT_EQ(result[0].shape, (std::vector<std::int64_t>{3, n}));
    EXPECT_EQ(floats_of(result[0])[0], 2);
  }
  EXPECT_EQ(session.statistics().programs, 1);
}

TEST(OnnxImport, UnknownOperatorsAreAllNamed) {
  GraphParts p;
  p.inputs = {tensor_info("x", kFloat, {"2"})};
  p.outputs = {tensor_info("z", kFloat, {"2"})};
  p.nodes = {node("Frobnicate", {"x"}, {"y"}, {}, "first"),
             node("Twist", {"y"}, {"z"}, {}, "second", "my.domain")};
  try {
    onnx::import_graph(parsed(model(p)));
    FAIL();
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("Frobnicate: 'first'"), std::string::npos) << text;
    EXPECT_NE(text.find("my.domain.Twist: 'second'"), std::string::npos) << text;
  }
}

// The target of the Reshape is an input: one program for each of its values.
std::string value_dependent_model() {
  GraphParts p;
  p.inputs = {tensor_info("x", kFloat, {"6"}), tensor_info("target", kInt64, {"2"})};
  p.outputs = {tensor_info("y", kFloat, {"", ""})};
  p.nodes = {node("Reshape", {"x", "target"}, {"y"})};
  return model(p);
}

TEST(OnnxImport, SizesFromInputsAreReadInEachCall) {
  onnx::Session session(parsed(value_dependent_model()));
  const auto shape_for = [&](std::vector<std::int64_t> target) {
    return session.run(std::vector{floats({6}, {1, 2, 3, 4, 5, 6}), integers({2}, target)})[0]
        .shape;
  };
  EXPECT_EQ(shape_for({2, 3}), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(shape_for({-1, 2}), (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(shape_for({2, 3}), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(session.statistics().programs, 2);
  EXPECT_THROW(shape_for({4, 4}), UserError);
  EXPECT_THROW(onnx::import_graph(parsed(value_dependent_model())), UserError);
}

TEST(OnnxImport, WrongInputsAreRefused) {
  onnx::Session session(parsed(symbolic_model()));
  EXPECT_THROW(session.run({}), UserError);
  EXPECT_THROW(session.run(std::vector{floats({2, 4}, std::vector<float>(8))}), UserError);
  EXPECT_THROW(session.run(std::vector{integers({2, 3}, std::vector<std::int64_t>(6))}), UserError);
  EXPECT_THROW(session.run(std::vector{floats({3}, {1, 2, 3})}), UserError);
}

// Through gex.h, with a host function (Unique) on the way.
TEST(OnnxCApi, ImportsCompilesAndRuns) {
  const TemporaryFolder folder;
  GraphParts p;
  p.inputs = {tensor_info("x", kFloat, {"5"})};
  p.outputs = {tensor_info("y", kFloat, {""})};
  p.nodes = {node("Unique", {"x"}, {"u"}), node("Neg", {"u"}, {"y"})};
  const std::string path = folder.write("model.onnx", model(p));
  gex_graph* graph = nullptr;
  ASSERT_EQ(gex_import_onnx(path.c_str(), &graph), GEX_OK) << gex_last_error();
  gex_program* program = nullptr;
  ASSERT_EQ(gex_compile(graph, nullptr, &program), GEX_OK) << gex_last_error();
  std::vector<float> values{3, 1, 3, 2, 1};
  const std::int64_t shape[] = {5};
  gex_tensor input = GEX_TENSOR_INIT;
  input.dtype = GEX_F32;
  input.data = values.data();
  input.rank = 1;
  input.shape = shape;
  gex_tensor output = GEX_TENSOR_INIT;
  ASSERT_EQ(gex_program_run(program, &input, 1, &output, 1), GEX_OK) << gex_last_error();
  ASSERT_EQ(output.shape[0], 3);
  const auto* y = static_cast<const float*>(output.data);
  EXPECT_EQ(std::vector<float>(y, y + 3), (std::vector<float>{-1, -2, -3}));
  gex_tensor_release(&output);
  gex_program_destroy(program);
  gex_graph_destroy(graph);
  EXPECT_NE(gex_import_onnx("/no/such/file.onnx", &graph), GEX_OK);
  EXPECT_NE(std::string(gex_last_error()).find("/no/such/file.onnx"), std::string::npos);
}

}  // namespace
}  // namespace gex
