#include "passes/engine/dump.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace gex::passes {
namespace {

// A unique folder name for each graph of the process.
std::string folder_of(const Graph& graph) {
  static std::atomic<int> graphs{0};
  std::string name = graph.name();
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '_'; }, '_');
  return str(name, "_", graphs++);
}

}  // namespace

void write_text(const std::string& folder, const std::string& name, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail(ErrorCode::io_error, "can't create the folder ", folder, " for dumps: ", error.message());
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::ofstream file(path);
  file << text;
  if (!file.flush()) fail(ErrorCode::io_error, "can't write ", path.string());
}

Dumper::Dumper(const Graph& graph, const PipelineOptions& options)
    : folder_(options.dump_dir), passes_(options.dump_passes) {
  const char* wish = std::getenv("GEX_DUMP_PASSES");
  if (!folder_.empty() || wish == nullptr || *wish == '\0') return;
  const std::string text = wish;
  const std::size_t colon = text.find(':');
  folder_ = (std::filesystem::path(text.substr(0, colon)) / folder_of(graph)).string();
  if (colon == std::string::npos) return;
  std::istringstream names(text.substr(colon + 1));
  for (std::string name; std::getline(names, name, ',');) passes_.push_back(name);
}

bool Dumper::wanted(const Pass& pass) const {
  return std::ranges::find(passes_, pass.name) != passes_.end();
}

void Dumper::before(const Pass& pass, const Graph& graph) {
  if (!folder_.empty() && wanted(pass)) write_graph("before", pass, graph);
}

void Dumper::after(const Pass& pass, const Graph& graph, bool changed) {
  if (folder_.empty()) return;
  if (wanted(pass) || (passes_.empty() && changed)) write_graph("after", pass, graph);
}

void Dumper::statistics(const Graph& graph, const PipelineReport& report) {
  if (!folder_.empty()) write("fusion_result.json", statistics_json(graph.name(), report));
}

void Dumper::write_graph(const char* when, const Pass& pass, const Graph& graph) {
  std::string number = std::to_string(written_++);
  number.insert(0, 3 - std::min<std::size_t>(3, number.size()), '0');
  write(str(number, "_", when, "_", pass.name, ".gex"), print(graph));
}

void Dumper::write(const std::string& file_name, const std::string& text) {
  write_text(folder_, file_name, text);
}

}  // namespace gex::passes
