#include "runtime/session/host_calls.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/strided_copy.hpp"
#include "runtime/session/host_functions.hpp"
#include "runtime/session/user_kernels.hpp"

namespace gex::runtime {
namespace {

HostTensor tensor_of(const TensorRef& ref) {
  return dense_copy(ref.dtype, ref.shape, ref.strides, static_cast<const std::byte*>(ref.data));
}

void check_result(const std::string& name, std::size_t k, const HostTensor& result,
                  const TensorRef& expected) {
  bool fits = result.dtype() == expected.dtype && result.shape().size() == expected.shape.size();
  for (std::size_t d = 0; fits && d < expected.shape.size(); ++d)
    fits = expected.shape[d] < 0 || expected.shape[d] == result.shape()[d];
  GEX_CHECK(fits, name, ": result ", k, " has a different type than in the graph");
}

}  // namespace

void HostCalls::run(const program::Call& call, std::span<const TensorRef> inputs,
                    std::span<const std::int64_t> integers, std::span<const TensorRef> expected,
                    std::span<Host::CallResult> outputs) {
  if (is_kernel_call(call)) return run_kernel(call, inputs, expected, outputs);
  const HostFunction* function =
      call.callee == kHostCallee ? find_host_function(call.name) : nullptr;
  if (function == nullptr)
    fail(ErrorCode::unsupported, "the program calls host function \"", call.name,
         "\", which is not registered in this process; register it or run the program where it was "
         "compiled");
  std::vector<HostTensor> operands;
  for (const TensorRef& ref : inputs) operands.push_back(tensor_of(ref));
  std::vector<HostTensor> results = (*function)(operands, integers);
  GEX_CHECK(results.size() == outputs.size(), call.name, " gave ", results.size(), " results");
  for (std::size_t k = 0; k < results.size(); ++k) {
    check_result(call.name, k, results[k], expected[k]);
    outputs[k].shape = results[k].shape();
    outputs[k].handle = ++last_;
    HostTensor& kept = results_[last_] = std::move(results[k]);
    outputs[k].data = kept.data();
  }
}

void HostCalls::run_kernel(const program::Call& call, std::span<const TensorRef> inputs,
                           std::span<const TensorRef> expected,
                           std::span<Host::CallResult> outputs) {
  const KernelCall named = kernel_of_call(call);
  const UserKernel& kernel = user_kernel(named.name);
  std::vector<HostTensor> results;
  std::vector<TensorRef> places;
  std::vector<std::vector<std::int64_t>> strides;
  results.reserve(expected.size());
  for (const TensorRef& ref : expected) {
    for (std::int64_t size : ref.shape)
      if (size < 0)
        fail(ErrorCode::unsupported, "kernel '", named.name,
             "': sizes of its results must follow from those of its inputs");
    results.emplace_back(ref.dtype, std::vector<std::int64_t>(ref.shape.begin(), ref.shape.end()));
    strides.push_back(dense_strides_of(ref.shape));
  }
  for (std::size_t k = 0; k < results.size(); ++k)
    places.push_back({results[k].data(), results[k].dtype(), results[k].shape(), strides[k]});
  kernel(inputs, places, named.parameters);
  for (std::size_t k = 0; k < results.size(); ++k) {
    outputs[k].shape = results[k].shape();
    outputs[k].handle = ++last_;
    HostTensor& kept = results_[last_] = std::move(results[k]);
    outputs[k].data = kept.data();
  }
}

const HostTensor& HostCalls::at(std::uint64_t handle) const { return results_.at(handle); }
void HostCalls::release(std::uint64_t handle) { results_.erase(handle); }

}  // namespace gex::runtime
