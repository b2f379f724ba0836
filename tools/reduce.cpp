// gex reduce: the smallest graph that still fails.

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "base/error.hpp"
#include "check/child.hpp"
#include "check/reduce.hpp"
#include "check/trial.hpp"
#include "commands.hpp"
#include "compiling.hpp"
#include "files.hpp"
#include "tensors.hpp"

namespace gex::tool {
namespace {

constexpr int kSecondsForOne = 60;

// A temporary folder of this process, removed at its end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "gex_reduce_XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) fail(ErrorCode::io_error, "can't create a folder ", path);
    path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;  // errors can't be reported from a destructor
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  bool found = false;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
    found = true;
  }
  return found ? text : text + " " + by;
}

// The fault of the graph with the options of the command line, found in a child process.
class Comparison {
 public:
  Comparison(const Graph& graph, const Arguments& arguments)
      : given_(sizes_given(graph, arguments)),
        seed_(static_cast<std::uint64_t>(arguments.integer("--seed").value_or(0))) {
    const CompileOptions options = compile_options(arguments);
    trial_ = {options.level, options.fuse, !arguments.has("--interpret"), options.disabled_passes};
  }

  std::string fault(const Graph& graph) const {
    const check::ChildResult child = check::in_child(
        [&](std::ostream& out) {
          const auto inputs = check::draw_inputs(graph, check::sizes_of(graph, given_), seed_);
          const check::Reference reference(graph, inputs);
          if (reference.refused()) return;
          if (auto fault = reference.find_fault(trial_)) out << *fault;
        },
        kSecondsForOne);
    return child.finished() ? child.text : child.ending();
  }

  std::string text() const { return trial_.text(); }

 private:
  interp::SymbolValues given_;
  std::uint64_t seed_;
  check::Trial trial_;
};

int exit_code_of(const std::string& command) {
  const int status = std::system(command.c_str());
  if (status < 0) fail(ErrorCode::io_error, "can't run: ", command);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run(const Arguments& arguments) {
  const auto graph = read_graph(arguments.file());
  check::ReduceOptions options;
  options.most_tests = arguments.integer("--most-tests").value_or(options.most_tests);
  if (arguments.has("--verbose"))
    options.progress = [](const Graph& smaller) {
      std::cerr << smaller.num_nodes() << " nodes, " << smaller.inputs().size() << " inputs\n";
    };
  std::function<bool(const Graph&)> fails;
  TemporaryFolder folder;
  if (const auto command = arguments.value("--command")) {
    const std::string path = folder.file("graph.gex");
    const std::string line = replaced(*command, "{}", path) + " > /dev/null 2>&1";
    const auto wanted = arguments.integer("--exit-code");
    fails = [=](const Graph& candidate) {
      write_file(path, print(candidate));
      const int code = exit_code_of(line);
      return wanted ? code == *wanted : code != 0;
    };
    if (!fails(*graph))
      fail(ErrorCode::invalid_argument, "nothing to reduce: with ", arguments.file(),
           " the command does not fail: ", *command);
  } else {
    auto comparison = std::make_shared<Comparison>(*graph, arguments);
    const std::string first = comparison->fault(*graph);
    if (first.empty())
      fail(ErrorCode::invalid_argument, "nothing to reduce: ", arguments.file(), " (",
           comparison->text(),
           ") agrees with the interpreter; try another --seed, --dim, --level or --command");
    std::cerr << "fails (" << comparison->text() << "): " << first << "\n";
    fails = [comparison, kind = check::kind_of(first)](const Graph& candidate) {
      return check::kind_of(comparison->fault(candidate)) == kind;
    };
  }
  const auto smallest = check::reduce(*graph, fails, options);
  std::cerr << graph->num_nodes() << " nodes reduced to " << smallest->num_nodes() << "\n";
  std::cout << print(*smallest);
  return 0;
}

}  // namespace

Command reduce_command() {
  return {
      "reduce",
      "FILE.gex [--command 'CMD {}'] [options] > SMALL.gex",
      "shrinks a failing graph to the smallest that still fails",
      "Drops outputs, nodes and ties, turns cut values into inputs, and makes sizes smaller as\n"
      "long as the graph still fails. A graph fails if, compiled with these options, it differs\n"
      "from the interpreter, is rejected, crashes or hangs (each graph is tried in a separate\n"
      "process, on random inputs), or, with --command, if that command ends with an exit code\n"
      "other than 0; {} in it is replaced by the graph's file.",
      with_flags_of({"level", "disabled_passes", "fuse"},
                    {{"--command", "'CMD {}'", "the command that decides whether a graph fails"},
                     {"--exit-code", "N", "with --command: fails with exactly this exit code"},
                     {"--interpret", "", "run the kernels in the reference executor"},
                     {"--dim", "SYMBOL=N", "a size of the inputs (small); may be repeated"},
                     {"--seed", "N", "seed of the random inputs (0)"},
                     {"--most-tests", "N", "graphs that are tried at most (2000)"},
                     {"--verbose", "", "every step on standard error"}}),
      1,
      run};
}

}  // namespace gex::tool
