#pragma once
// The Host of runs through gex.h: results go into the caller's memory or into memory of the
// library.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "frontend/capi/convert.hpp"
#include "frontend/capi/resources.hpp"
#include "frontend/capi/tagged.hpp"
#include "runtime/session/host_calls.hpp"
#include "runtime/session/session.hpp"

namespace gex::capi {

// Library memory behind a gex_tensor.
struct OwnedTensor : Tagged<Tag::tensor> {
  OwnedTensor(std::shared_ptr<const Memory> memory, DType dtype, std::vector<std::int64_t> shape);
  ~OwnedTensor();
  OwnedTensor(const OwnedTensor&) = delete;
  OwnedTensor& operator=(const OwnedTensor&) = delete;
  std::byte* data() const { return data_; }

  std::vector<std::int64_t> shape, strides;  // dense
  DType dtype;

 private:
  std::shared_ptr<const Memory> memory_;
  std::size_t bytes_;
  std::byte* data_;
};

// The elements of `from` in new memory with these strides.
std::unique_ptr<OwnedTensor> copy_with_strides(const TensorView& from,
                                               std::span<const std::int64_t> strides,
                                               std::shared_ptr<const Memory> memory);

// The caller frees it with gex_tensor_release.
void hand_out(std::unique_ptr<OwnedTensor> owned, gex_tensor& place);

class RunHost : public runtime::Host {
 public:
  // `outputs[k].data` null: library memory. The spans must outlive the run. `outputs_on_device`:
  // all of them are memory of the device, which only kernels can write. `stream`: the caller's.
  RunHost(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
          std::shared_ptr<const Memory> memory, bool outputs_on_device,
          std::optional<std::uint64_t> stream);

  std::optional<std::uint64_t> stream() override { return stream_; }

  void* allocate_output(int k, DType dtype, std::span<const std::int64_t> shape,
                        std::span<const std::int64_t> strides) override;
  void set_view_output(int k, int of_input, std::span<const std::int64_t> shape,
                       std::span<const std::int64_t> strides, std::int64_t offset) override;
  void set_output_view_output(int k, int of_output, std::span<const std::int64_t> shape,
                              std::span<const std::int64_t> strides, std::int64_t offset) override;
  void set_integer_output(int k, std::int64_t value) override;
  void set_external_output(int k, std::uint64_t handle) override;
  void call(const program::Call& call, std::span<const runtime::TensorRef> inputs,
            std::span<const std::int64_t> integers, std::span<const runtime::TensorRef> expected,
            std::span<CallResult> outputs) override;
  void release(std::uint64_t handle) override;

  // After the run: copies results that were computed in temporary memory to the caller's memory.
  // Null for results in the caller's own memory.
  std::vector<std::unique_ptr<OwnedTensor>> take();

 private:
  struct Result {
    DType dtype = DType::f32;
    std::vector<std::int64_t> shape, strides;
    const std::byte* data = nullptr;     // where the elements are after the run
    bool direct = false;                 // they were written directly to the caller's memory
    std::unique_ptr<OwnedTensor> aside;  // else: memory that holds them until take()
    int of_output = -1;                  // a view of this output
    std::int64_t offset = 0;
  };

  bool fits_directly(std::size_t k, std::span<const std::int64_t> strides) const;
  void check_wanted(std::size_t k, const Result& result) const;
  Result& begin(int k, DType dtype, std::span<const std::int64_t> shape,
                std::span<const std::int64_t> strides);
  std::unique_ptr<OwnedTensor> deliver(std::size_t k);

  std::unique_ptr<OwnedTensor> new_tensor(DType dtype, std::vector<std::int64_t> shape) const;

  std::shared_ptr<const Memory> memory_;
  runtime::HostCalls calls_;
  std::span<const TensorView> inputs_;
  std::span<const TensorView> wanted_;
  std::vector<Result> results_;
  const bool outputs_on_device_;
  const std::optional<std::uint64_t> stream_;
};

}  // namespace gex::capi
