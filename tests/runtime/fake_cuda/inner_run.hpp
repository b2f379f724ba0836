#pragma once
// Runs this test binary once more over the driver library of this folder, which computes on the
// host.

#include <stdio.h>
#include <unistd.h>

#include <string>

namespace gex::test {

struct InnerRun {
  int status = -1;  // 0: all tests passed
  std::string output;
};

// `variables`: "A=1 B=2", for the inner process; `filter`: of its tests.
inline InnerRun run_over_fake_cuda(const std::string& variables, const std::string& filter) {
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return {};
  const std::string command = variables +
                              " GEX_CUDA_CONTROL_NODES=1 GEX_CUDA_LIBRARY_PATH=" GEX_BUILD_DIR
                              "/tests/fake_cuda " +
                              self + " --gtest_filter='" + filter + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  InnerRun run;
  char part[4096];
  while (const std::size_t size = fread(part, 1, sizeof part, pipe)) run.output.append(part, size);
  run.status = pclose(pipe);
  return run;
}

}  // namespace gex::test
