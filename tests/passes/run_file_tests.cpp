// Text in, CHECK lines out. Each tests/passes/*.gex file holds cases separated by lines of dashes:
//
//   // Tests that ...
//   // RUN: fold,dce
//   graph ... { ... }
//   // CHECK: constant
//   // CHECK-NOT: add
//   // COUNT 2: matmul
//
// CHECKs must appear in order; CHECK-NOT and COUNT look at the whole result. "not changed" is RUN
// with
// `// UNCHANGED`. Every case is also verified, and its "changed" checked against the hash.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "passes/pipeline.hpp"

namespace gex::test {
namespace {

struct Case {
  std::string file;
  std::string text;
};

std::vector<Case> load_cases() {
  std::vector<Case> cases;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(GEX_TEST_DATA)) {
    if (entry.path().extension() == ".gex") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    std::ifstream file(path);
    std::string line, text;
    while (std::getline(file, line)) {
      if (line.rfind("-----", 0) == 0) {
        cases.push_back({path.stem().string(), text});
        text.clear();
      } else {
        text += line + "\n";
      }
    }
    cases.push_back({path.stem().string(), text});
  }
  return cases;
}

std::string after(const std::string& line, const std::string& key) {
  std::size_t at = line.find(key);
  if (at == std::string::npos) return {};
  std::string rest = line.substr(at + key.size());
  rest.erase(0, rest.find_first_not_of(' '));
  return rest;
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

class PassFile : public ::testing::TestWithParam<Case> {};

TEST_P(PassFile, PassesItsChecks) {
  const std::string& text = GetParam().text;
  passes::PipelineOptions options;
  options.check_changed = true;
  std::istringstream lines(text);
  std::string line;
  bool unchanged = false;
  int checks = 0;
  while (std::getline(lines, line)) {
    std::string run = after(line, "// RUN:");
    std::istringstream names(run);
    for (std::string name; std::getline(names, name, ',');) options.only.push_back(name);
    unchanged |= line.find("// UNCHANGED") != std::string::npos;
  }
  ASSERT_FALSE(options.only.empty()) << "a case needs a RUN line:\n" << text;
  auto graph = parse_graph(text);
  std::string before = print(*graph);
  passes::PipelineReport report = passes::run_pipeline(*graph, options);
  std::string result = print(*graph);
  if (unchanged) {
    EXPECT_EQ(result, before);
    ++checks;
  }
  std::size_t position = 0;
  lines.clear();
  lines.seekg(0);
  while (std::getline(lines, line)) {
    if (std::string want = after(line, "// CHECK:"); !want.empty()) {
      std::size_t at = result.find(want, position);
      EXPECT_NE(at, std::string::npos) << "not found in order: " << want << "\n" << result;
      if (at != std::string::npos) position = at + want.size();
      ++checks;
    }
    if (std::string want = after(line, "// CHECK-NOT:"); !want.empty()) {
      EXPECT_EQ(count(result, want), 0) << result;
      ++checks;
    }
    if (std::string rest = after(line, "// COUNT"); !rest.empty()) {
      std::size_t colon = rest.find(':');
      EXPECT_EQ(count(result, after(rest, ":")), std::stoi(rest.substr(0, colon))) << result;
      ++checks;
    }
  }
  EXPECT_GT(checks, 0) << "a case needs a check:\n" << text;
}

INSTANTIATE_TEST_SUITE_P(Files, PassFile, ::testing::ValuesIn(load_cases()), [](const auto& info) {
  std::string name = info.param.file + "_" + std::to_string(info.index);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
      '_');
  return name;
});

}  // namespace
}  // namespace gex::test
