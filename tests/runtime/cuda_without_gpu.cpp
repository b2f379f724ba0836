// The CUDA drivers where there is no GPU: this binary runs itself once more with a driver library
// that computes on the host, and there the conformance suite goes over cuda_stream and cuda_graph.

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "harness.hpp"
#include "runtime/device.hpp"

namespace gex::runtime::testing {
namespace {

TEST(CudaDrivers, pass_the_conformance_suite_over_a_driver_on_the_host) {
  const auto drivers = available_drivers();
  if (std::count(drivers.begin(), drivers.end(), "cuda_graph") == 1)
    GTEST_SKIP() << "a CUDA driver is there: the suite runs over it directly";
  char folder_name[] = "/tmp/gex_fake_driver_XXXXXX";
  ASSERT_NE(mkdtemp(folder_name), nullptr);
  const std::string folder = folder_name;
  const std::string library = folder + "/libcuda.so.1";
  ASSERT_EQ(std::system(("c++ -std=c++20 -O1 -shared -fPIC -o " + library + " " + GEX_TEST_DATA +
                         "/fake_cuda/fake_cuda.cpp && ln -s libcuda.so.1 " + folder +
                         "/libnvrtc.so && ln -s libcuda.so.1 " + folder + "/libcublas.so")
                            .c_str()),
            0);
  const std::string log = folder + "/log";
  char self[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  // Programs with streams once more over a driver that runs late and out of order.
  const std::pair<std::string, std::string> runs[] = {
      {"", "*cuda_*:CudaProgram*-CudaProgram.replay_times"},
      {"GEX_FAKE_CUDA_LAZY=1 ", "*cuda_*_streams_*:*cuda_*_a_wait_*:CudaProgram.replays_*"}};
  for (const auto& [mode, filter] : runs) {
    const int status = std::system((mode + "GEX_CUDA_LIBRARY_PATH=" + folder + " " + self +
                                    " --gtest_filter='" + filter + "' > " + log + " 2>&1")
                                       .c_str());
    std::ostringstream text;
    text << std::ifstream(log).rdbuf();
    const std::string output = text.str();
    EXPECT_EQ(status, 0) << mode
                         << output.substr(output.size() -
                                          std::min<std::size_t>(8000, output.size()));
    for (const char* part : {"cuda_stream_streams_with_events", "cuda_graph_streams_with_events",
                             "[       OK ] CudaProgram.replays_other_sizes"})
      EXPECT_NE(output.find(part), std::string::npos) << mode << part;
  }
  EXPECT_EQ(std::system(("rm -r " + folder).c_str()), 0);
}

}  // namespace
}  // namespace gex::runtime::testing
