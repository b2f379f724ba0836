// gex_opgen CPP_FILE PYTHON_FILE: generates a typed function for each op, in C++ (gex/es/ops.hpp)
// and in Python (gex/es/ops.py), from the op definitions. Part of the build; unchanged files are
// not rewritten, so that nothing is rebuilt for them.

#include <fstream>
#include <iostream>
#include <sstream>

#include "base/error.hpp"
#include "opgen.hpp"

namespace {

void write_if_different(const std::string& path, const std::string& text) {
  std::ostringstream present;
  if (std::ifstream file(path, std::ios::binary); file) present << file.rdbuf();
  if (present.str() == text) return;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) gex::fail(gex::ErrorCode::io_error, "'", path, "' can't be written");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: gex_opgen CPP_FILE PYTHON_FILE\n";
    return 1;
  }
  try {
    const std::vector<gex::opgen::Function> functions = gex::opgen::all_functions();
    write_if_different(argv[1], gex::opgen::cpp_text(functions));
    write_if_different(argv[2], gex::opgen::python_text(functions));
  } catch (const std::exception& error) {
    std::cerr << "gex_opgen: " << error.what() << "\n";
    return 1;
  }
}
