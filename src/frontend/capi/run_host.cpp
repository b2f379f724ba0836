#include "frontend/capi/run_host.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>

#include "base/error.hpp"
#include "base/strided_copy.hpp"
#include "runtime/session/index_check.hpp"

namespace gex::capi {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line and the widest vector

bool overlap(const TensorView& a, const TensorView& b) {
  const auto range = [](const TensorView& view) {
    const auto* first = static_cast<const std::byte*>(view.data);
    const std::byte* last = first;
    for (std::size_t d = 0; d < view.shape.size(); ++d) {
      const auto reach =
          (view.shape[d] - 1) * view.strides[d] * static_cast<std::int64_t>(size_of(view.dtype));
      (reach < 0 ? first : last) += reach;
    }
    return std::pair(first, last + size_of(view.dtype));
  };
  if (a.data == nullptr || b.data == nullptr || a.empty() || b.empty()) return false;
  const auto [a_first, a_end] = range(a);
  const auto [b_first, b_end] = range(b);
  return std::less<>()(a_first, b_end) && std::less<>()(b_first, a_end);
}

}  // namespace

OwnedTensor::OwnedTensor(std::shared_ptr<const Memory> memory, DType type,
                         std::vector<std::int64_t> sizes)
    : shape(std::move(sizes)),
      strides(dense_strides_of(shape)),
      dtype(type),
      memory_(std::move(memory)) {
  const auto bytes = static_cast<std::size_t>(extent_of(shape, strides)) * size_of(dtype);
  bytes_ = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  data_ = static_cast<std::byte*>(memory_->allocate(bytes_, kAlignment));
}

OwnedTensor::~OwnedTensor() { memory_->release(data_, bytes_); }

std::unique_ptr<OwnedTensor> copy_with_strides(const TensorView& from,
                                               std::span<const std::int64_t> strides,
                                               std::shared_ptr<const Memory> memory) {
  auto copy = std::make_unique<OwnedTensor>(
      std::move(memory), from.dtype, std::vector<std::int64_t>{extent_of(from.shape, strides)});
  copy_elements(size_of(from.dtype), from.shape, static_cast<const std::byte*>(from.data),
                from.strides, copy->data(), strides);
  return copy;
}

void hand_out(std::unique_ptr<OwnedTensor> owned, gex_tensor& place) {
  place.dtype = from_dtype(owned->dtype);
  place.data = owned->data();
  place.rank = owned->shape.size();
  place.shape = owned->shape.data();
  place.strides = owned->strides.data();
  place.owner = owned.release();
}

RunHost::RunHost(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                 std::shared_ptr<const Memory> memory, bool outputs_on_device,
                 std::optional<std::uint64_t> stream)
    : memory_(std::move(memory)),
      inputs_(inputs),
      wanted_(outputs),
      results_(outputs.size()),
      outputs_on_device_(outputs_on_device),
      stream_(stream) {}

std::unique_ptr<OwnedTensor> RunHost::new_tensor(DType dtype,
                                                 std::vector<std::int64_t> shape) const {
  return std::make_unique<OwnedTensor>(memory_, dtype, std::move(shape));
}

void RunHost::check_wanted(std::size_t k, const Result& result) const {
  const TensorView& wanted = wanted_[k];
  if (wanted.data == nullptr) return;
  const TensorView got{result.dtype, nullptr, result.shape, result.strides};
  if (wanted.dtype != result.dtype)
    fail(ErrorCode::type_mismatch, "output ", k, " is ", got.text(), ", but the memory for it is ",
         wanted.text());
  if (wanted.shape != result.shape)
    fail(ErrorCode::shape_mismatch, "output ", k, " is ", got.text(), ", but the memory for it is ",
         wanted.text());
}

RunHost::Result& RunHost::begin(int k, DType dtype, std::span<const std::int64_t> shape,
                                std::span<const std::int64_t> strides) {
  Result& result = results_[static_cast<std::size_t>(k)];
  result.dtype = dtype;
  result.shape.assign(shape.begin(), shape.end());
  result.strides.assign(strides.begin(), strides.end());
  check_wanted(static_cast<std::size_t>(k), result);
  return result;
}

// Whether the kernels may write directly to the caller's memory: it has the layout they write, and
// no other tensor of this call overlaps it.
bool RunHost::fits_directly(std::size_t k, std::span<const std::int64_t> strides) const {
  const TensorView& wanted = wanted_[k];
  if (wanted.data == nullptr) return false;
  for (std::size_t d = 0; d < strides.size(); ++d)
    if (wanted.shape[d] > 1 && wanted.strides[d] != strides[d]) return false;
  for (const TensorView& input : inputs_)
    if (overlap(wanted, input)) return false;
  for (std::size_t other = 0; other < wanted_.size(); ++other)
    if (other != k && overlap(wanted, wanted_[other])) return false;
  return true;
}

void* RunHost::allocate_output(int k, DType dtype, std::span<const std::int64_t> shape,
                               std::span<const std::int64_t> strides) {
  const auto at = static_cast<std::size_t>(k);
  Result& result = begin(k, dtype, shape, strides);
  if (fits_directly(at, strides)) {
    result.direct = true;
    result.data = static_cast<const std::byte*>(wanted_[at].data);
    return wanted_[at].data;
  }
  if (outputs_on_device_)
    fail(ErrorCode::unsupported, "output ", k, " must be dense memory of the device that no other ",
         "tensor of the run overlaps");
  const bool dense = result.strides == dense_strides_of(result.shape);
  try {
    result.aside = new_tensor(
        dtype, dense ? result.shape : std::vector<std::int64_t>{extent_of(shape, strides)});
  } catch (const UserError& error) {
    const TensorView view{dtype, nullptr, result.shape, result.strides};
    fail(error.code(), "output ", k, ", ", view.text(), ": ", error.what());
  }
  result.data = result.aside->data();
  return result.aside->data();
}

void RunHost::set_view_output(int k, int of_input, std::span<const std::int64_t> shape,
                              std::span<const std::int64_t> strides, std::int64_t offset) {
  const TensorView& input = inputs_[static_cast<std::size_t>(of_input)];
  Result& result = begin(k, input.dtype, shape, strides);
  result.data = static_cast<const std::byte*>(input.data) +
                offset * static_cast<std::int64_t>(size_of(input.dtype));
}

void RunHost::set_output_view_output(int k, int of_output, std::span<const std::int64_t> shape,
                                     std::span<const std::int64_t> strides, std::int64_t offset) {
  Result& result = begin(k, results_[static_cast<std::size_t>(of_output)].dtype, shape, strides);
  result.of_output = of_output;
  result.offset = offset;
}

void RunHost::set_integer_output(int k, std::int64_t value) {
  Result& result = begin(k, DType::i64, {}, {});
  result.aside = new_tensor(DType::i64, {});
  *reinterpret_cast<std::int64_t*>(result.aside->data()) = value;
  result.data = result.aside->data();
}

void RunHost::set_external_output(int k, std::uint64_t handle) {
  const HostTensor& tensor = calls_.at(handle);
  Result& result = begin(k, tensor.dtype(), tensor.shape(), dense_strides_of(tensor.shape()));
  result.data = tensor.data();
}
void RunHost::release(std::uint64_t handle) { calls_.release(handle); }

void RunHost::call(const program::Call& call, std::span<const runtime::TensorRef> inputs,
                   std::span<const std::int64_t> integers,
                   std::span<const runtime::TensorRef> expected, std::span<CallResult> outputs) {
  if (is_index_check(call)) fail_index_check(call, inputs, integers);
  calls_.run(call, inputs, integers, expected, outputs);
}

// Views of inputs are copied out before anything is written to the caller's memory, so that
// overlapping tensors of the caller give the same results as separate ones.
std::vector<std::unique_ptr<OwnedTensor>> RunHost::take() {
  for (Result& result : results_) {
    if (result.of_output < 0) continue;
    const Result& base = results_[static_cast<std::size_t>(result.of_output)];
    GEX_CHECK(base.data != nullptr, "a view of an output that has no memory");
    result.data = base.data + result.offset * static_cast<std::int64_t>(size_of(result.dtype));
  }
  std::vector<std::unique_ptr<OwnedTensor>> dense(results_.size());
  for (std::size_t k = 0; k < results_.size(); ++k)
    if (!results_[k].direct) dense[k] = deliver(k);
  for (std::size_t k = 0; k < results_.size(); ++k) {
    if (results_[k].direct || wanted_[k].data == nullptr) continue;
    copy_elements(size_of(dense[k]->dtype), dense[k]->shape, dense[k]->data(), dense[k]->strides,
                  static_cast<std::byte*>(wanted_[k].data), wanted_[k].strides);
    dense[k].reset();
  }
  return dense;
}

std::unique_ptr<OwnedTensor> RunHost::deliver(std::size_t k) {
  Result& result = results_[k];
  GEX_CHECK(result.data != nullptr || extent_of(result.shape, result.strides) == 0, "output ", k,
            " was never made");
  // Other results may be views of memory that is returned here: it lives until the caller releases
  // it.
  if (result.aside && result.aside->shape == result.shape &&
      result.strides == dense_strides_of(result.shape)) {
    bool viewed = false;
    for (const Result& other : results_) viewed |= other.of_output == static_cast<int>(k);
    if (!viewed) return std::move(result.aside);
  }
  auto owned = new_tensor(result.dtype, result.shape);
  copy_elements(size_of(result.dtype), result.shape, result.data, result.strides, owned->data(),
                owned->strides);
  return owned;
}

}  // namespace gex::capi
