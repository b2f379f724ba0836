// Acceptance cases on graph optimisation, checked on the dump after the passes.

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "../compile/harness.hpp"
#include "passes/pipeline.hpp"

namespace gex::test {
namespace {

std::mt19937 random_source(23);

HostTensor f32(std::vector<std::int64_t> shape) {
  return random_tensor(DType::f32, std::move(shape), random_source);
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

std::string optimised(const std::string& text, const passes::PipelineOptions& options = {}) {
  auto graph = parse_graph(text);
  passes::run_pipeline(*graph, options);
  return print(*graph);
}

const char* kConstants = R"(graph main(%x: f32[4]) -> (f32[4]) {
  %two = constant() {value = f32[](2.0)} : f32[]
  %three = constant() {value = f32[](3.0)} : f32[]
  %six = mul(%two, %three) : f32[]
  %y = add(%x, %six) : f32[4]
  return %y
})";

TEST(GeCase, N23_ConstantsFoldToOneConstant) {
  const std::string result = optimised(kConstants);
  EXPECT_EQ(count(result, "constant("), 1) << result;
  EXPECT_EQ(count(result, "f32[](6.0)"), 1) << result;
  EXPECT_EQ(count(result, "add("), 1) << result;
  EXPECT_EQ(count(result, "mul("), 0) << result;
}

TEST(GeCase, N23_NothingFoldsWhereFoldingIsOffOrTheResultTooLarge) {
  passes::PipelineOptions off;
  off.disabled = {"fold"};
  EXPECT_EQ(count(optimised(kConstants, off), "mul("), 1);
  passes::PipelineOptions limited;
  limited.settings.fold_limit = 0;
  EXPECT_EQ(count(optimised(kConstants, limited), "mul("), 1);
}

TEST(GeCase, N23_ALabelKeepsANodeFromBeingFolded) {
  std::string labelled = kConstants;
  labelled.replace(labelled.find("mul(%two, %three)"), 17,
                   "mul(%two, %three) labels(_do_not_constant_folding = true)");
  EXPECT_EQ(count(optimised(labelled), "mul("), 1) << optimised(labelled);
}

TEST(GeCase, N24_ShapeArithmeticOfKnownSizesIsGone) {
  const std::string result =
      optimised(R"(graph main(%x: f32[6, 4], %y: f32[24]) -> (f32[6, 4], i64[2]) {
  %n = dim() {size = 6} : i64[]
  %m = dim() {size = 4} : i64[]
  %n1 = reshape(%n) {shape = [1]} : i64[1]
  %m1 = reshape(%m) {shape = [1]} : i64[1]
  %shape = cat(%n1, %m1) {axis = 0} : i64[2]
  %zero = constant() {value = i64[1](0)} : i64[1]
  %first = index(%shape, %zero) {axes = [0]} : i64[1]
  %last = slice(%shape) {starts = [1], steps = [1], sizes = [1]} : i64[1]
  %target = cat(%first, %last) {axis = 0} : i64[2]
  %z = reshape(%y) {shape = [6, 4]} : f32[6, 4]
  return %z, %target
})");
  for (const char* gone : {"dim(", "cat(", "slice(", "index("})
    EXPECT_EQ(count(result, gone), 0) << result;
  EXPECT_EQ(count(result, "i64[2](6, 4)"), 1) << result;
  EXPECT_EQ(count(result, "reshape("), 1) << result;
}

TEST(GeCase, N25_UnusedNodesGoAndInputsStay) {
  const std::string result = optimised(R"(graph main(%x: f32[4], %unused: f32[4]) -> (f32[4]) {
  %two = full() {dtype = f32, value = 2.0, shape = []} : f32[]
  %one = full() {dtype = f32, value = 1.0, shape = []} : f32[]
  %y = mul(%x, %two) : f32[4]
  %z = add(%x, %one) : f32[4]
  return %z
})");
  EXPECT_EQ(count(result, "mul("), 0) << result;
  EXPECT_EQ(count(result, "add("), 1) << result;
  EXPECT_EQ(count(result, "%unused: f32[4]"), 1) << result;
}

TEST(GeCase, N26_EqualNodesMergeInEitherOrderOfOperands) {
  const std::string result = optimised(R"(graph main(%a: f32[4], %b: f32[4]) -> (f32[4]) {
  %x = add(%a, %b) : f32[4]
  %y = add(%a, %b) : f32[4]
  %z = add(%b, %a) : f32[4]
  %p = mul(%x, %y) : f32[4]
  %q = mul(%p, %z) : f32[4]
  return %q
})");
  EXPECT_EQ(count(result, "add("), 1) << result;
}

TEST(GeCase, N27_ControlFlowWithKnownConditionsIsRemoved) {
  const std::string text = R"(graph main(%x: f32[4]) -> (f32[4], f32[4]) {
  %one = full() {dtype = i64, value = 1.0, shape = []} : i64[]
  %two = full() {dtype = i64, value = 2.0, shape = []} : i64[]
  %c = lt(%one, %two) : bool[]
  %y = if(%c, %x) regions(
    graph then(%a: f32[4]) -> (f32[4]) {
      %0 = neg(%a) : f32[4]
      return %0
    },
    graph else(%a: f32[4]) -> (f32[4]) {
      %0 = exp(%a) : f32[4]
      return %0
    }) : f32[4]
  %z = while(%x) {carried = 1} regions(
    graph condition(%a: f32[4]) -> (bool[]) {
      %no = constant() {value = bool[](false)} : bool[]
      return %no
    },
    graph body(%a: f32[4]) -> (f32[4]) {
      %0 = exp(%a) : f32[4]
      return %0
    }) : f32[4]
  return %y, %z
})";
  const std::string result = optimised(text);
  for (const char* gone : {"if(", "while(", "exp("}) EXPECT_EQ(count(result, gone), 0) << result;
  EXPECT_EQ(count(result, "neg(%x)"), 1) << result;
  EXPECT_EQ(count(result, ", %x\n"), 1) << result;
  check(text, {f32({4})});
}

TEST(GeCase, N28_TransposesThatMoveNothingCostNothing) {
  const std::string text =
      R"(graph main(%x: f32[2, 1, 3], %y: f32[2, 3, 4]) -> (f32[2, 1, 3], f32[1, 2, 3], f32[2, 3, 4]) {
  %a = transpose(%x) {perm = [0, 1, 2]} : f32[2, 1, 3]
  %b = transpose(%x) {perm = [1, 0, 2]} : f32[1, 2, 3]
  %c = transpose(%y) {perm = [0, 2, 1]} : f32[2, 4, 3]
  %d = transpose(%c) {perm = [0, 2, 1]} : f32[2, 3, 4]
  return %a, %b, %d
})";
  EXPECT_EQ(count(optimised(text), "transpose("), 0) << optimised(text);
  EXPECT_EQ(check(text, {f32({2, 1, 3}), f32({2, 3, 4})}).launches, 0);
  const std::string composed = optimised(R"(graph main(%y: f32[2, 3, 4]) -> (f32[4, 2, 3]) {
  %c = transpose(%y) {perm = [0, 2, 1]} : f32[2, 4, 3]
  %d = transpose(%c) {perm = [1, 0, 2]} : f32[4, 2, 3]
  return %d
})");
  EXPECT_EQ(count(composed, "transpose("), 1) << composed;
  EXPECT_EQ(count(composed, "perm = [2, 0, 1]"), 1) << composed;
}

TEST(GeCase, N29_CastsGoOnlyWhereNoValueIsLost) {
  const std::string wide = optimised(R"(graph main(%x: f16[4, 8]) -> (f16[8, 4]) {
  %a = cast(%x) {dtype = f32} : f32[4, 8]
  %b = transpose(%a) {perm = [1, 0]} : f32[8, 4]
  %c = cast(%b) {dtype = f16} : f16[8, 4]
  return %c
})");
  EXPECT_EQ(count(wide, "cast("), 0) << wide;
  const std::string narrow_text = R"(graph main(%x: f32[64]) -> (f32[64]) {
  %a = cast(%x) {dtype = f16} : f16[64]
  %b = cast(%a) {dtype = f32} : f32[64]
  return %b
})";
  EXPECT_EQ(count(optimised(narrow_text), "cast("), 2);
  check(narrow_text, {f32({64})}, 0);
}

TEST(GeCase, N29_LargeConstantsAreClippedOnlyOnRequest) {
  const std::string text = R"(graph main(%x: f16[1]) -> (f16[1]) {
  %c = constant() {value = f32[1](1000000.0)} : f32[1]
  %h = cast(%c) {dtype = f16} : f16[1]
  %y = add(%x, %h) : f16[1]
  return %y
})";
  EXPECT_EQ(count(optimised(text), "f16[1](inf)"), 1) << optimised(text);
  passes::PipelineOptions clip;
  clip.enabled = {"clip-constants"};
  auto graph = parse_graph(text);
  const passes::PipelineReport report = passes::run_pipeline(*graph, clip);
  EXPECT_EQ(count(print(*graph), "f16[1](65504.0)"), 1) << print(*graph);
  ASSERT_EQ(report.remarks.size(), 1u);
  EXPECT_EQ(count(report.remarks[0], "largest number"), 1) << report.remarks[0];
}

TEST(GeCase, N30_ReshapesAreAliases) {
  const std::string text = R"(graph main(%x: f32[4, 6]) -> (f32[4, 6], f32[3, 8]) {
  %a = reshape(%x) {shape = [4, 6]} : f32[4, 6]
  %b = reshape(%x) {shape = [24]} : f32[24]
  %c = reshape(%b) {shape = [2, 12]} : f32[2, 12]
  %d = reshape(%c) {shape = [3, 8]} : f32[3, 8]
  return %a, %d
})";
  EXPECT_EQ(count(optimised(text), "reshape("), 1) << optimised(text);
  EXPECT_EQ(check(text, {f32({4, 6})}).launches, 0);
}

TEST(GeCase, N31_MultiplicationByOnesIsABroadcastAndDivisionByTwoStays) {
  const std::string result = optimised(R"(graph main(%x: f32[1, 8]) -> (f32[4, 8], f32[1, 8]) {
  %ones = constant() {value = f32[4, 1](1.0, 1.0, 1.0, 1.0)} : f32[4, 1]
  %two = full() {dtype = f32, value = 2.0, shape = []} : f32[]
  %a = mul(%x, %ones) : f32[4, 8]
  %b = div(%x, %two) : f32[1, 8]
  return %a, %b
})");
  EXPECT_EQ(count(result, "mul("), 0) << result;
  EXPECT_EQ(count(result, "expand(%x)"), 1) << result;
  EXPECT_EQ(count(result, "div("), 1) << result;
}

TEST(GeCase, N41_TheLevelDecidesAndKeepsTheUsersOrder) {
  const std::string text = R"(graph main(%x: f32[4], %y: f32[4]) -> (f32[4]) {
  %b = exp(%y) : f32[4]
  %a = exp(%y) : f32[4]
  %unused = neg(%x) : f32[4]
  %two = constant() {value = f32[](2.0)} : f32[]
  %four = mul(%two, %two) : f32[]
  %yes = constant() {value = bool[](true)} : bool[]
  %c = if(%yes, %a) regions(
    graph then(%p: f32[4]) -> (f32[4]) {
      return %p
    },
    graph else(%p: f32[4]) -> (f32[4]) {
      %0 = neg(%p) : f32[4]
      return %0
    }) : f32[4]
  %d = mul(%c, %four) : f32[4]
  %e = add(%d, %b) : f32[4]
  return %e
})";
  passes::PipelineOptions o1;
  o1.level = 1;
  const std::string result = optimised(text, o1);
  EXPECT_EQ(count(result, "exp("), 2) << result;
  EXPECT_EQ(count(result, "neg("), 1) << result;
  EXPECT_EQ(count(result, "if("), 0) << result;
  EXPECT_EQ(count(result, "mul("), 1) << result;
  EXPECT_LT(result.find("%b = exp"), result.find("%a = exp")) << result;
  const std::string o2 = optimised(text);
  EXPECT_EQ(count(o2, "exp("), 1) << o2;
  EXPECT_EQ(count(o2, "neg("), 0) << o2;
}

class SwitchFile {
 public:
  explicit SwitchFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("gex_switches_" + std::to_string(::getpid()) + ".json")) {
    std::ofstream(path_) << text;
  }
  ~SwitchFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::vector<std::string> names(const passes::PipelineReport& report) {
  std::vector<std::string> names;
  for (const passes::PassRecord& pass : passes::totals(report)) names.push_back(pass.name);
  return names;
}

TEST(GeCase, N41_ASwitchFileLeavesOnlyWhatItNames) {
  const SwitchFile file(
      R"({"Switch": {"GraphFusion": {"ALL": "off", "cse": "on"}, "UBFusion": {}}})");
  passes::PipelineOptions options;
  options.switch_file = file.path();
  auto graph = parse_graph(kConstants);
  // Expansion is not an optimisation: nothing could run without it.
  EXPECT_EQ(names(passes::run_pipeline(*graph, options)),
            (std::vector<std::string>{"cse", "expand"}));
  options.disabled = {"cse"};
  EXPECT_EQ(names(passes::run_pipeline(*graph, options)), (std::vector<std::string>{"expand"}));
}

TEST(GeCase, N41_TheEnvironmentBeatsTheFile) {
  const SwitchFile file(R"({"Switch": {"GraphFusion": {"ALL": "off", "cse": "on", "dce": "on"}}})");
  passes::PipelineOptions options;
  options.switch_file = file.path();
  ::setenv("GEX_PASSES", "cse:off", 1);
  auto graph = parse_graph(kConstants);
  const auto ran = names(passes::run_pipeline(*graph, options));
  ::setenv("GEX_PASSES", "css:off", 1);
  std::string message;
  try {
    passes::run_pipeline(*graph, options);
  } catch (const UserError& error) {
    message = error.what();
  }
  ::unsetenv("GEX_PASSES");
  EXPECT_EQ(ran, (std::vector<std::string>{"dce", "expand"}));
  EXPECT_NE(message.find("did you mean 'cse'?"), std::string::npos) << message;
}

TEST(GeCase, N41_ABrokenSwitchFileSaysWhere) {
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"{\"cse\":\n \"maybe\"}", "a switch must be on or off"},
           {"{\"cse\" \"on\"}", "expected ':'"},
           {"{\"cse\": \"on\"} x", "after the last"},
           {"", "expected '{'"}}) {
    const SwitchFile file(text);
    passes::PipelineOptions options;
    options.switch_file = file.path();
    auto graph = parse_graph(kConstants);
    std::string message;
    try {
      passes::run_pipeline(*graph, options);
    } catch (const UserError& error) {
      message = error.what();
    }
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_NE(message.find("gex_switches_"), std::string::npos) << message;
  }
}

TEST(GeCase, N42_MatmulsOfOneValueAreMerged) {
  std::mt19937 random(42);
  auto matrix = [&](const char* name) {
    std::string text = str("  %", name, " = constant() {value = f32[8, 16](");
    for (int k = 0; k < 128; ++k)
      text += str(k ? ", " : "", static_cast<int>(random() % 9) - 4, ".5");
    return text + ")} : f32[8, 16]\n";
  };
  const std::string text = str("graph main(%x: f32[4, 8]) -> (f32[4, 16]) {\n", matrix("w"),
                               matrix("v"), R"(  %a = matmul(%x, %w) : f32[4, 16]
  %b = matmul(%x, %v) : f32[4, 16]
  %c = mul(%a, %b) : f32[4, 16]
  return %c
})");
  CompileOptions options;
  options.level = 3;
  const std::vector<HostTensor> inputs = {f32({4, 8})};
  Result r = check(text, inputs, 1e-5, options);
  EXPECT_EQ(r.outputs[0], check(text, inputs, 1e-5).outputs[0]);  // to the bit
  const std::string& graph = r.compiled.report.graph_text;
  EXPECT_EQ(count(graph, "matmul("), 1) << graph;
  EXPECT_EQ(count(graph, "f32[4, 32]"), 1) << graph;
  EXPECT_EQ(count(graph, "slice("), 2) << graph;
}

TEST(GeCase, N42_FrozenWeightsMergeToo) {
  const std::string text =
      R"(graph main(%x: f32[4, 8], %w: f32[16, 8], %v: f32[16, 8]) -> (f32[4, 16]) {
  %wt = transpose(%w) {perm = [1, 0]} : f32[8, 16]
  %a = matmul(%x, %wt) : f32[4, 16]
  %vt = transpose(%v) {perm = [1, 0]} : f32[8, 16]
  %b = matmul(%x, %vt) : f32[4, 16]
  %c = mul(%a, %b) : f32[4, 16]
  return %c
})";
  HostTensor x = f32({4, 8}), w = f32({16, 8}), v = f32({16, 8});
  const std::vector<HostTensor> want =
      interp::interpret(*parse_graph(text), std::vector<HostTensor>{x, w, v});
  CompileOptions options;
  options.level = 3;
  auto memory = [](const HostTensor& tensor) {
    return std::shared_ptr<const void>(std::shared_ptr<const void>(), tensor.data());
  };
  options.frozen = {{1, memory(w), true}, {2, memory(v), true}};
  const Compiled compiled = compile(parse_graph(text), options);
  EXPECT_EQ(count(compiled.report.graph_text, "matmul("), 1) << compiled.report.graph_text;
  runtime::SessionOptions session_options;
  session_options.frozen = compiled.frozen;
  runtime::Session session(compiled.executable, session_options, compiled.specialiser);
  std::vector<HostTensor> inputs = {x};
  EXPECT_LE(largest_error(execute(session, inputs)[0], want[0]), 1e-6);
}

TEST(GeCase, N43_ABatchOfMatmulsWithOneMatrixIsOneMatmul) {
  CompileOptions options;
  options.level = 3;
  Result r = check(R"(graph main(%x: f32[4, 16, 8], %w: f32[8, 32]) -> (f32[4, 16, 32]) {
  %y = matmul(%x, %w) : f32[4, 16, 32]
  return %y
})",
                   {f32({4, 16, 8}), f32({8, 32})}, 1e-6, options);
  const std::string& graph = r.compiled.report.graph_text;
  EXPECT_EQ(count(graph, "reshape("), 2) << graph;
  EXPECT_EQ(count(graph, ": f32[64, 32]"), 1) << graph;
}

}  // namespace
}  // namespace gex::test
