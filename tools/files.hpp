#pragma once
// Reading and writing of files and graphs, with errors that name the file.

#include <memory>
#include <string>
#include <string_view>

#include "ir/graph.hpp"

namespace gex::tool {

std::string read_file(const std::string& path);  // "-": standard input
void check_exists(const std::string& path);      // for files that another program reads
void write_file(const std::string& path, std::string_view bytes);
void make_folder(const std::string& path);  // if it does not exist

bool is_onnx(const std::string& path);  // by its name
// Parsed and verified; errors have the form file:line:column. ONNX files are imported.
std::unique_ptr<Graph> read_graph(const std::string& path);
// The same for a text that was read from there.
std::unique_ptr<Graph> parse_graph_file(const std::string& path, std::string_view text);

// Writes an ONNX file; lists on standard error which ops only gex can run.
void write_onnx(const std::string& path, const Graph& graph);

}  // namespace gex::tool
