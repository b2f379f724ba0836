#pragma once
// The text of a kernel with the line of each part of it, for debuggers and profilers.

#include <string>
#include <vector>

namespace gex::loop {

struct Kernel;

// Lines are counted from 1.
struct StageLines {
  int stage = 0;
  int combine = 0;          // 0 without a reduction
  std::vector<int> exprs;   // in the order of Stage::exprs
  std::vector<int> stores;  // in the order of Stage::stores
};

struct PrintedKernel {
  std::string text;  // as print() writes it
  int kernel = 0;
  std::vector<StageLines> stages;
};

PrintedKernel print_with_lines(const Kernel& kernel);

}  // namespace gex::loop
