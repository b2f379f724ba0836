// Model files for a GPU: one process compiles, others load the file and compile nothing. Where
// there is no GPU this binary runs itself once more with a driver library that computes on the
// host.

#include "deploy/device_code.hpp"
#include "../runtime/fake_cuda/inner_run.hpp"
#include "gex/session.hpp"
#include "harness.hpp"
#include "nvidia/api.hpp"

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

// In memory of the device, with a session as users have it; the results are read on the stream too.
TEST(GpuFileInner, RunsOnAStreamOfTheCaller) {
  if (inner_folder() == nullptr) GTEST_SKIP() << "runs inside GpuFile";
  gex::Session session =
      gex::Session::load(str(inner_folder(), "/m.gexe"), {.trust = true}, {.static_code = false});
  const HostTensor x = ramp({5, 24}, 0.1);
  const std::vector<HostTensor> expected = Example().expected(x);
  std::string why_not;
  const nvidia::DriverApi& api = *nvidia::driver_api(why_not);
  nvidia::Stream stream = nullptr;
  ASSERT_EQ(api.stream_create(&stream, nvidia::kStreamNonBlocking), 0);
  std::vector<nvidia::DevicePtr> memory;
  const auto on_device = [&](const HostTensor& tensor) {
    memory.push_back(0);
    EXPECT_EQ(api.memory_alloc(&memory.back(), tensor.bytes()), 0);
    const gex_dtype dtype = tensor.dtype() == DType::f32   ? GEX_F32
                            : tensor.dtype() == DType::f64 ? GEX_F64
                                                           : GEX_F16;
    return gex::Tensor::view(dtype, tensor.shape(), reinterpret_cast<void*>(memory.back()));
  };
  gex::Binding binding(session.model());
  binding.input(session.inputs()[0].name, on_device(x));
  for (std::size_t k = 0; k < expected.size(); ++k)
    binding.output(session.outputs()[k].name, on_device(expected[k]));
  EXPECT_EQ(api.copy_to_device_async(memory[0], x.data(), x.bytes(), stream), 0);
  session.run(binding, {.stream = stream});
  std::vector<HostTensor> results;
  for (std::size_t k = 0; k < expected.size(); ++k) {
    results.emplace_back(expected[k].dtype(), expected[k].shape());
    EXPECT_EQ(api.copy_to_host_async(results[k].data(), memory[k + 1], results[k].bytes(), stream),
              0);
  }
  session.synchronize(stream);
  expect_close(results, expected);
  for (const nvidia::DevicePtr one : memory) api.memory_free(one);
  api.stream_destroy(stream);
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
  passes(" GEX_FAKE_NO_NVRTC=1 GEX_FAKE_CUDA_LAZY=1", "RunsOnAStreamOfTheCaller");
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
