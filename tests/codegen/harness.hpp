#pragma once
// Runs loop kernels through the generator in every form it has and compares with the reference
// executor: generic code near the reference, static code and split ranges with the same bits.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/generator.hpp"
#include "base/tensor.hpp"
#include "loop/kernel.hpp"

namespace gex::codegen {

// A kernel, the values of kernel.symbols(), and a dense tensor for each parameter.
struct Case {
  loop::Kernel kernel;
  std::vector<std::int64_t> dims;
  std::vector<HostTensor> buffers;
};

Generator& generator();  // fails the test run if there is none

loop::Kernel hand_written(const std::string& name);  // from tests/loop/kernels

// Parameters shaped for the dims, filled with random values: floats in [-3, 3], integers in [0, 9].
Case random_case(loop::Kernel kernel, std::vector<std::int64_t> dims, unsigned seed = 1);
void fill(HostTensor& tensor, unsigned seed, double lo, double hi);
HostTensor& buffer(Case& c, const std::string& name);

// Memory of one buffer whose last byte is followed by a page that may not be touched; elements are
// aligned to their own size only.
class GuardedMemory {
 public:
  explicit GuardedMemory(const HostTensor& content);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& o) noexcept
      : map_(o.map_), map_bytes_(o.map_bytes_), data_(o.data_) {
    o.map_ = nullptr;
  }
  GuardedMemory& operator=(GuardedMemory&&) = delete;
  void* data() const { return data_; }
  void copy_to(HostTensor& tensor) const;

 private:
  void* map_ = nullptr;
  std::size_t map_bytes_ = 0;
  std::byte* data_ = nullptr;
};

std::int64_t grid_of(const Case& c);
GeneratorOptions all_constant(const Case& c);
// Runs compiled code over [0, grid), cut at `cuts` (sorted), and gives the buffers afterwards.
std::vector<HostTensor> run(const Case& c, const program::Callable& code,
                            const std::vector<std::int64_t>& cuts = {});
std::vector<HostTensor> reference(const Case& c);

// Largest distance over all outputs. Floats: |a - b| / max(|b|, 1), infinity if only one is NaN.
// Integers and bool: 0 or infinity.
double distance(const HostTensor& a, const HostTensor& b);

// The whole check. `tolerance` is for generic code against the reference, in units of each float
// dtype's precision.
void check(const Case& c, double tolerance_in_eps = 16);

}  // namespace gex::codegen
