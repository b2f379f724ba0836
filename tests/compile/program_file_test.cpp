// Programs saved to user files: written atomically, and only over regular files.

#include "cache/program_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "cache_fixture.hpp"
#include "ops/core/build.hpp"
#include "program/artefact.hpp"

namespace gex::test {
namespace {

template <class Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

class ProgramFile : public Cache {
 protected:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_))
      out.push_back(entry.path().filename());
    std::ranges::sort(out);
    return out;
  }
};

TEST_F(ProgramFile, SavedAndLoadedGivesTheSameBits) {
  const Compiled program = compiled();
  save_program_file(program, path("p.bin"));
  EXPECT_EQ(results_of(load_program_file(path("p.bin"))), results_of(program));
  struct stat info{};
  ASSERT_EQ(::stat(path("p.bin").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 022, 0U);
}

TEST_F(ProgramFile, WeightsAreSavedOnce) {
  auto graph = std::make_unique<Graph>("weights");
  Value* x = graph->add_input(Type::tensor(DType::f32, {1, 1024}), "x");
  std::mt19937 random(5);
  const HostTensor weights = random_tensor(DType::f32, {1024, 1024}, random);
  graph->set_outputs({ops::matmul(*graph, x, ops::constant(*graph, weights))});
  const Compiled program = compile(std::move(graph));
  save_program_file(program, path("w.bin"));
  EXPECT_LT(fs::file_size(path("w.bin")), weights.bytes() + weights.bytes() / 20);
  EXPECT_LT(program.report.graph_text.size(), 10'000U);
  const std::vector<HostTensor> given = {random_tensor(DType::f32, {1, 1024}, random)};
  const Compiled loaded = load_program_file(path("w.bin"));
  EXPECT_EQ(results_of(loaded, given), results_of(program, given));
  EXPECT_EQ(loaded.frozen.size(), 1U);  // read in place, in the mapped file
  for (const program::BufferDesc& buffer : loaded.program->buffers)
    EXPECT_TRUE(buffer.data == nullptr || buffer.data->bytes() < 65'536) << buffer.name;

  save_program_file(loaded, path("again.bin"));
  EXPECT_EQ(fs::file_size(path("again.bin")), fs::file_size(path("w.bin")));
  EXPECT_EQ(results_of(load_program_file(path("again.bin")), given), results_of(program, given));
}

// A file with valid checksums whose memory of a constant is too small.
TEST_F(ProgramFile, AConstantLargerThanItsMemoryIsRefused) {
  std::mt19937 random(5);
  auto weights = std::make_unique<Graph>("weights");
  Value* y = weights->add_input(Type::tensor(DType::f32, {40'000}), "y");
  weights->set_outputs({ops::add(
      *weights, y, ops::constant(*weights, random_tensor(DType::f32, {40'000}, random)))});
  save_program_file(compile(std::move(weights)), path("w.bin"));
  std::ifstream in(path("w.bin"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  program::Artefact artefact = program::read_artefact(whole);
  const auto memory =
      std::ranges::find(artefact.sections, "memory 0", &program::Artefact::Section::name);
  ASSERT_NE(memory, artefact.sections.end());
  memory->bytes.resize(memory->bytes.size() - 4);
  std::ofstream(path("small.bin"), std::ios::binary) << program::write(artefact);
  fs::permissions(path("small.bin"), fs::perms::owner_read | fs::perms::owner_write);
  const std::string message = message_of([&] { load_program_file(path("small.bin")); });
  EXPECT_NE(message.find("is larger than its memory"), std::string::npos) << message;
}

// The key of a cached program depends on all of a large constant.
TEST_F(ProgramFile, LargeConstantsThatDifferAreDifferentPrograms) {
  const auto keep = [&](float last) {
    auto graph = std::make_unique<Graph>("weights");
    Value* x = graph->add_input(Type::tensor(DType::f32, {40'000}), "x");
    HostTensor weights(DType::f32, {40'000});
    weights.set(20'000, last);
    graph->set_outputs({ops::add(*graph, x, ops::constant(*graph, weights))});
    CompileOptions options;
    options.cache = store_;
    return compile(std::move(graph), options);
  };
  EXPECT_FALSE(was_kept(keep(1)));
  EXPECT_FALSE(was_kept(keep(2)));
  EXPECT_TRUE(was_kept(keep(1)));
}

// Checksums are right, but the declared memory is not.
TEST_F(ProgramFile, ProgramsThatAccessMemoryOutOfBoundsAreRejected) {
  const Compiled program = compiled(R"(symbols s0 in [1, 512]
graph main(%x: f32[s0, 48]) -> (f32[s0, 48], f32[s0]) {
  %f = softmax(%x) {axis = 1} : f32[s0, 48]
  %g = reduce_max(%x) {axes = [1]} : f32[s0]
  return %f, %g
})");
  save_program_file(program, path("p.bin"));
  std::ifstream file(path("p.bin"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const program::Artefact good = program::read_artefact(bytes);
  const auto with = [&](const char* section, const std::string& from, const std::string& to) {
    program::Artefact bad = good;
    bool changed = false;
    for (program::Artefact::Section& s : bad.sections) {
      if (s.name != section) continue;
      const std::size_t at = s.bytes.find(from);
      if (at == std::string::npos) continue;
      s.bytes.replace(at, from.size(), to);
      changed = true;
    }
    EXPECT_TRUE(changed) << from;
    std::ofstream(path("bad.bin"), std::ios::binary) << program::write(bad);
    ::chmod(path("bad.bin").c_str(), 0600);
    return message_of([&] { load_program_file(path("bad.bin")); });
  };
  const std::string smaller = with("program", "bytes [s0*192]", "bytes [s0]");
  EXPECT_NE(smaller.find("not safe to run"), std::string::npos) << smaller;
}

TEST_F(ProgramFile, ManyProcessesSaveOnePath) {
  constexpr int kProcesses = 8, kRounds = 20;
  const Compiled program = compiled();
  save_program_file(program, path("p.bin"));
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      int wrong = 0;
      for (int round = 0; round < kRounds; ++round) {
        try {
          save_program_file(program, path("p.bin"));
          std::ifstream file(path("p.bin"), std::ios::binary);
          program::read_artefact(std::string((std::istreambuf_iterator<char>(file)), {}));
        } catch (const std::exception&) {
          ++wrong;
        }
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
  EXPECT_EQ(names(), (std::vector<std::string>{"p.bin", "store"}));
}

TEST_F(ProgramFile, LinksAreNeitherFollowedNorReplaced) {
  const Compiled program = compiled();
  std::ofstream(path("victim")) << "mine";
  fs::create_symlink(path("victim"), path("p.bin.part"));
  save_program_file(program, path("p.bin"));
  fs::create_symlink(path("victim"), path("q.bin"));
  EXPECT_NE(message_of([&] { save_program_file(program, path("q.bin")); }).find("symbolic link"),
            std::string::npos);
  EXPECT_TRUE(fs::is_symlink(path("q.bin")));
  EXPECT_EQ(fs::file_size(path("victim")), 4U);
}

TEST_F(ProgramFile, OnlyRegularFilesAreReplaced) {
  const Compiled program = compiled();
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_directory(path("folder"));
  for (const char* name : {"pipe", "folder"})
    EXPECT_NE(message_of([&] { save_program_file(program, path(name)); }).find("regular file"),
              std::string::npos);
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_NE(message_of([&] { save_program_file(program, "/dev/null"); }).find("a device"),
            std::string::npos);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(ProgramFile, MessagesSayWhyItCantBeWritten) {
  const Compiled program = compiled();
  const std::string absent = message_of([&] { save_program_file(program, path("no/p.bin")); });
  EXPECT_NE(absent.find("No such file or directory"), std::string::npos) << absent;
  EXPECT_NE(absent.find(path("no/p.bin")), std::string::npos) << absent;
  // A limit on the file size simulates a full disk.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1000, before.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string full = message_of([&] { save_program_file(program, path("p.bin")); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_NE(full.find("File too large"), std::string::npos) << full;
  EXPECT_EQ(names(), std::vector<std::string>{"store"});
}

TEST_F(ProgramFile, FilesThatAreNotRegularAreNotLoaded) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_NE(message_of([&] { load_program_file(path("pipe")); }).find("a pipe"), std::string::npos);
  EXPECT_NE(message_of([&] { load_program_file("/dev/zero"); }).find("a device"),
            std::string::npos);
  EXPECT_NE(message_of([&] { load_program_file(folder_); }).find("a folder"), std::string::npos);
}

TEST_F(ProgramFile, FilesThatOthersMayWriteAreNotLoaded) {
  save_program_file(compiled(), path("p.bin"));
  ASSERT_EQ(::chmod(path("p.bin").c_str(), 0666), 0);
  const std::string message = message_of([&] { load_program_file(path("p.bin")); });
  EXPECT_NE(message.find("other users may write to it"), std::string::npos) << message;
}

}  // namespace
}  // namespace gex::test
