// The generator as a service: loading, caching, threads, errors, dumps.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <thread>

#include "base/error.hpp"
#include "harness.hpp"

namespace gex::codegen {
namespace {

loop::Kernel scale_by(double factor, const std::string& n = "n", const std::string& x = "x") {
  return loop::parse_kernel("kernel k(" + x + ": in f32[" + n + "], y: out f32[" + n +
                            "]) grid(i < " + n + ") { stage { a = load " + x + "[i]\n r = mul(a, " +
                            std::to_string(factor) + ")\n store y[i] = r } }");
}

TEST(Generator, EqualStructuresAreCompiledOnce) {
  std::vector<loop::Kernel> kernels = {scale_by(2.5), scale_by(2.5, "m", "other"), scale_by(3.5)};
  auto before = generator().stats();
  auto code = generator().compile(kernels, {});
  EXPECT_EQ(generator().stats().compiled - before.compiled, 2);
  EXPECT_EQ(code[0].fn, code[1].fn);
  EXPECT_NE(code[0].fn, code[2].fn);
  auto again = generator().compile(kernels, {});
  EXPECT_EQ(again[2].fn, code[2].fn);
  EXPECT_EQ(generator().stats().compiled - before.compiled, 2);
}

TEST(Generator, StaticFormsOfDifferentSizesAreDifferentCode) {
  loop::Kernel k = scale_by(4.5);
  Dim n = k.symbols()[0];
  auto a = generator().compile({&k, 1}, {.constants = {{n, 10}}})[0];
  auto b = generator().compile({&k, 1}, {.constants = {{n, 11}}})[0];
  auto other = generator().compile({&k, 1}, {.constants = {{Dim::symbol("unrelated"), 11}}})[0];
  auto generic = generator().compile({&k, 1}, {})[0];
  EXPECT_NE(a.fn, b.fn);
  EXPECT_EQ(other.fn, generic.fn);
}

TEST(Generator, ErrorsOfTheLibraryAreUserErrorsHere) {
  loop::Kernel k = scale_by(5.5);
  try {
    generator().compile({&k, 1}, {.constants = {{k.symbols()[0], -3}}});
    FAIL() << "a negative size was taken";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("-3"), std::string::npos);
  }
}

TEST(Generator, DimsComeInTheOrderOfTheCallersSymbols) {
  // The first appearance of b is after a, whatever canonical names they get.
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[zz*aa], y: out f32[zz, aa]) grid(i < zz, j < aa) {"
      "stage { v = load x[j*zz + i]\n store y[i, j] = v } }");
  auto symbols = k.symbols();
  std::vector<std::int64_t> dims;
  for (Dim s : symbols) dims.push_back(s.name() == "zz" ? 3 : 20);
  check(random_case(k, dims), 0);
}

TEST(Generator, ManyThreadsCompileAndRunAtOnce) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int k = 0; k < 12; ++k) {
        loop::Kernel kernel = scale_by(100.25 + (k * (t + 1)) % 13);
        auto code = generator().compile({&kernel, 1}, {})[0];
        std::vector<float> x(50, 2), y(50);
        std::vector<void*> buffers = {x.data(), y.data()};
        std::int64_t n = 50;
        code(buffers.data(), &n, 0, n, nullptr);
        if (y[49] != 2 * (100.25f + static_cast<float>((k * (t + 1)) % 13))) ++wrong[t];
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(Generator, AForkedChildCompilesAndRunsWhileTheParentIsCompiling) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    for (int k = 0; !stop; ++k) {
      loop::Kernel kernel = scale_by(1000.25 + k);
      generator().compile({&kernel, 1}, {});
    }
  });
  for (int round = 0; round < 5; ++round) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      loop::Kernel kernel = scale_by(5000.5 + round);
      auto code = generator().compile({&kernel, 1}, {})[0];
      std::vector<float> x(5, 2), y(5);
      std::vector<void*> buffers = {x.data(), y.data()};
      std::int64_t n = 5;
      code(buffers.data(), &n, 0, n, nullptr);
      _exit(y[4] == 2 * (5000.5f + static_cast<float>(round)) ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }
  stop = true;
  busy.join();
}

TEST(Generator, CodeLivesAsLongAsItsCallable) {
  loop::Kernel kernel = scale_by(6.5);
  auto code = generator().compile({&kernel, 1}, {})[0];
  ASSERT_TRUE(code.owner);
  program::Callable copy = code;
  code = {};
  std::vector<float> x(3, 2), y(3);
  std::vector<void*> buffers = {x.data(), y.data()};
  std::int64_t n = 3;
  copy(buffers.data(), &n, 0, n, nullptr);
  EXPECT_EQ(y[2], 13);
}

TEST(Generator, DumpsIrAndAssembly) {
  loop::Kernel kernel = scale_by(7.5);
  EXPECT_NE(generator().dump(kernel, {}, Dump::ir).find("define void @gex_kernel"),
            std::string::npos);
  EXPECT_NE(generator().dump(kernel, {}, Dump::assembly).find("ret"), std::string::npos);
  EXPECT_NE(generator().target().find("vectors"), std::string::npos);
}

// Run by the next test in a process of its own whose libgex has no generator beside it.
TEST(Generator, DISABLED_ReportsWhyItIsMissing) {
  std::string why_not;
  EXPECT_EQ(llvm_generator(&why_not), nullptr);
  std::cout << why_not << std::endl;
}

TEST(Generator, WithoutItsLibraryTheReasonSaysHowToGetIt) {
  namespace fs = std::filesystem;
  fs::path folder = fs::temp_directory_path() / str("gex_alone_", getpid());
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(fs::path(GEX_BUILD_DIR) / "lib")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("libgex.so") || name.starts_with("libgex_core.so"))
      fs::copy_file(entry.path(), folder / name);
  }
  std::string command =
      str("LD_LIBRARY_PATH=", folder.string(), " ", fs::read_symlink("/proc/self/exe").string(),
          " --gtest_also_run_disabled_tests --gtest_filter='*ReportsWhyItIsMissing'");
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  EXPECT_EQ(pclose(pipe), 0) << output;
  fs::remove_all(folder);
  EXPECT_NE(output.find("-DGEX_LLVM=ON"), std::string::npos) << output;
}

}  // namespace
}  // namespace gex::codegen
