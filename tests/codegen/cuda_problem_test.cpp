// CUDA kernels of problems without a GPU: run on the host against plain loops, and compiled by
// whatever CUDA compiler this machine has.

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/precision.hpp"
#include "cuda_emulation.hpp"
#include "cuda_problems.hpp"
#include "harness.hpp"

namespace gex::codegen {
namespace {

// GEX_CUDA_CASES=text: only cases whose name or problem contains the text.
std::vector<ProblemCase> chosen_cases() {
  std::vector<ProblemCase> cases = problem_cases();
  if (const char* only = std::getenv("GEX_CUDA_CASES"))
    std::erase_if(cases, [&](const ProblemCase& c) {
      return (c.name + " " + problems::print(c.problem)).find(only) == std::string::npos;
    });
  return cases;
}

backend::cuda::KernelText text_of(const ProblemCase& c, const backend::cuda::DeviceLimits& limits) {
  return backend::cuda::emit(c.problem, c.attached(), c.dim_values(), limits);
}
backend::cuda::KernelText text_of(const ProblemCase& c, int multiprocessors) {
  backend::cuda::DeviceLimits limits;
  limits.multiprocessors = multiprocessors;
  return text_of(c, limits);
}

// Runs the kernel of a text on a case's operands, on the host, and compares with plain loops.
void expect_right(const ProblemCase& c, const backend::cuda::KernelText& text, int number,
                  EmulatedKernels& unit) {
  std::vector<GuardedMemory> memory;
  std::vector<std::int64_t> words;
  for (const HostTensor& tensor : c.buffers) {
    memory.emplace_back(tensor);
    words.push_back(reinterpret_cast<std::int64_t>(memory.back().data()));
  }
  const HostTensor workspace(DType::u8, {c.evaluate(text.workspace_bytes)});
  const GuardedMemory scratch(workspace);
  if (!(text.workspace_bytes == Dim(0)))
    words.push_back(reinterpret_cast<std::int64_t>(scratch.data()));
  words.insert(words.end(), c.dims.begin(), c.dims.end());
  unit.run(number, words, c.evaluate(text.grid), text.block, c.evaluate(text.shared_bytes));
  const std::vector<HostTensor> want = expected(c);
  for (std::size_t b = 0; b < want.size(); ++b) {
    HostTensor got = c.buffers[b];
    memory[b].copy_to(got);
    const double allowed =
        c.written[b] ? c.tolerance + (c.tolerance > 0 ? epsilon_of(got.dtype()) : 0) : 0;
    EXPECT_LE(distance(got, want[b]), allowed) << "buffer " << b;
  }
}

TEST(CudaProblems, emulated_kernels_compute_what_plain_loops_compute) {
  const std::vector<ProblemCase> cases = chosen_cases();
  EmulatedKernels unit;
  std::vector<int> numbers;
  std::vector<backend::cuda::KernelText> texts;
  for (const ProblemCase& c : cases) {
    texts.push_back(text_of(c, texts.size() % 2 == 0 ? 1 : 16));  // few blocks, or clusters
    numbers.push_back(unit.add(texts.back()));
  }
  unit.compile();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const ProblemCase& c = cases[i];
    SCOPED_TRACE(str("case ", i, " ", c.name, ": ", problems::print(c.problem)));
    expect_right(c, texts[i], numbers[i], unit);
  }
}

// Cases with a choice of forms: the first with the most forms, of each kind of problem.
std::vector<ProblemCase> cases_with_forms(const backend::cuda::DeviceLimits& limits) {
  std::map<std::string, std::pair<std::size_t, ProblemCase>> best;
  for (ProblemCase& c : chosen_cases()) {
    if (!c.constant_dims || !c.prologues.empty()) continue;
    const std::vector<Dim> dims = c.dim_values();
    const std::size_t count = backend::cuda::forms_of(c.problem, dims, limits).size();
    const std::string text = problems::print(c.problem);
    auto& [most, chosen] = best[text.substr(0, text.find(' '))];
    if (count >= 2 && count > most) most = count, chosen = std::move(c);
  }
  std::vector<ProblemCase> cases;
  for (auto& [kind, found] : best)
    if (found.first > 0) cases.push_back(std::move(found.second));
  return cases;
}

// What autotune chooses from. GEX_CUDA_CASES: all forms of the chosen cases, not three of each
// kind.
TEST(CudaProblems, forms_of_a_problem_compute_what_plain_loops_compute) {
  const bool all_forms = std::getenv("GEX_CUDA_CASES") != nullptr;
  backend::cuda::DeviceLimits limits;
  limits.multiprocessors = 16;
  struct Tried {
    ProblemCase example;
    std::string form;
    backend::cuda::KernelText text;
    int number;
  };
  std::vector<Tried> all;
  EmulatedKernels unit;
  std::set<std::string> kinds;
  for (const ProblemCase& c : cases_with_forms(limits)) {
    const std::vector<Dim> dims = c.dim_values();
    const std::vector<backend::cuda::Form> forms = backend::cuda::forms_of(c.problem, dims, limits);
    const std::size_t step = all_forms ? 1 : (forms.size() + 2) / 3;
    for (std::size_t k = forms.size() - 1; k < forms.size(); k -= step) {
      backend::cuda::DeviceLimits with = limits;
      with.form = forms[k];
      with.values = c.dims;
      backend::cuda::KernelText text = backend::cuda::emit(c.problem, c.attached(), dims, with);
      const int number = unit.add(text);
      all.push_back({c, backend::cuda::name_of(forms[k]), std::move(text), number});
    }
    kinds.insert(problems::print(c.problem).substr(0, 6));
  }
  if (!all_forms) {
    EXPECT_EQ(kinds, (std::set<std::string>{"attent", "conv2d", "matmul"}));
  }
  unit.compile();
  for (const Tried& tried : all) {
    SCOPED_TRACE(str(problems::print(tried.example.problem), " as ", tried.form));
    expect_right(tried.example, tried.text, tried.number, unit);
  }
}

TEST(CudaProblems, dependent_launches_wait_before_they_read_what_others_write) {
  const problems::MatmulProblem f16{DType::f16, DType::f16, DType::f16};
  const std::vector<Dim> dims = {1, 1, 1, 1024, 1024, 0, 0, 1024, 1, 0, 0, 1, 1024, 0, 0, 1024, 1};
  backend::cuda::DeviceLimits limits;
  backend::cuda::AttachedKernels attached;
  const std::string call = "  wait_for_inputs();\n";
  const auto body = [&] {
    const std::string source = backend::cuda::emit(f16, attached, dims, limits).source;
    return source.substr(source.find("GEX_FN void run("));
  };
  EXPECT_EQ(body().find(call), std::string::npos);
  limits.dependent_launch = true;
  EXPECT_LT(body().find(call), body().find("stream_product<1>"));
  // Weights are requested before the wait, which stream_product then does itself.
  attached.constant_right = true;
  EXPECT_GT(body().find(call), body().find("stream_product<1>"));
  EXPECT_NE(backend::cuda::emit(f16, attached, dims, limits).source.find("kWaitsForLeft = 1"),
            std::string::npos);
}

constexpr int kFewSpilledBytes = 32;  // outside of the inner loops, where registers just fail

// Compiles the cases for a GPU and finds no spills in them.
void expect_compiled(const std::string& architecture, int multiprocessors) {
  SCOPED_TRACE(architecture);
  EmulatedKernels unit;
  std::set<std::string> seen;  // one of those that differ in sizes alone
  const auto limits = backend::cuda::device_limits(architecture, multiprocessors);
  for (const ProblemCase& c : chosen_cases())
    if (seen.insert(c.name + problems::print(c.problem)).second) unit.add(text_of(c, limits));
  const std::string folder = temporary_folder();
  std::ofstream(folder + "/kernels.cu") << unit.device_source();
  const std::string log = folder + "/log";
  EXPECT_EQ(run_command(str("nvcc -arch=", architecture,
                            " -std=c++17 -diag-suppress 177 --fmad=false -Xptxas -v -cubin -o ",
                            folder, "/kernels.cubin ", folder, "/kernels.cu > ", log,
                            " 2>&1 || (cat ", log, "; false)")),
            0);
  std::ifstream in(log);
  for (std::string line, function; std::getline(in, line);) {
    if (line.find("Function properties for") != std::string::npos) function = line;
    const std::size_t end = line.find(" bytes spill stores");
    if (end == std::string::npos) continue;
    const std::size_t begin = line.find_last_of(' ', end - 1) + 1;
    EXPECT_LE(std::stoi(line.substr(begin, end - begin)), kFewSpilledBytes) << function;
  }
  EXPECT_EQ(run_command("rm -r " + folder), 0);
}

// GEX_CUDA_ARCHITECTURES="sm_80 sm_90 sm_100": other GPUs than the usual one.
TEST(CudaProblems, a_cuda_compiler_accepts_every_kernel_without_spills) {
  if (run_command("command -v nvcc > /dev/null") != 0)
    GTEST_SKIP() << "NO CUDA COMPILER: nvcc is not on the PATH, the generated CUDA text was NOT "
                    "compiled here";
  const char* const named = std::getenv("GEX_CUDA_ARCHITECTURES");
  std::istringstream list(named == nullptr ? "sm_90" : named);
  for (std::string architecture; list >> architecture;) expect_compiled(architecture, 132);
}

// Only GPUs from sm_90 on have clusters, and others have less shared memory.
TEST(CudaProblems, kernels_fit_older_gpus) {
  for (const std::string architecture : {"sm_80", "sm_89"}) {
    const auto limits = backend::cuda::device_limits(architecture, 108);
    for (const ProblemCase& c : chosen_cases()) {
      const backend::cuda::KernelText text = text_of(c, limits);
      EXPECT_EQ(text.cluster, 1) << architecture << " " << c.name;
      EXPECT_LE(c.evaluate(text.shared_bytes), limits.shared_bytes) << architecture << c.name;
    }
  }
}

}  // namespace
}  // namespace gex::codegen
