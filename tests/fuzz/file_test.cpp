// Any program file or ONNX file is refused with a UserError, or stays inside its own memory: never
// a crash, an internal error or, in a build with SAN=address, an access out of bounds. Checksums
// are made right again, as a stranger would. For a long run over models of all operators, with the
// address sanitizer: scripts/fuzz.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
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
#include "runtime/session/run_control.hpp"
#include "runtime/session/session.hpp"
#include "tests/onnx/model_writer.hpp"

namespace gex::test {
namespace {

std::uint64_t files_to_try(std::uint64_t usual) {
  const char* wanted = std::getenv("GEX_FUZZ_SEEDS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : usual;
}

std::uint64_t first_seed() {
  const char* wanted = std::getenv("GEX_FUZZ_FIRST");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 0;
}

// GEX_FUZZ_KEEP: a path; the file that is being tried, for who finds the process dead.
void keep(const std::string& bytes) {
  static const char* const path = std::getenv("GEX_FUZZ_KEEP");
  if (path != nullptr) std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
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

// GEX_FUZZ_CORPUS: a folder with more models.
void add_corpus_of_the_user(std::vector<std::string>& corpus) {
  const char* folder = std::getenv("GEX_FUZZ_CORPUS");
  if (folder == nullptr) return;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    std::ostringstream bytes;
    bytes << std::ifstream(file, std::ios::binary).rdbuf();
    corpus.push_back(bytes.str());
  }
}

// Ones, two for each size that is open. Nothing if the inputs are not small tensors.
std::optional<std::vector<onnx::HostValue>> small_inputs(const onnx::Session& session) {
  constexpr std::int64_t kMost = 4096;
  std::vector<onnx::HostValue> values;
  for (const onnx::ValueInfo* info : session.inputs()) {
    if (info->type.kind != onnx::TypeProto::Kind::tensor || !info->type.shape) return std::nullopt;
    std::vector<std::int64_t> shape;
    std::int64_t count = 1;
    for (const auto& size : *info->type.shape) {
      shape.push_back(size.value.value_or(2));
      if (shape.back() < 0 || shape.back() > kMost || (count *= shape.back()) > kMost)
        return std::nullopt;
    }
    HostTensor tensor(onnx::memory_type_of(info->type.elem), shape);
    for (std::int64_t k = 0; k < count; ++k) tensor.set(k, 1);
    values.push_back(onnx::HostValue::tensor(info->type.elem, std::move(tensor)));
  }
  return values;
}

// Imports and compiles the model; runs it if that is quick.
void use_model(const std::string& bytes) {
  onnx::SessionSettings settings;
  settings.compile.generate_code = false;
  const auto model = onnx::parse_model(onnx::own_bytes(bytes));
  onnx::Session session(model, settings);
  const auto inputs = small_inputs(session);
  if (!inputs) {
    compile(onnx::import_graph(model), settings.compile);
    return;
  }
  runtime::RunControl control;
  control.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  const runtime::ControlScope scope(&control);
  session.run(*inputs);
}

TEST(FileFuzz, onnx_files) {
  std::vector<std::string> corpus = onnx_corpus();
  for (const std::string& bytes : corpus) EXPECT_NO_THROW(use_model(bytes));
  add_corpus_of_the_user(corpus);
  Tally tally;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + files_to_try(3000); ++seed) {
    FileMutator mutator(seed);
    const std::string& bytes = corpus[mutator.below(corpus.size())];
    const std::string changed = mutator.changed(bytes);
    keep(changed);
    tried(tally, seed, [&] { use_model(changed); });
  }
  EXPECT_GT(tally.refused, 500);
  EXPECT_GT(tally.accepted, 0);
}

}  // namespace
}  // namespace gex::test
