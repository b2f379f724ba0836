// The examples run, print three levels and their results, and need as few kernels as they say.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace gex::test {
namespace {

std::string output_of(const std::string& name) {
  const std::string command = std::string(GEX_BUILD_DIR) + "/examples/" + name + " 2>&1";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) return "the example can't be started";
  std::string output;
  std::array<char, 4096> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
    output.append(buffer.data(), got);
  const int status = pclose(pipe.release());
  return status == 0 ? output : output + "\nthe example failed";
}

// The kernels of each run, as the example prints them.
std::vector<int> kernels_of(const std::string& output) {
  std::vector<int> kernels;
  const std::string before = "--- kernels in this run: ";
  for (std::size_t at = output.find(before); at != std::string::npos;
       at = output.find(before, at + 1))
    kernels.push_back(std::stoi(output.substr(at + before.size())));
  return kernels;
}

void expect_three_levels(const std::string& output) {
  EXPECT_EQ(output.find("the example failed"), std::string::npos) << output;
  for (const char* part : {"--- as built\n", "--- tensor IR, after the passes\n",
                           "--- kernels, after fusion\n", "--- program, ready for replay\n"})
    EXPECT_NE(output.find(part), std::string::npos) << part << " in\n" << output;
}

struct Example {
  const char* name;
  std::vector<int> kernels;  // of each run; none: not asserted
  const char* says;
};

class Examples : public testing::TestWithParam<Example> {};

TEST_P(Examples, print_three_levels_and_need_these_kernels) {
  const std::string output = output_of(GetParam().name);
  expect_three_levels(output);
  if (!GetParam().kernels.empty()) {
    EXPECT_EQ(kernels_of(output), GetParam().kernels) << output;
  }
  EXPECT_NE(output.find(GetParam().says), std::string::npos) << output;
}

INSTANTIATE_TEST_SUITE_P(
    All, Examples,
    testing::Values(Example{"es_subtract", {1}, "f32[1] 3.5\n"},
                    Example{"es_matmul_gelu", {1, 1, 1}, "a wrong shape: input 0 \"x\""},
                    Example{"es_conv_bn_relu", {1}, "f32[2, 8, 16, 16]"},
                    Example{"es_resnet_block", {2}, "f32[1, 16, 14, 14]"},
                    Example{"es_attention", {1}, "f32[1, 4, 10, 32]"},
                    Example{"es_transformer_block", {9, 9}, "f32[12, 64]"},
                    Example{"es_control_flow", {}, "i64[] 111\n"},
                    Example{"es_pattern_pass", {2, 1}, "f32[3, 4]"},
                    Example{"es_custom_op", {1}, "a wrong shape: my.scaled_tanh"}),
    [](const auto& info) { return std::string(info.param.name); });

// Programs written for GE compile unchanged, and their passes take effect.
TEST(GeSamples, AFusionPassReplacesWhatItsRequirementsAllow) {
  const std::string output = output_of("ge_add_zero_pass");
  EXPECT_NE(output.find(R"("AddZeroPass": {"match_times": "2", "effect_times": "1"})"),
            std::string::npos)
      << output;
  EXPECT_NE(output.find("\n2 3 4 5\n"), std::string::npos) << output;
}

TEST(GeSamples, CapturedTensorsHaveTypesAndAttributes) {
  const std::string output = output_of("ge_matmul_add_pass");
  const std::size_t floats =
      output.find(R"("MatMulAddPass": {"match_times": "1", "effect_times": "1"})");
  const std::size_t integers =
      output.find(R"("MatMulAddPass": {"match_times": "1", "effect_times": "0"})");
  ASSERT_NE(floats, std::string::npos) << output;
  EXPECT_NE(integers, std::string::npos) << output;
  EXPECT_LT(floats, integers);
  EXPECT_NE(output.find("\n8\n12\n18\n26\n"), std::string::npos) << output;
}

TEST(GeSamples, ADecomposePassSplitsAGroupedConvolution) {
  const std::string output = output_of("ge_grouped_conv_pass");
  EXPECT_NE(output.find(R"("GroupedConvPass": {"match_times": "1", "effect_times": "1"})"),
            std::string::npos)
      << output;
  EXPECT_NE(output.find("cat(%Conv2d"), std::string::npos) << output;
  EXPECT_NE(output.find("4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4"), std::string::npos) << output;
}

}  // namespace
}  // namespace gex::test
