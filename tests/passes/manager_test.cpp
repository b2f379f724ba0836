// The manager's outputs: graph dumps, counts, and user passes that are added and removed.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <unistd.h>

#include "passes/engine/user_passes.hpp"
#include "passes/pipeline.hpp"

namespace gex::test {
namespace {

namespace fs = std::filesystem;

const char* kGraph = R"(graph main(%x: f32[4]) -> (f32[4]) {
  %two = constant() {value = f32[](2.0)} : f32[]
  %three = constant() {value = f32[](3.0)} : f32[]
  %six = mul(%two, %three) : f32[]
  %y = add(%x, %six) : f32[4]
  return %y
})";

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("gex_dump_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }
  // Names of files, at any depth.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(path_))
      if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(path_ / name).rdbuf();
    return text.str();
  }

 private:
  fs::path path_;
};

TEST(Manager, writes_the_graph_after_each_pass_that_changed_it) {
  const Folder folder;
  passes::PipelineOptions options;
  options.only = {"fold", "cse"};
  options.dump_dir = folder.path();
  auto graph = parse_graph(kGraph);
  passes::run_pipeline(*graph, options);
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"000_after_fold.gex", "fusion_result.json"}));
  EXPECT_EQ(folder.read("000_after_fold.gex"), print(*graph));
  EXPECT_EQ(folder.read("fusion_result.json"),
            "{\n  \"main\": {\"graph_fusion\": {\n"
            "    \"fold\": {\"match_times\": \"1\", \"effect_times\": \"1\"},\n"
            "    \"cse\": {\"match_times\": \"0\", \"effect_times\": \"0\"}\n  }}\n}\n");
}

TEST(Manager, writes_the_graph_before_and_after_the_passes_asked_for) {
  const Folder folder;
  passes::PipelineOptions options;
  options.only = {"fold", "cse"};
  options.dump_dir = folder.path();
  options.dump_passes = {"cse"};
  auto graph = parse_graph(kGraph);
  passes::run_pipeline(*graph, options);
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"000_before_cse.gex", "001_after_cse.gex",
                                                      "fusion_result.json"}));
  options.dump_passes = {"csee"};
  EXPECT_THROW(passes::run_pipeline(*graph, options), UserError);
}

TEST(Manager, the_environment_can_request_dumps) {
  const Folder folder;
  ::setenv("GEX_DUMP_PASSES", (folder.path() + ":fold").c_str(), 1);
  auto graph = parse_graph(kGraph);
  passes::run_pipeline(*graph, {});
  ::unsetenv("GEX_DUMP_PASSES");
  const std::vector<std::string> files = folder.files();
  EXPECT_NE(std::find(files.begin(), files.end(), "000_before_fold.gex"), files.end());
  EXPECT_EQ(std::find(files.begin(), files.end(), "000_after_cse.gex"), files.end());
}

passes::Pass counting(const std::string& name, std::atomic<int>& runs) {
  passes::Pass pass;
  pass.name = name;
  pass.level = 0;
  pass.run = [&runs](Graph&, passes::PassContext&) {
    ++runs;
    return false;
  };
  return pass;
}

TEST(Manager, user_passes_may_be_added_and_removed_while_graphs_are_compiled) {
  std::atomic<int> runs{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> compilers;
  for (int k = 0; k < 2; ++k)
    compilers.emplace_back([&] {
      while (!done) passes::run_pipeline(*parse_graph(kGraph), {});
    });
  const std::uint64_t before = passes::user_passes_version();
  for (int k = 0; k < 200; ++k) {
    passes::register_user_pass(counting("come-and-go", runs));
    passes::unregister_user_pass("come-and-go");
  }
  passes::register_user_pass(counting("stays", runs));
  const int until_now = runs;
  passes::run_pipeline(*parse_graph(kGraph), {});
  EXPECT_GT(runs, until_now);
  done = true;
  for (std::thread& compiler : compilers) compiler.join();
  passes::unregister_user_pass("stays");
  EXPECT_EQ(passes::user_passes_version(), before + 402);
}

TEST(Manager, passes_that_undo_each_other_are_named) {
  passes::PipelineOptions options;
  options.fixpoint_limit = 1;
  std::string message;
  try {
    passes::run_pipeline(*parse_graph(kGraph), options);
  } catch (const UserError& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("fold"), std::string::npos) << message;
}

}  // namespace
}  // namespace gex::test
