#include "compile/execute.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/strided_copy.hpp"
#include "runtime/device.hpp"
#include "runtime/session/host_calls.hpp"
#include "runtime/session/index_check.hpp"
#include "target/target.hpp"

namespace gex {
namespace {

class TensorHost : public runtime::Host {
 public:
  TensorHost(const program::Program& program, std::span<HostTensor> inputs)
      : inputs_(inputs), results_(program.outputs.size()) {}

  void* allocate_output(int k, DType dtype, std::span<const std::int64_t> shape,
                        std::span<const std::int64_t> strides) override {
    Result& result = at(k);
    result = {Result::Kind::own,
              dtype,
              {shape.begin(), shape.end()},
              {strides.begin(), strides.end()},
              0,
              0,
              {}};
    // Not empty, so that data() is not null.
    result.memory.resize(static_cast<std::size_t>(extent_of(shape, strides)) * size_of(dtype) + 1);
    return result.memory.data();
  }
  void set_view_output(int k, int of_input, std::span<const std::int64_t> shape,
                       std::span<const std::int64_t> strides, std::int64_t offset) override {
    at(k) = {Result::Kind::input,
             inputs_[static_cast<std::size_t>(of_input)].dtype(),
             {shape.begin(), shape.end()},
             {strides.begin(), strides.end()},
             of_input,
             offset,
             {}};
  }
  void set_output_view_output(int k, int of_output, std::span<const std::int64_t> shape,
                              std::span<const std::int64_t> strides, std::int64_t offset) override {
    at(k) = {Result::Kind::output,
             at(of_output).dtype,
             {shape.begin(), shape.end()},
             {strides.begin(), strides.end()},
             of_output,
             offset,
             {}};
  }
  void set_integer_output(int k, std::int64_t value) override {
    at(k).kind = Result::Kind::integer;
    at(k).offset = value;
  }
  void set_external_output(int k, std::uint64_t handle) override {
    const HostTensor& from = calls_.at(handle);
    at(k) = {Result::Kind::own,
             from.dtype(),
             from.shape(),
             dense_strides_of(from.shape()),
             0,
             0,
             {from.data(), from.data() + from.bytes()}};
  }
  void call(const program::Call& call, std::span<const runtime::TensorRef> inputs,
            std::span<const std::int64_t> integers, std::span<const runtime::TensorRef> expected,
            std::span<CallResult> outputs) override {
    if (is_index_check(call)) fail_index_check(call, inputs, integers);
    calls_.run(call, inputs, integers, expected, outputs);
  }
  void release(std::uint64_t handle) override { calls_.release(handle); }

  std::vector<HostTensor> take() {
    std::vector<HostTensor> tensors;
    for (std::size_t k = 0; k < results_.size(); ++k) tensors.push_back(take(k));
    return tensors;
  }

 private:
  struct Result {
    enum class Kind { none, own, input, output, integer } kind = Kind::none;
    DType dtype = DType::f32;
    std::vector<std::int64_t> shape, strides;
    int of = 0;
    std::int64_t offset = 0;
    std::vector<std::byte> memory;
  };

  Result& at(int k) { return results_[static_cast<std::size_t>(k)]; }

  HostTensor take(std::size_t k) {
    const Result& r = results_[k];
    std::int64_t skip = r.offset * static_cast<std::int64_t>(size_of(r.dtype));
    switch (r.kind) {
      case Result::Kind::own:
        return dense_copy(r.dtype, r.shape, r.strides, r.memory.data());
      case Result::Kind::input:
        return dense_copy(r.dtype, r.shape, r.strides,
                          inputs_[static_cast<std::size_t>(r.of)].data() + skip);
      case Result::Kind::output:
        return dense_copy(r.dtype, r.shape, r.strides, at(r.of).memory.data() + skip);
      case Result::Kind::integer: {
        HostTensor value(DType::i64, {});
        value.set_int(0, r.offset);
        return value;
      }
      case Result::Kind::none:
        return HostTensor(DType::boolean, {0});
    }
    return {};
  }

  std::span<HostTensor> inputs_;
  std::vector<Result> results_;
  runtime::HostCalls calls_;
};

}  // namespace

std::vector<HostTensor> execute(runtime::Session& session, std::span<HostTensor> inputs) {
  const program::Program& program = session.program();
  if (inputs.size() != program.inputs.size()) {
    fail(ErrorCode::invalid_argument, "the program takes ", program.inputs.size(), " inputs, got ",
         inputs.size());
  }
  std::vector<runtime::InputArg> args(inputs.size());
  std::vector<std::vector<std::int64_t>> strides(inputs.size());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (program.inputs[k].kind == program::InputDesc::Kind::integer) {
      args[k].integer = inputs[k].get_int(0);
      continue;
    }
    strides[k] = dense_strides_of(inputs[k].shape());
    args[k].tensor = {inputs[k].data(), inputs[k].dtype(), inputs[k].shape(), strides[k]};
  }
  TensorHost host(program, inputs);
  session.run_from_host(args, host);
  return host.take();
}

std::shared_ptr<runtime::DeviceContext> open_target(const std::string& target) {
  const std::string parsed = parse_target(target).text();
  try {
    return runtime::open_device(runtime::driver_of(parsed));
  } catch (const UserError& error) {
    fail(error.code(), "target ", parsed, " can't be used here: ", error.what());
  }
}

}  // namespace gex
