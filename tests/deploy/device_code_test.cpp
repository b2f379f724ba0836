// Model files for a GPU: one process compiles, others load the file and compile nothing. Where
// there is no GPU this binary runs itself once more with a driver library that computes on the
// host.

#include "deploy/device_code.hpp"
#include "../runtime/fake_cuda/inner_run.hpp"
#include "harness.hpp"

namespace gex::test {
namespace {

// The folder of an inner run; null in the outer one.
const char* inner_folder() { return std::getenv("GEX_TEST_GPU_FILES"); }

deploy::LoadOptions trusted() {
  deploy::LoadOptions options;
  options.trust = true;
  return options;
}

CompileOptions for_gpu() {
  CompileOptions options;
  options.target = "cuda:0";
  return options;
}

TEST(GpuFileInner, IsWritten) {
  if (inner_folder() == nullptr) GTEST_SKIP() << "runs inside GpuFile";
  const Example example(for_gpu());
  const std::string file = str(inner_folder(), "/m.gexe");
  const deploy::SaveReport report = example.save(file, {"v3"});
  EXPECT_EQ(report.levels, (std::set<std::string>{"sm_90"}));
  EXPECT_GT(report.code_bytes, 0u);
}

TEST(GpuFileInner, RunsWithoutACompiler) {
  if (inner_folder() == nullptr) GTEST_SKIP() << "runs inside GpuFile";
  const auto model = deploy::load_model(str(inner_folder(), "/m.gexe"), trusted());
  EXPECT_EQ(model->code, "machine code (sm_90)");
  EXPECT_EQ(model->program().target, "cuda:0");
  for (std::int64_t rows : {1, 5, 64}) {
    const HostTensor x = ramp({rows, 24}, 0.1);
    expect_close(run(*model, x), Example().expected(x));
  }
}

TEST(GpuFileInner, NeedsTrust) {
  if (inner_folder() == nullptr) GTEST_SKIP() << "runs inside GpuFile";
  const std::string file = str(inner_folder(), "/m.gexe");
  const std::string why = reason([&] { deploy::load_model(file); });
  EXPECT_NE(why.find("the code of GPUs runs only with trust"), std::string::npos) << why;
  deploy::LoadOptions other = trusted();
  other.level = "sm_80";
  const std::string not_there = reason([&] { deploy::load_model(file, other); });
  EXPECT_NE(not_there.find("it has machine code for sm_90, not for sm_80"), std::string::npos)
      << not_there;
}

// Any change of its device code is an error or the same structure, never a crash.
TEST(GpuFileInner, DamagedDeviceCodeIsRejected) {
  if (inner_folder() == nullptr) GTEST_SKIP() << "runs inside GpuFile";
  const Example example(for_gpu());
  const std::string bytes = deploy::serialise_device_code(*example.compiled.executable);
  const auto parse = [&](const std::string& changed) {
    return reason([&] { deploy::parse_device_code(changed, example.compiled.program); });
  };
  EXPECT_EQ(parse(bytes), "");
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(parse(bytes.substr(0, size)), "") << size;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(~changed[at]);
    parse(changed);
  }
  EXPECT_NE(parse(bytes + "x"), "");
}

TEST(GpuFile, LoadsInAProcessThatCompilesNothing) {
  if (inner_folder() != nullptr) return;
  const Folder folder;
  const std::string variables =
      str("GEX_TEST_GPU_FILES=", folder.file(""), " GEX_FAKE_CUDA_FOLDER=", folder.file(""));
  const auto passes = [&](const std::string& more, const std::string& test) {
    const InnerRun inner = run_over_fake_cuda(variables + more, "GpuFileInner." + test);
    EXPECT_EQ(inner.status, 0) << inner.output;
    EXPECT_NE(inner.output.find("1 test."), std::string::npos) << inner.output;
  };
  passes("", "IsWritten");
  passes(" GEX_FAKE_NO_NVRTC=1", "RunsWithoutACompiler");
  passes(" GEX_FAKE_NO_NVRTC=1", "NeedsTrust");
  passes("", "DamagedDeviceCodeIsRejected");
}

TEST(GpuFile, ArchitecturesHaveNames) {
  EXPECT_TRUE(deploy::is_architecture("sm_90"));
  EXPECT_TRUE(deploy::is_architecture("sm_100"));
  EXPECT_FALSE(deploy::is_architecture("v3"));
  EXPECT_FALSE(deploy::is_architecture("sm_9x"));
}

}  // namespace
}  // namespace gex::test
