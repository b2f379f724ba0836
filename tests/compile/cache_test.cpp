// What compile() caches between processes: a cached program gives the same results as a new one,
// and files are not trusted unless they are exactly what was written.

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "backend/cpu/generator.hpp"
#include "base/log.hpp"
#include "cache/program_cache.hpp"
#include "cache/store.hpp"
#include "cache_fixture.hpp"
#include "passes/engine/user_passes.hpp"

namespace gex::test {
namespace {

TEST_F(Cache, CachedProgramGivesTheSameBits) {
  const Compiled first = compiled();
  EXPECT_FALSE(was_kept(first));
  const Compiled second = compiled();
  EXPECT_TRUE(was_kept(second));
  EXPECT_EQ(program::print(*first.program), program::print(*second.program));
  EXPECT_EQ(first.report.graph_text, second.report.graph_text);
  EXPECT_EQ(results_of(first), results_of(second));
}

TEST_F(Cache, TheNameOfAGraphIsNotPartOfTheKey) {
  compiled(graph_text("graph_1"));
  const Compiled second = compiled(graph_text("graph_7"));
  EXPECT_TRUE(was_kept(second));
  EXPECT_EQ(second.program->name, "graph_7");
}

// The definition of such an op is known only to this process.
TEST_F(Cache, GraphsWithUserOpsAreNotCached) {
  OpDef def;
  def.name = "cache_test.twice";
  def.inputs = {{"x"}};
  def.traits = static_cast<std::uint32_t>(Trait::pure);
  def.infer = [](const InferContext& c) { return std::vector<Type>{c.in(0)}; };
  def.expand = [](Graph& g, const Node& n) {
    return std::vector<Value*>{g.add("add", {n.input(0), n.input(0)})->output()};
  };
  register_op(std::move(def));
  const std::string text = R"(graph main(%x: f32[4]) -> (f32[4]) {
  %y = cache_test.twice(%x) : f32[4]
  return %y
})";
  for (int run = 0; run < 2; ++run) EXPECT_FALSE(was_kept(compiled(text)));
  EXPECT_TRUE(of_kind("program").empty());
}

TEST_F(Cache, DamagedTruncatedAndForeignEntriesAreRecomputed) {
  const std::vector<HostTensor> want = results_of(compiled());
  const std::vector<std::function<void(const std::string&)>> harms = {
      [](const std::string& path) { fs::resize_file(path, fs::file_size(path) / 2); },
      [](const std::string& path) { fs::resize_file(path, 0); },
      [](const std::string& path) { std::ofstream(path) << "something else entirely"; },
      [](const std::string& path) {
        std::fstream file(path, std::ios::in | std::ios::out);
        file.seekp(static_cast<std::streamoff>(fs::file_size(path) / 2));
        file.put('\x7f');
      },
      [](const std::string& path) { ::chmod(path.c_str(), 0622); },
      [](const std::string& path) {
        fs::rename(path, path + "_");
        fs::create_symlink(path + "_", path);
      },
  };
  for (const auto& harm : harms) {
    for (const StoreEntry& entry : store_->entries()) harm(entry.path);
    const Compiled again = compiled();
    EXPECT_FALSE(was_kept(again));
    EXPECT_EQ(results_of(again), want);
    EXPECT_TRUE(was_kept(compiled()));
    for (const fs::path& path : fs::recursive_directory_iterator(store_->folder()))
      if (path.string().ends_with("_")) fs::remove(path);
  }
}

TEST_F(Cache, EntriesOfAnotherBuildAreNotUsed) {
  program::Artefact artefact;
  const Digest key = digest_of("something");
  store_->save("object", key, artefact);
  ASSERT_TRUE(store_->load("object", key).has_value());
  const std::string path = of_kind("object")[0].path;
  artefact.kind = "object";
  artefact.key = key.hex();
  artefact.build = "another";
  std::ofstream(path) << program::write(artefact);
  EXPECT_NE(store_->problem_of(of_kind("object")[0]), "");
  EXPECT_FALSE(store_->load("object", key).has_value());
  EXPECT_TRUE(of_kind("object").empty());
}

TEST_F(Cache, EntriesAreReadableOnlyByTheirOwner) {
  compiled();
  ASSERT_FALSE(store_->entries().empty());
  for (const StoreEntry& entry : store_->entries()) {
    struct stat info{};
    ASSERT_EQ(::stat(entry.path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U) << entry.path;
    EXPECT_EQ(store_->problem_of(entry), "");
  }
}

TEST_F(Cache, TheLeastRecentlyUsedAreEvictedFirst) {
  Store small(folder_ + "/small", 4000);
  const auto key = [](int i) { return digest_of(std::to_string(i)); };
  const auto put = [&](int i) {
    program::Artefact artefact;
    artefact.sections.push_back({"bytes", std::string(700, 'x')});
    small.save("object", key(i), artefact);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  for (int i = 0; i < 4; ++i) put(i);
  ASSERT_TRUE(small.load("object", key(0)).has_value());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  put(4);
  put(5);
  std::int64_t total = 0;
  for (const StoreEntry& entry : small.entries()) total += entry.bytes;
  EXPECT_LE(total, 4000);
  EXPECT_TRUE(small.load("object", key(0)).has_value());
  EXPECT_FALSE(small.load("object", key(1)).has_value());
  EXPECT_TRUE(small.load("object", key(5)).has_value());
}

TEST_F(Cache, ManyProcessesShareOneFolder) {
  constexpr int kProcesses = 4, kRounds = 40;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      int wrong = 0;
      Store mine(folder_ + "/shared", 20000);
      for (int round = 0; round < kRounds; ++round) {
        const int which = (round * 7 + process) % 10;
        const Digest key = digest_of(std::to_string(which));
        const std::string content(500 + 37 * which, static_cast<char>('a' + which));
        if (const auto found = mine.load("object", key)) {
          wrong += found->section("bytes") != content;
        } else {
          program::Artefact artefact;
          artefact.sections.push_back({"bytes", content});
          mine.save("object", key, artefact);
        }
        if (round % 13 == 12) mine.trim();
      }
      ::_exit(wrong == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  Store after(folder_ + "/shared");
  EXPECT_FALSE(after.entries().empty());
  for (const StoreEntry& entry : after.entries()) EXPECT_EQ(after.problem_of(entry), "");
}

TEST_F(Cache, AFolderThatCantBeWrittenIsNotAnError) {
  std::ofstream(folder_ + "/file") << "x";
  store_ = std::make_shared<Store>(folder_ + "/file/store");
  EXPECT_FALSE(was_kept(compiled()));
  EXPECT_FALSE(was_kept(compiled()));
}

TEST_F(Cache, ClearRemovesEverything) {
  compiled();
  const auto before = static_cast<std::int64_t>(store_->entries().size());
  EXPECT_GT(before, 0);
  EXPECT_EQ(store_->clear(), before);
  EXPECT_TRUE(store_->entries().empty());
  EXPECT_FALSE(was_kept(compiled()));
}

// The checksums are right but the contents are not: parsing has to detect it.
TEST_F(Cache, ACorruptCachedProgramIsAnErrorNeverACrash) {
  compiled();
  std::ifstream file(of_kind("program")[0].path);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const program::Artefact good = program::read_artefact(bytes);
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 600; ++round) {
    program::Artefact bad = good;
    std::string& section = bad.sections[random() % bad.sections.size()].bytes;
    if (section.empty()) continue;
    const std::size_t at = random() % section.size();
    if (round % 4 == 0) {
      section.resize(at);
    } else {
      section[at] = static_cast<char>(random());
    }
    try {
      compile_detail::load_program(bad);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace gex::test
