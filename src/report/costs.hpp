#pragma once
// Memory traffic and arithmetic of a launch for given sizes: the minimum bytes that it must move,
// and its floating-point operations.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "loop/kernel.hpp"
#include "problems/problem.hpp"
#include "program/program.hpp"

namespace gex::report {

// Nothing for a size that is not known.
using Sizes = std::function<std::optional<std::int64_t>(Dim)>;

std::optional<std::int64_t> evaluated(Dim dim, const Sizes& sizes);

struct Cost {
  double flops = 0;              // a multiply-add counts as two
  double read = 0, written = 0;  // bytes, each element once
};

// Whether tensor cores of a GPU compute a problem: its operands have 16 bits.
bool on_tensor_cores(const problems::Problem& problem);

class Costs {
 public:
  // Kernel texts are parsed once.
  explicit Costs(const program::Program& program);
  // No value if a size is not known.
  std::optional<Cost> of(const program::Step& step, const Sizes& sizes) const;

 private:
  Cost of_launch(const program::Launch& launch, const Sizes& sizes) const;
  // `hidden`: a buffer that never reaches memory.
  Cost of_kernel(const loop::Kernel& kernel, std::span<const std::int64_t> dims,
                 int hidden = -1) const;
  double bytes_of(program::BufferId id, const Sizes& sizes) const;

  const program::Program& program_;
  std::vector<loop::Kernel> kernels_;
};

}  // namespace gex::report
