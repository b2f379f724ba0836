// Constants too large for the reference executor: folded once, at compile time.

#include "cache/program_file.hpp"
#include "harness.hpp"
#include "ops/core/build.hpp"

namespace gex::test {
namespace {

constexpr std::int64_t kRows = 96, kColumns = 128;

class LargeConstants : public testing::Test {
 protected:
  Value* list(DType dtype = DType::f32, std::vector<std::int64_t> shape = {kRows, kColumns}) {
    return ops::constant(graph_, random_tensor(dtype, std::move(shape), random_));
  }
  Value* input(Shape shape) {
    return graph_.add_input(Type::tensor(DType::f32, std::move(shape)), "x");
  }

  // Compiled and run, compared with the interpreter's results.
  void run(Value* result, CompileOptions options = {}) {
    graph_.add_output(result);
    std::vector<HostTensor> inputs;
    for (const auto& value : graph_.inputs()) {
      std::vector<std::int64_t> shape;
      for (Dim size : value->type().shape) shape.push_back(size.constant());
      inputs.push_back(random_tensor(value->type().dtype, std::move(shape), random_));
    }
    const std::vector<HostTensor> want = interp::interpret(graph_, inputs);
    compiled_ = compile(graph_.clone(), options);
    runtime::Session session(compiled_.executable, {}, compiled_.specialiser);
    const std::vector<HostTensor> got = execute(session, inputs);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < got.size(); ++k) EXPECT_LT(largest_error(got[k], want[k]), 1e-4);
  }
  int launches() const { return count_launches(*compiled_.program); }
  std::int64_t folded() const {
    for (const auto& [name, count] : compiled_.report.counts)
      if (name == "pass.fold") return count;
    return 0;
  }
  // Total size of the constants in the program.
  std::size_t constant_bytes() const {
    std::size_t bytes = 0;
    for (const program::BufferDesc& buffer : compiled_.program->buffers)
      if (buffer.data != nullptr) bytes += buffer.data->bytes();
    return bytes;
  }

  std::mt19937 random_{7};
  Graph graph_{"g"};
  Compiled compiled_;
};

TEST_F(LargeConstants, ArithmeticOnThemIsDoneOnce) {
  Value* scaled = ops::mul(graph_, ops::exp(graph_, list()), list());
  run(ops::matmul(graph_, input({4, kRows}), scaled));
  EXPECT_EQ(folded(), 2);
  EXPECT_EQ(launches(), 1) << compiled_.report.graph_text;
  EXPECT_EQ(constant_bytes(), kRows * kColumns * 4u) << "what it was made of is gone";
}

TEST_F(LargeConstants, OperandsAreRemovedAtALevelWithoutDeadCodeElimination) {
  CompileOptions options;
  options.level = 1;
  run(ops::matmul(graph_, input({4, kRows}), ops::exp(graph_, list())), options);
  const std::string& text = compiled_.report.graph_text;
  EXPECT_EQ(text.find("constant("), text.rfind("constant("));
  EXPECT_EQ(launches(), 1);
}

TEST_F(LargeConstants, ASharedViewIsFoldedAndKept) {
  Value* turned = ops::transpose(graph_, list(), {1, 0});
  Value* x = input({kColumns, kRows});
  run(ops::add(graph_, ops::mul(graph_, x, turned), ops::exp(graph_, turned)));
  EXPECT_EQ(folded(), 1);
}

TEST_F(LargeConstants, AMatmulOfTwoIsDoneOnce) {
  Value* product = ops::matmul(graph_, list(), list(DType::f32, {kColumns, kColumns}));
  run(ops::matmul(graph_, input({4, kRows}), ops::relu(graph_, product)));
  EXPECT_EQ(launches(), 1) << compiled_.report.graph_text;
}

TEST_F(LargeConstants, SumsOfNarrowNumbersAreDoneOnceDespiteWideIntermediates) {
  Value* wide = ops::cast(graph_, list(DType::i8), DType::i64);
  Value* sums = ops::cast(graph_, ops::reduce_sum(graph_, wide, {0}), DType::f32);
  run(ops::add(graph_, input({kColumns}), sums));
  EXPECT_EQ(folded(), 3);
  EXPECT_EQ(launches(), 1) << compiled_.report.graph_text;
}

TEST_F(LargeConstants, ResultsLargerThanTheirOperandsAreNotFolded) {
  Value* wide = ops::cast(graph_, ops::neg(graph_, list(DType::i8)), DType::f32);
  run(ops::mul(graph_, input({kRows, kColumns}), wide));
  EXPECT_EQ(folded(), 1) << "the negation";
  EXPECT_NE(compiled_.report.graph_text.find("cast("), std::string::npos);
  EXPECT_EQ(constant_bytes(), kRows * kColumns * 1u);
}

TEST_F(LargeConstants, ViewsOfThemStayViews) {
  Value* turned = ops::transpose(graph_, list(), {1, 0});
  run(ops::matmul(graph_, input({4, kColumns}), turned));
  EXPECT_EQ(folded(), 0);
  EXPECT_EQ(launches(), 1);
}

TEST_F(LargeConstants, AViewOfAResultViewsTheConstant) {
  Value* turned = ops::transpose(graph_, ops::exp(graph_, list()), {1, 0});
  run(ops::matmul(graph_, input({4, kColumns}), turned));
  EXPECT_EQ(folded(), 1);
  EXPECT_EQ(launches(), 1);
}

TEST_F(LargeConstants, GeneratedNumbersAreComputedWhereTheyAreRead) {
  Value* places = ops::cast(graph_, ops::iota(graph_, 100000), DType::f32);
  run(ops::mul(graph_, input({100000}), ops::sin(graph_, places)));
  EXPECT_EQ(folded(), 0);
  EXPECT_EQ(launches(), 1);
}

TEST_F(LargeConstants, AlsoInsideABranch) {
  auto branch = [&](bool then) {
    auto body = std::make_unique<Graph>(then ? "then" : "else");
    Value* x = body->add_input(Type::tensor(DType::f32, {kRows, kColumns}), "x");
    Value* constant =
        ops::constant(*body, random_tensor(DType::f32, {kRows, kColumns}, random_, 0.5, 1.5));
    body->add_output(ops::add(*body, x, ops::log(*body, constant)));
    return body;
  };
  Value* x = input({kRows, kColumns});
  Value* flag =
      ops::gt(graph_, ops::reduce_sum(graph_, x, {0, 1}), ops::scalar(graph_, DType::f32, 0));
  std::vector<std::unique_ptr<Graph>> branches;
  branches.push_back(branch(true));
  branches.push_back(branch(false));
  run(graph_.add("if", {flag, x}, {}, std::move(branches))->output());
  EXPECT_EQ(folded(), 2) << compiled_.report.graph_text;
}

TEST_F(LargeConstants, NotIfFoldingIsOffOrTheNodeIsKept) {
  Value* kept = ops::exp(graph_, list());
  Labels labels;
  set_label(labels, "_do_not_constant_folding", AttrValue(true));
  kept->producer()->set_labels(labels);
  Value* result = ops::matmul(graph_, input({4, kRows}), kept);
  CompileOptions apart;  // else the product computes it, in each call
  apart.prologues = false;
  run(result, apart);
  EXPECT_EQ(folded(), 0);
  EXPECT_EQ(launches(), 2);
  kept->producer()->set_labels({});
  CompileOptions off = apart;
  off.disabled_passes = {"fold"};
  EXPECT_EQ(count_launches(*compile(graph_.clone(), off).program), 2);
  EXPECT_EQ(count_launches(*compile(graph_.clone(), apart).program), 1);
}

TEST_F(LargeConstants, FoldedProgramsAreSavedWithTheResults) {
  run(ops::matmul(graph_, input({4, kRows}), ops::exp(graph_, list())));
  const std::string path = testing::TempDir() + "gex_large_constants";
  save_program_file(compiled_, path);
  EXPECT_EQ(count_launches(*load_program_file(path, {}).program), 1);
}

}  // namespace
}  // namespace gex::test
