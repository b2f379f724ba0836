// Any text gives either a value that prints and parses back, or a clear UserError. Never a crash, a
// leak (SAN=address) or an internal error. GEX_FUZZ_SEEDS=n tries more texts.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "check/generate.hpp"
#include "compile/compile.hpp"
#include "loop/kernel.hpp"
#include "mutate.hpp"
#include "npy.hpp"
#include "program/program.hpp"

namespace gex::test {
namespace {

std::uint64_t texts_to_try() {
  const char* wanted = std::getenv("GEX_FUZZ_SEEDS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 4000;
}

std::string file_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> files_in(const std::string& folder, const std::string& ending) {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(GEX_TEST_DATA "/../" + folder))
    if (entry.path().extension() == ending) texts.push_back(file_text(entry.path()));
  EXPECT_FALSE(texts.empty()) << folder;
  return texts;
}

std::vector<std::string> random_graphs(int count) {
  std::vector<std::string> texts;
  for (int seed = 0; seed < count; ++seed)
    texts.push_back(print(*check::random_graph(static_cast<std::uint64_t>(seed), {6})));
  return texts;
}

// `read` throws UserError or gives back what it read, printed. How many texts were accepted.
template <class Read>
int try_texts(std::vector<std::string> corpus, Read read) {
  for (const std::string& text : corpus) EXPECT_NO_THROW(read(text)) << text;
  Mutator mutator(std::move(corpus));
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < texts_to_try(); ++seed) {
    const std::string text = mutator.text(seed);
    try {
      const std::string printed = read(text);
      ++accepted;
      const std::string again = read(printed);
      if (again != printed) {
        ADD_FAILURE() << "seed " << seed << " reads back as another:\n" << printed << "\n" << again;
        return accepted;
      }
    } catch (const UserError& error) {
      EXPECT_STRNE(error.what(), "");
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what() << "\n" << text.substr(0, 4000);
      return accepted;
    }
  }
  return accepted;
}

TEST(TextFuzz, graphs) {
  std::vector<std::string> corpus = random_graphs(40);
  const int accepted = try_texts(corpus, [](const std::string& text) {
    const auto graph = parse_graph(text);
    verify(*graph);
    return print(*graph);
  });
  EXPECT_GT(accepted, 0);
}

TEST(TextFuzz, kernels) {
  const int accepted = try_texts(files_in("loop/kernels", ".loop"), [](const std::string& text) {
    const loop::Kernel kernel = loop::parse_kernel(text);
    loop::verify(kernel);
    return loop::print(kernel);
  });
  EXPECT_GT(accepted, 0);
}

TEST(TextFuzz, programs) {
  std::vector<std::string> corpus;
  for (const std::string& text : random_graphs(12)) {
    CompileOptions options;
    options.generate_code = false;
    corpus.push_back(program::print(*compile(parse_graph(text), options).program));
  }
  const int accepted = try_texts(corpus, [](const std::string& text) {
    const program::Program program = program::parse_program(text);
    program::verify(program);
    return program::print(program);
  });
  EXPECT_GT(accepted, 0);
}

// What the verifier accepts can be compiled: a graph from outside never fails a GEX_CHECK.
TEST(TextFuzz, graphs_that_verify_compile_or_are_refused) {
  Mutator mutator(random_graphs(40));
  for (std::uint64_t seed = 0; seed < texts_to_try() / 4; ++seed) {
    const std::string text = mutator.text(seed);
    try {
      auto graph = parse_graph(text);
      CompileOptions options;
      options.generate_code = false;
      options.level = static_cast<int>(seed % 4);
      compile(std::move(graph), options);
    } catch (const UserError&) {
      continue;
    } catch (const std::exception& error) {
      FAIL() << "seed " << seed << ": " << error.what() << "\n" << text.substr(0, 4000);
    }
  }
}

TEST(TextFuzz, npy_files) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("gex_fuzz_" + std::to_string(getpid()) + ".npy");
  std::vector<std::string> corpus;
  for (DType dtype : {DType::f32, DType::i64, DType::boolean}) {
    tool::write_npy(path.string(), HostTensor(dtype, {2, 3}));
    corpus.push_back(file_text(path));
  }
  Mutator mutator(corpus);
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < texts_to_try() / 4; ++seed) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << mutator.text(seed);
    try {
      tool::read_npy(path.string());
      ++accepted;
    } catch (const UserError&) {
      continue;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what();
      break;
    }
  }
  EXPECT_GT(accepted, 0);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace gex::test
