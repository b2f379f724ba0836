// Any program file or ONNX file is refused with a UserError, or stays inside its own memory: never
// a crash, an internal error or, in a build with SAN=address, an access out of bounds. Checksums
// are made right again, as a stranger would. For a long run:
//   make build SAN=address && GEX_FUZZ_SEEDS=100000 build-address/tests/test_fuzz
//   --gtest_filter='FileFuzz.*'

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "cache/program_file.hpp"
#include "compile/compile.hpp"
#include "compile/execute.hpp"
#include "file_mutator.hpp"
#include "frontend/onnx/session.hpp"
#include "mutate.hpp"
#include "program/artefact.hpp"
#include "runtime/session/session.hpp"
#include "tests/onnx/model_writer.hpp"

namespace gex::test {
namespace {

std::uint64_t files_to_try(std::uint64_t usual) {
  const char* wanted = std::getenv("GEX_FUZZ_SEEDS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : usual;
}

// How many files of which kind there were.
struct Tally {
  int refused = 0, accepted = 0;
};

// `use` throws UserError for a file that it refuses.
template <class Use>
void tried(Tally& tally, std::uint64_t seed, Use use) {
  try {
    use();
    ++tally.accepted;
  } catch (const UserError& error) {
    EXPECT_STRNE(error.what(), "") << seed;
    ++tally.refused;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "seed " << seed << ": " << error.what();
  }
}

// --- program files ------------------------------------------------------------------------------

constexpr const char* kGraph = R"(symbols s0 in [1, 16]
graph main(%x: f32[s0, 12], %w: f32[12, 8], %i: i64[s0]) -> (f32[s0, 8], f32[s0]) {
  %c = constant() {value = f32[8](0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)} : f32[8]
  %m = matmul(%x, %w) : f32[s0, 8]
  %a = add(%m, %c) : f32[s0, 8]
  %t = tanh(%a) : f32[s0, 8]
  %g = index(%t, %i) {axes = [0]} : f32[s0, 8]
  %s = softmax(%g) {axis = 1} : f32[s0, 8]
  %r = reduce_sum(%s) {axes = [1]} : f32[s0]
  return %s, %r
}
)";

class ProgramFiles {
 public:
  ProgramFiles()
      : path_((std::filesystem::temp_directory_path() /
               ("gex_fuzz_" + std::to_string(getpid()) + ".gexp"))
                  .string()) {
    CompileOptions options;
    options.generate_code = false;  // what would be compiled is the same text
    save_program_file(compile(parse_graph(kGraph), options), path_);
    std::ostringstream bytes;
    bytes << std::ifstream(path_, std::ios::binary).rdbuf();
    good_ = bytes.str();
  }
  ~ProgramFiles() { std::filesystem::remove(path_); }

  const std::string& good() const { return good_; }
  // The file with a changed section and right checksums.
  std::string with_changed_section(std::uint64_t seed) const {
    program::Artefact artefact = program::read_artefact(good_);
    FileMutator mutator(seed);
    program::Artefact::Section& section =
        artefact.sections[mutator.below(artefact.sections.size())];
    const std::string content(section.content());
    section.borrowed = {};
    section.bytes =
        mutator.below(2) == 0 ? mutator.changed(content) : Mutator({content}).text(seed);
    return program::write(artefact);
  }
  void load_and_run(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    CompileOptions options;
    options.generate_code = false;
    const Compiled compiled = load_program_file(path_, options);
    runtime::Session session(compiled.executable, {}, compiled.specialiser);
    std::vector<HostTensor> inputs = {HostTensor(DType::f32, {3, 12}),
                                      HostTensor(DType::f32, {12, 8}), HostTensor(DType::i64, {3})};
    execute(session, inputs);
  }

 private:
  std::string path_, good_;
};

TEST(FileFuzz, program_files) {
  const ProgramFiles files;
  EXPECT_NO_THROW(files.load_and_run(files.good()));
  Tally damaged, manipulated;
  for (std::uint64_t seed = 0; seed < files_to_try(600); ++seed) {
    tried(damaged, seed, [&] { files.load_and_run(FileMutator(seed).changed(files.good())); });
    tried(manipulated, seed, [&] { files.load_and_run(files.with_changed_section(seed)); });
  }
  EXPECT_GT(damaged.refused, 500);
  EXPECT_GT(manipulated.refused, 100);
  EXPECT_GT(manipulated.accepted, 0);  // names, for example, may change
}

// --- ONNX files ---------------------------------------------------------------------------------

using namespace testing_onnx;
constexpr int kFloat = 1, kInt64 = 7;

std::vector<std::string> onnx_corpus() {
  std::vector<std::string> corpus;
  GraphParts sizes;
  sizes.inputs = {tensor_info("x", kFloat, {"n", "3"})};
  sizes.outputs = {tensor_info("y", kFloat, {"", ""})};
  sizes.initialisers = {tensor("w", kFloat, {3}, raw<float>({1, 2, 3})),
                        tensor("one", kInt64, {1}, raw<std::int64_t>({1})),
                        tensor("rest", kInt64, {1}, raw<std::int64_t>({-1}))};
  sizes.nodes = {node("Add", {"x", "w"}, {"s"}), node("Shape", {"x"}, {"sizes"}),
                 node("Gather", {"sizes", "one"}, {"second"}),
                 node("Concat", {"second", "rest"}, {"target"}, {int_attribute("axis", 0)}),
                 node("Reshape", {"s", "target"}, {"y"})};
  corpus.push_back(model(sizes));
  GraphParts layers;
  layers.inputs = {tensor_info("x", kFloat, {"1", "2", "4", "4"})};
  layers.outputs = {tensor_info("y", kFloat, {"", ""})};
  layers.initialisers = {
      tensor("w", kFloat, {2, 2, 3, 3}, raw<float>(std::vector<float>(36, 0.5F))),
      tensor("axes", kInt64, {2}, raw<std::int64_t>({2, 3})),
      tensor("to", kInt64, {2}, raw<std::int64_t>({4, 2}))};
  layers.nodes = {node("Conv", {"x", "w"}, {"c"}),
                  node("Relu", {"c"}, {"r"}),
                  node("ReduceSum", {"r", "axes"}, {"s"}, {int_attribute("keepdims", 0)}),
                  node("Softmax", {"s"}, {"p"}, {int_attribute("axis", 1)}),
                  node("Expand", {"p", "to"}, {"e"}),
                  node("Transpose", {"e"}, {"y"})};
  corpus.push_back(model(layers));
  return corpus;
}

TEST(FileFuzz, onnx_files) {
  const std::vector<std::string> corpus = onnx_corpus();
  const auto use = [](const std::string& bytes) {
    CompileOptions options;
    options.generate_code = false;
    compile(onnx::import_graph(onnx::parse_model(onnx::own_bytes(bytes))), options);
  };
  for (const std::string& bytes : corpus) EXPECT_NO_THROW(use(bytes));
  Tally tally;
  for (std::uint64_t seed = 0; seed < files_to_try(3000); ++seed) {
    FileMutator mutator(seed);
    const std::string& bytes = corpus[mutator.below(corpus.size())];
    tried(tally, seed, [&] { use(mutator.changed(bytes)); });
  }
  EXPECT_GT(tally.refused, 500);
  EXPECT_GT(tally.accepted, 0);
}

}  // namespace
}  // namespace gex::test
