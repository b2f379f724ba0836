// gex doctor: what gex finds on this machine, and descriptions of problems.

#include <unistd.h>
#include <cmath>
#include <iomanip>
#include <iostream>

#include "backend/backend.hpp"
#include "backend/cpu/generator.hpp"
#include "base/error.hpp"
#include "base/thread_pool.hpp"
#include "cache/store.hpp"
#include "commands.hpp"
#include "gex/gex.h"
#include "nvidia/api.hpp"
#include "python_module.hpp"
#include "report/machine.hpp"

extern char** environ;

namespace gex::tool {
namespace {

class Findings {
 public:
  void ok(const std::string& what, const std::string& found) { print("ok", what, found); }
  void note(const std::string& what, const std::string& found) { print("-", what, found); }
  void wrong(const std::string& what, const std::string& found) {
    print("!!", what, found);
    ++problems_;
  }
  int problems() const { return problems_; }

 private:
  static void print(const char* mark, const std::string& what, const std::string& found) {
    std::cout << "  " << std::left << std::setw(4) << mark << std::setw(12) << what << found
              << "\n";
  }

  int problems_ = 0;
};

void look_at_code_generator(Findings& findings) {
  std::string why_not;
  if (codegen::Generator* generator = codegen::llvm_generator(&why_not))
    findings.ok("LLVM", generator->target());
  else
    findings.wrong("LLVM",
                   "kernels run in the reference executor, which is many times slower: " + why_not);
}

void look_at_cuda(Findings& findings) {
  std::string why_not;
  if (nvidia::driver_api(why_not) == nullptr) {
    findings.note("CUDA", "not used: " + why_not);
    return;
  }
  try {
    const Target target = backend::find_target("cuda:0");
    findings.ok("CUDA", target.text() + ", " + target.architecture);
  } catch (const UserError& error) {
    findings.note("CUDA", str("not used: ", error.what()));
    return;
  }
  if (nvidia::nvrtc_api(why_not) == nullptr) findings.wrong("NVRTC", why_not);
  if (nvidia::cublas_api(why_not) == nullptr) findings.wrong("cuBLAS", why_not);
}

void look_at_cache(Findings& findings) {
  const std::shared_ptr<Store> store = Store::from_environment();
  if (store == nullptr) {
    findings.note("cache", "off: set GEX_CACHE_DIR to a folder to keep compiled programs");
    return;
  }
  if (::access(store->folder().c_str(), F_OK) == 0 &&
      ::access(store->folder().c_str(), W_OK) != 0) {
    findings.wrong("cache", store->folder() + " can't be written: nothing is cached");
    return;
  }
  std::int64_t bytes = 0;
  int bad = 0;
  const std::vector<StoreEntry> entries = store->entries();
  for (const StoreEntry& entry : entries) {
    bytes += entry.bytes;
    bad += store->problem_of(entry).empty() ? 0 : 1;
  }
  const std::string found =
      str(store->folder(), ": ", entries.size(), " entries, ", bytes >> 20, " MiB");
  if (bad > 0)
    findings.wrong("cache", str(found, ", ", bad, " of them can't be used: gex cache clear"));
  else
    findings.ok("cache", found);
}

void look_at_environment(Findings& findings) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("GEX_")) findings.note("set", std::string(text));
  }
}

int run(const Arguments& arguments) {
  Findings findings;
  std::cout << "gex " << gex_version() << "\n";
  const report::Machine& machine = report::machine();
  findings.ok("processor", machine.name);
  findings.ok("threads", std::to_string(ThreadPool::global().threads()));
  findings.ok("speed", str(std::llround(machine.gflops), " GFLOP/s, ",
                           std::llround(machine.bandwidth), " GB/s from memory (measured now)"));
  look_at_code_generator(findings);
  look_at_cuda(findings);
  look_at_cache(findings);
  look_at_environment(findings);
  if (arguments.has("--no-python")) return findings.problems() > 0 ? 1 : 0;
  return run_python_module("gex.doctor", {std::to_string(findings.problems())});
}

}  // namespace

Command doctor_command() {
  return {
      "doctor",
      "[--no-python]",
      "shows what gex finds on this machine, and what is wrong",
      "Lists the processor and its measured peak, the code generator, CUDA, the compile\n"
      "cache, variables of the environment, and the Python package with its PyTorch. Lines with\n"
      "!! say what is wrong and how to fix it; the exit code is then 1.",
      {{"--no-python", "", "do not run Python (GEX_PYTHON, else python3)"}},
      0,
      run};
}

}  // namespace gex::tool
