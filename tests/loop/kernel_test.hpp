#pragma once
// Shared by the loop tests: reading kernel texts, running them in the reference executor.

#include <gtest/gtest.h>
#include <cstdint>

#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "interp/eval_kernel.hpp"
#include "loop/kernel.hpp"

namespace gex::loop {

inline std::string kernel_text(const std::string& name) {
  std::ifstream file(std::string(GEX_TEST_DATA) + "/kernels/" + name + ".loop");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

inline Kernel read_kernel(const std::string& name) { return parse_kernel(kernel_text(name)); }

// Buffers by pointer, sizes in the order of kernel.symbols().
inline void run(const Kernel& kernel, std::vector<void*> buffers, std::vector<std::int64_t> dims) {
  interp::eval_kernel(kernel, buffers, dims);
}

inline std::vector<float> random_floats(std::size_t n, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> draw(-3, 3);
  std::vector<float> values(n);
  for (float& v : values) v = draw(generator);
  return values;
}

inline void expect_near(const std::vector<float>& got, const std::vector<float>& want,
                        double tolerance = 1e-5) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], tolerance) << "at " << i;
}

}  // namespace gex::loop
