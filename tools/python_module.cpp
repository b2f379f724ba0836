// Commands implemented as Python modules, because they inspect PyTorch programs.

#include "python_module.hpp"

#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "base/error.hpp"
#include "commands.hpp"

namespace gex::tool {
namespace {

// In a build tree the package is beside the folder of this program.
void find_package_of_build_tree() {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return;
  const std::filesystem::path packages = own.parent_path().parent_path() / "python";
  if (!std::filesystem::exists(packages / "gex" / "__init__.py", error)) return;
  const char* known = std::getenv("PYTHONPATH");
  const bool has_more = known != nullptr && *known != '\0';
  const std::string path = has_more ? str(packages.string(), ":", known) : packages.string();
  setenv("PYTHONPATH", path.c_str(), 1);
}

int run_diff(const std::vector<std::string>& words) { return run_python_module("gex.diff", words); }
int run_bisect(const std::vector<std::string>& words) {
  return run_python_module("gex.bisect", words);
}
int run_top(const std::vector<std::string>& words) { return run_python_module("gex.top", words); }

}  // namespace

int run_python_module(const std::string& module, const std::vector<std::string>& words) {
  find_package_of_build_tree();
  const char* chosen = std::getenv("GEX_PYTHON");
  std::vector<std::string> all = {chosen != nullptr && *chosen != '\0' ? chosen : "python3", "-m",
                                  module};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::cout.flush();
  execvp(arguments[0], arguments.data());
  fail(ErrorCode::io_error, "can't start ", all[0], ": ", std::strerror(errno),
       "; set GEX_PYTHON to the Python that has gex and PyTorch");
}

Command diff_command() {
  Command command;
  command.name = "diff";
  command.synopsis = "FOLDER FOLDER [--rtol R] [--atol A] [--all]";
  command.summary = "compares two folders of dumped tensors, in graph order";
  command.details =
      "Prints cosine, largest absolute and relative error of each tensor that differs, and which\n"
      "node is the first. Exit code 1 if any differ. Needs Python: GEX_PYTHON, else python3.";
  command.run_words = run_diff;
  return command;
}

Command bisect_command() {
  Command command;
  command.name = "bisect";
  command.synopsis = "[--rtol R] [--atol A] [--calls N] SCRIPT.py [ARGUMENTS]";
  command.summary = "runs a PyTorch script and finds what makes its compiled results differ";
  command.details =
      "Every graph is run eagerly, after each pass and compiled; the first stage, pass or kernel\n"
      "whose results differ is printed, with your line. Exit code 1 if there is one.\n"
      "Needs Python: GEX_PYTHON, else python3.";
  command.run_words = run_bisect;
  return command;
}

Command top_command() {
  Command command;
  command.name = "top";
  command.synopsis = "[--once] [--interval SECONDS]";
  command.summary = "shows statistics of compiled functions in running processes (GEX_TOP=1)";
  command.details =
      "Processes started with GEX_TOP=1 in their environment write statistics of their compiled\n"
      "graphs once a second: calls, times, captures, memory, ops through PyTorch. This shows\n"
      "them, repeatedly on a terminal, else once. Needs Python: GEX_PYTHON, else python3.";
  command.run_words = run_top;
  return command;
}

}  // namespace gex::tool
