// gex fuzz: compares random graphs at every level with the interpreter.

#include <chrono>
#include <iostream>
#include <sstream>

#include "base/error.hpp"
#include "check/child.hpp"
#include "check/fuzz.hpp"
#include "commands.hpp"
#include "files.hpp"

namespace gex::tool {
namespace {

constexpr std::uint64_t kInOneChild = 25;
constexpr int kSecondsForOne = 60;

struct Finding {
  std::uint64_t seed = 0;
  check::Failure failure;
};

// Runs seeds in a child process; the first one that fails or crashes ends the batch.
struct Batch {
  std::uint64_t done = 0;  // finished seeds, including the failing one
  std::optional<Finding> found;
};

Batch run_batch(std::uint64_t first, std::uint64_t count) {
  const check::ChildResult child = check::in_child(
      [&](std::ostream& out) {
        for (std::uint64_t seed = first; seed < first + count; ++seed) {
          out << seed << std::endl;
          const auto failure = check::fuzz_one(seed, [&](const check::Trial& trial) {
            out << "trial " << trial.text() << std::endl;
          });
          if (!failure) continue;
          out << "failed" << std::endl << failure->trial.text() << std::endl << failure->fault;
          return;
        }
      },
      kSecondsForOne * static_cast<int>(count));
  std::istringstream lines(child.text);
  Batch batch;
  Finding last;
  std::string line;
  bool failed = false;
  while (std::getline(lines, line)) {
    if (line == "failed") {
      failed = true;
      std::getline(lines, last.failure.where);
      std::ostringstream rest;
      rest << lines.rdbuf();
      last.failure.fault = rest.str();
      break;
    }
    if (line.starts_with("trial ")) {
      last.failure.where = line.substr(6);
      continue;
    }
    last.seed = std::stoull(line);
    last.failure.where = "while it was generated";
    ++batch.done;
  }
  if (!child.finished()) {
    last.failure.fault = child.ending();
    failed = true;
  }
  if (failed) batch.found = last;
  return batch;
}

void report(const Finding& finding, const Arguments& arguments) {
  std::cerr << "seed " << finding.seed << " (" << finding.failure.where
            << "): " << finding.failure.fault << "\n";
  const std::string text = check::reduced_failure(finding.seed, finding.failure);
  std::cout << "// seed " << finding.seed << ", " << finding.failure.where << "\n" << text << "\n";
  std::cout.flush();
  if (const auto folder = arguments.value("--out"))
    write_file(str(*folder, "/seed_", finding.seed, ".gex"), text);
}

int run(const Arguments& arguments) {
  const std::int64_t seconds = arguments.integer("--seconds").value_or(10);
  const std::int64_t first = arguments.integer("--seed").value_or(0);
  const std::int64_t most = arguments.integer("--graphs").value_or(0);
  const std::int64_t failures = arguments.integer("--failures").value_or(1);
  if (seconds < 1 || first < 0 || most < 0 || failures < 1)
    fail(ErrorCode::invalid_argument,
         "--seconds and --failures must be at least 1, --seed and --graphs at least 0");
  // Checked first: a failure must not be lost because the folder is missing.
  if (const auto folder = arguments.value("--out")) make_folder(*folder);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  auto seed = static_cast<std::uint64_t>(first);
  std::int64_t graphs = 0, found = 0;
  const auto goes_on = [&] {
    return found < failures &&
           (most > 0 ? graphs < most : std::chrono::steady_clock::now() < deadline);
  };
  while (goes_on()) {
    const std::uint64_t count =
        most > 0 ? std::min<std::uint64_t>(kInOneChild, static_cast<std::uint64_t>(most - graphs))
                 : kInOneChild;
    const Batch batch = run_batch(seed, count);
    graphs += static_cast<std::int64_t>(batch.done);
    seed += batch.done;
    if (batch.done == 0) fail(ErrorCode::internal, "the child process did not start");
    if (!batch.found) continue;
    ++found;
    report(*batch.found, arguments);
  }
  std::cerr << graphs << " graphs from seed " << first << ", " << found << " failed\n";
  return found == 0 ? 0 : 1;
}

}  // namespace

Command fuzz_command() {
  return {
      "fuzz",
      "[--seconds=N] [--seed=N] [options]",
      "tries random graphs against the interpreter",
      "Generates random valid graphs over all ops, with fixed and symbolic sizes, and compares\n"
      "every optimisation level, with and without fusion and code generation, to the interpreter.\n"
      "A graph that fails or crashes is reduced and printed; the exit code is then 1.",
      {{"--seconds", "N", "how long (10)"},
       {"--graphs", "N", "this many graphs instead"},
       {"--seed", "N", "seed of the first graph (0); each further graph uses the next"},
       {"--failures", "N", "stop after this many failures (1)"},
       {"--out", "FOLDER", "also write reduced graphs there"}},
      0,
      run};
}

}  // namespace gex::tool
