#include "files.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/error.hpp"
#include "base/file_problem.hpp"
#include "frontend/onnx/export.hpp"
#include "frontend/onnx/importer.hpp"

namespace gex::tool {

std::string read_file(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  if (std::filesystem::is_directory(path))
    fail(ErrorCode::io_error, path, " is a folder, not a file; name a file in it");
  if (is_device(path))
    fail(ErrorCode::io_error, path, " is a device, not a file; - reads standard input");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::io_error, "can't read ", path, ": ", file_problem(path, errno));
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) fail(ErrorCode::io_error, "can't read ", path, ": ", file_problem(path, errno));
  return bytes;
}

void check_exists(const std::string& path) {
  if (!std::filesystem::exists(path))
    fail(ErrorCode::io_error, "can't read ", path, ": ", file_problem(path, ENOENT));
}

void write_file(const std::string& path, std::string_view bytes) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) fail(ErrorCode::io_error, "can't write ", path, ": ", file_problem(path, errno));
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(ErrorCode::io_error, "can't create the folder ", path, ": ", error.message());
}

bool is_onnx(const std::string& path) { return path.ends_with(".onnx"); }

std::unique_ptr<Graph> read_graph(const std::string& path) {
  if (is_onnx(path)) return onnx::import_graph(onnx::read_model(path));
  return parse_graph_file(path, read_file(path));
}

std::unique_ptr<Graph> parse_graph_file(const std::string& path, std::string_view text) {
  const std::string name = path == "-" ? "<standard input>" : path;
  try {
    std::unique_ptr<Graph> graph = parse_graph(text);
    verify(*graph);
    return graph;
  } catch (const UserError& error) {
    const bool has_place = error.code() == ErrorCode::parse_error;
    throw UserError(error.code(), str(name, has_place ? ":" : ": ", error.what()));
  }
}

void write_onnx(const std::string& path, const Graph& graph) {
  const onnx::Exported exported = onnx::export_graph(graph);
  write_file(path, exported.bytes);
  if (exported.foreign.empty()) return;
  std::cerr << path << ": uses ops of domain gex that are not part of ONNX:";
  for (const std::string& name : exported.foreign) std::cerr << " " << name;
  std::cerr << "\n";
}

}  // namespace gex::tool
