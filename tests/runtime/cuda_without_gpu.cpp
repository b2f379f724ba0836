// The CUDA drivers where there is no GPU: this binary runs itself once more with a driver library
// that computes on the host, and there the conformance suite goes over cuda_stream and cuda_graph.

#include <algorithm>

#include "fake_cuda/inner_run.hpp"
#include "harness.hpp"
#include "runtime/device.hpp"

namespace gex::runtime::testing {
namespace {

TEST(CudaDrivers, pass_the_conformance_suite_over_a_driver_on_the_host) {
  const auto drivers = available_drivers();
  if (std::count(drivers.begin(), drivers.end(), "cuda_graph") == 1)
    GTEST_SKIP() << "a CUDA driver is there: the suite runs over it directly";
  const std::string control = "*cuda_*_an_if_*:*cuda_*_a_while_*:*cuda_*_reasons_why_*";
  // Programs with streams once more over a driver that runs late and out of order.
  const std::pair<std::string, std::string> runs[] = {
      {"", "*cuda_*:CudaProgram*:CudaControl*:CudaRules*-CudaProgram.replay_times"},
      {"GEX_FAKE_CUDA_LAZY=1",
       "*cuda_*_streams_*:*cuda_*_a_wait_*:CudaProgram.replays_*:CudaControl*:" + control},
      {"GEX_FAKE_CUDA_VERSION=12020", control}};
  for (const auto& [mode, filter] : runs) {
    const auto [status, output] = test::run_over_fake_cuda(mode, filter);
    EXPECT_EQ(status, 0) << mode
                         << output.substr(output.size() -
                                          std::min<std::size_t>(8000, output.size()));
    std::vector<std::string> parts = {"cuda_graph_an_if_runs", "cuda_graph_a_while_carries"};
    if (!mode.starts_with("GEX_FAKE_CUDA_VERSION"))
      parts.insert(parts.end(),
                   {"cuda_stream_streams_with_events", "cuda_graph_streams_with_events",
                    "[       OK ] CudaProgram.replays_other_sizes", "[       OK ] CudaControl.a_"});
    if (mode.empty()) parts.emplace_back("[       OK ] CudaRules.accesses");
    for (const std::string& part : parts)
      EXPECT_NE(output.find(part), std::string::npos) << mode << part;
  }
}

}  // namespace
}  // namespace gex::runtime::testing
