#pragma once
// Shared by the runtime tests: small kernels for every driver, memory of the device under test, a
// Host that records its calls, and the registration of conformance cases. A case runs once for each
// driver that can be opened here.

#include <gtest/gtest.h>
#include <cstdint>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "runtime/session/session.hpp"

namespace gex::runtime::testing {

// ---- kernels
// -------------------------------------------------------------------------------------

// The body is C that is both compiled for the CPU and kept as text for CUDA. It sees `buffers`,
// `dims` and `point`.
#define GEX_TEST_KERNEL(name, ...)                                                    \
  static void name##_cpu(const void*, void* const* buffers, const std::int64_t* dims, \
                         std::int64_t begin, std::int64_t end, std::byte*) {          \
    static_cast<void>(dims);                                                          \
    for (std::int64_t point = begin; point < end; ++point) __VA_ARGS__                \
  }                                                                                   \
  static const bool name##_is_there =                                                 \
      ::gex::runtime::testing::add_kernel(#name, name##_cpu, #__VA_ARGS__);

bool add_kernel(const char* name, program::KernelFn fn, const char* body);

// Parses program text and gives its codes, by name, what `driver` needs to run them.
std::shared_ptr<program::Executable> load_program(const std::string& text,
                                                  const std::string& driver);
// A program whose only code is this function, for the CPU.
std::shared_ptr<program::Executable> with_function(program::Program program,
                                                   program::Callable function);

// y is x plus one per step, over s0 elements and through this many temporaries.
std::string count_up(int temporaries);

// ---- memory
// --------------------------------------------------------------------------------------

// Memory as the driver's launches see it: the host's, or the GPU's.
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(std::string driver, std::size_t bytes);
  void* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }
  void upload(const void* from);
  void download(void* to) const;

 private:
  std::string driver_;
  std::size_t bytes_ = 0;
  std::shared_ptr<void> memory_;
};

// An input tensor with its own memory, dense unless strides are given.
class Tensor {
 public:
  template <class T>
  static Tensor of(const std::string& driver, DType dtype, std::vector<std::int64_t> shape,
                   const std::vector<T>& values) {
    Tensor tensor(driver, dtype, std::move(shape), values.size() * sizeof(T));
    tensor.memory.upload(values.data());
    return tensor;
  }
  static Tensor f32(const std::string& driver, std::vector<std::int64_t> shape,
                    const std::vector<float>& values) {
    return of(driver, DType::f32, std::move(shape), values);
  }
  static Tensor i64(const std::string& driver, const std::vector<std::int64_t>& values) {
    return of(driver, DType::i64, {static_cast<std::int64_t>(values.size())}, values);
  }

  Tensor(const std::string& driver, DType the_dtype, std::vector<std::int64_t> the_shape,
         std::size_t bytes);
  InputArg arg() const;
  template <class T>
  std::vector<T> values() const {
    std::vector<T> out(memory.bytes() / sizeof(T));
    memory.download(out.data());
    return out;
  }

  DType dtype;
  std::vector<std::int64_t> shape, strides;
  DeviceArray memory;
};

inline InputArg integer(std::int64_t value) {
  InputArg arg;
  arg.integer = value;
  return arg;
}

// ---- host
// ----------------------------------------------------------------------------------------

class TestHost : public Host {
 public:
  explicit TestHost(std::string driver) : driver_(std::move(driver)) {}

  struct Output {
    DType dtype = DType::f32;
    std::vector<std::int64_t> shape, strides;
    DeviceArray memory;
    std::int64_t offset = 0, integer = 0;
    int view_of_input = -1, view_of_output = -1;
    std::uint64_t handle = 0;
  };
  std::map<int, Output> outputs;
  std::vector<std::uint64_t> released;
  std::vector<std::string> called;
  using Handler = std::function<void(std::span<const TensorRef>, std::span<const std::int64_t>,
                                     std::span<const TensorRef>, std::span<CallResult>)>;
  std::map<std::string, Handler> handlers;

  std::vector<float> f32(int k) const { return values<float>(k); }
  template <class T>
  std::vector<T> values(int k) const {
    const DeviceArray& memory = outputs.at(k).memory;
    std::vector<T> out(memory.bytes() / sizeof(T));
    memory.download(out.data());
    return out;
  }
  // Memory for a call's result, alive until release(handle).
  CallResult make_result(std::size_t bytes, const void* contents);
  DeviceArray result(std::uint64_t handle) const { return results_.at(handle); }
  std::size_t live_results() const { return results_.size(); }

  void* allocate_output(int k, DType dtype, std::span<const std::int64_t> shape,
                        std::span<const std::int64_t> strides) override;
  void set_view_output(int k, int of_input, std::span<const std::int64_t> shape,
                       std::span<const std::int64_t> strides, std::int64_t offset) override;
  void set_output_view_output(int k, int of_output, std::span<const std::int64_t> shape,
                              std::span<const std::int64_t> strides, std::int64_t offset) override;
  void set_integer_output(int k, std::int64_t value) override;
  void set_external_output(int k, std::uint64_t handle) override;
  void call(const program::Call& call, std::span<const TensorRef> inputs,
            std::span<const std::int64_t> integers, std::span<const TensorRef> expected,
            std::span<CallResult> outputs) override;
  void release(std::uint64_t handle) override;

 private:
  std::string driver_;
  std::map<std::uint64_t, DeviceArray> results_;
  std::uint64_t next_handle_ = 1;
};

// Host memory of a tensor that a call sees.
std::vector<float> read_f32(const std::string& driver, const TensorRef& tensor, std::size_t count);

// ---- conformance
// ---------------------------------------------------------------------------------

bool computes(const std::string& driver);  // false: null, whose memory has no contents

// Values are compared only where the driver computes any.
#define EXPECT_COMPUTED(...)  \
  do {                        \
    if (computes(driver)) {   \
      EXPECT_EQ(__VA_ARGS__); \
    }                         \
  } while (false)

struct ConformanceCase {
  std::string name;
  void (*body)(const std::string& driver);
};
std::vector<ConformanceCase>& conformance_cases();

#define CONFORMANCE(name)                                                                          \
  static void conformance_##name(const std::string& driver);                                       \
  static const bool conformance_##name##_is_there =                                                \
      (::gex::runtime::testing::conformance_cases().push_back({#name, conformance_##name}), true); \
  static void conformance_##name([[maybe_unused]] const std::string& driver)

std::string error_of(const std::function<void()>& work);  // message of the UserError it throws

#define EXPECT_HAS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "message is: " << (text)

}  // namespace gex::runtime::testing
