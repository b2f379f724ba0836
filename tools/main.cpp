// The gex command. Each subcommand is one file; this one dispatches and reports errors.

#include <iostream>

#include "base/error.hpp"
#include "base/suggest.hpp"
#include "commands.hpp"
#include "gex/gex.h"

namespace gex::tool {

const std::vector<Command>& all_commands() {
  static const std::vector<Command> all = {
      opt_command(),    run_command(),     dump_command(),    explain_command(),
      report_command(), profile_command(), bench_command(),   reduce_command(),
      fuzz_command(),   ops_command(),     diff_command(),    bisect_command(),
      cache_command(),  top_command(),     compile_command(), inspect_command(),
      update_command(), serve_command(),   doctor_command(),  completion_command()};
  return all;
}

namespace {

std::string overview() {
  std::string text =
      "gex: a graph engine. Graphs are read and written in their text form (.gex).\n\nCommands:\n";
  for (const Command& command : all_commands()) {
    std::string name = command.name;
    name.resize(12, ' ');
    text += str("  ", name, command.summary, "\n");
  }
  return text +
         "\n  gex help COMMAND   help on a command\n"
         "  gex --version      the version of this program\n\n"
         "Examples:\n"
         "  gex opt model.gex --passes=fold,cse,dce | gex run - --dim s0=4\n"
         "  gex explain model.gex --dim s0=4     how it is compiled, and its memory plan\n"
         "  gex report model.onnx -o report.html  the same as an HTML page\n"
         "  gex reduce wrong.gex > small.gex     the smallest part that is still wrong\n\n"
         "Errors are one line on standard error that starts with \"gex: \"; the exit code is then "
         "1.\n";
}

const Command& find(const std::string& name) {
  std::vector<std::string_view> names = {"help", "--help", "--version"};
  for (const Command& command : all_commands()) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  fail(ErrorCode::invalid_argument, "unknown command '", name, "'", suggestion(name, names),
       " (gex --help lists them)");
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" ||
      (words[0] == "help" && words.size() == 1)) {
    std::cout << overview();
    return words.empty() ? 1 : 0;
  }
  if (words[0] == "--version") {
    std::cout << "gex " << gex_version() << "\n";
    return 0;
  }
  if (words[0] == "help") {
    std::cout << help_of(find(words[1]));
    return 0;
  }
  const Command& command = find(words[0]);
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  for (const std::string& word : rest) {
    if (word != "--help" && word != "-h") continue;
    std::cout << help_of(command);
    return 0;
  }
  if (command.run_words != nullptr) return command.run_words(rest);
  return command.run(Arguments(command, rest));
}

int guarded(const std::vector<std::string>& words) {
  try {
    const int status = dispatch(words);
    std::cout.flush();
    if (!std::cout) fail(ErrorCode::io_error, "can't write to standard output");
    return status;
  } catch (const UserError& error) {
    std::cerr << "gex: " << error.what() << "\n";
  } catch (const std::bad_alloc&) {
    std::cerr << "gex: out of memory\n";
  } catch (const std::exception& error) {
    std::cerr << "gex: this is a bug in gex: " << error.what() << "\n";
  }
  return 1;
}

}  // namespace
}  // namespace gex::tool

int main(int argc, char** argv) {
  return gex::tool::guarded(std::vector<std::string>(argv + (argc > 0), argv + argc));
}
