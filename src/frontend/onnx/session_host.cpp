#include "frontend/onnx/session_host.hpp"

#include "base/error.hpp"
#include "base/strided_copy.hpp"
#include "frontend/onnx/session.hpp"
#include "runtime/session/host_calls.hpp"

namespace gex::onnx {
namespace {

using Sizes = std::vector<std::int64_t>;

class ModelHost : public runtime::Host {
 public:
  ModelHost(std::size_t outputs, std::span<const HostValue* const> inputs)
      : inputs_(inputs), results_(outputs) {}

  void* allocate_output(int k, DType dtype, std::span<const std::int64_t> shape,
                        std::span<const std::int64_t> strides) override {
    Result& r = at(k);
    r.dtype = dtype;
    r.shape.assign(shape.begin(), shape.end());
    r.strides.assign(strides.begin(), strides.end());
    r.is_dense = r.strides == dense_strides_of(shape);
    r.own = HostTensor(dtype, r.is_dense ? r.shape : Sizes{extent_of(shape, strides)});
    r.kind = Result::Kind::own;
    return r.own.data();
  }
  void set_view_output(int k, int of_input, std::span<const std::int64_t> shape,
                       std::span<const std::int64_t> strides, std::int64_t offset) override {
    const HostValue& input = *inputs_[static_cast<std::size_t>(of_input)];
    Result& r = at(k);
    r.kind = Result::Kind::own;
    r.is_dense = true;
    const DType dtype = memory_type_of(input.elem);
    const auto* data = static_cast<const std::byte*>(input.data.get());
    r.own = dense_copy(dtype, shape, strides,
                       data + offset * static_cast<std::int64_t>(size_of(dtype)));
  }
  void set_output_view_output(int k, int of_output, std::span<const std::int64_t> shape,
                              std::span<const std::int64_t> strides, std::int64_t offset) override {
    Result& r = at(k);
    r.kind = Result::Kind::view;
    r.of = of_output;
    r.shape.assign(shape.begin(), shape.end());
    r.strides.assign(strides.begin(), strides.end());
    r.offset = offset;
  }
  void set_integer_output(int k, std::int64_t value) override {
    Result& r = at(k);
    r.kind = Result::Kind::own;
    r.is_dense = true;
    r.own = HostTensor(DType::i64, {});
    r.own.set_int(0, value);
  }
  void set_external_output(int k, std::uint64_t handle) override {
    Result& r = at(k);
    r.kind = Result::Kind::own;
    r.is_dense = true;
    r.own = calls_.at(handle);
  }

  void call(const program::Call& call, std::span<const runtime::TensorRef> inputs,
            std::span<const std::int64_t> integers, std::span<const runtime::TensorRef> expected,
            std::span<CallResult> outputs) override {
    calls_.run(call, inputs, integers, expected, outputs);
  }
  void release(std::uint64_t handle) override { calls_.release(handle); }

  std::vector<HostTensor> take() {
    std::vector<HostTensor> tensors(results_.size());
    for (std::size_t k = 0; k < results_.size(); ++k)
      if (results_[k].kind != Result::Kind::own || !results_[k].is_dense) tensors[k] = copied(k);
    for (std::size_t k = 0; k < results_.size(); ++k)
      if (results_[k].kind == Result::Kind::own && results_[k].is_dense)
        tensors[k] = std::move(results_[k].own);
    return tensors;
  }

 private:
  struct Result {
    enum class Kind { none, own, view } kind = Kind::none;
    DType dtype = DType::f32;
    Sizes shape, strides;
    bool is_dense = false;
    int of = -1;
    std::int64_t offset = 0;
    HostTensor own;
  };
  Result& at(int k) { return results_[static_cast<std::size_t>(k)]; }
  HostTensor copied(std::size_t k) {
    const Result& r = results_[k];
    GEX_CHECK(r.kind != Result::Kind::none, "output ", k, " was never made");
    if (r.kind == Result::Kind::own)
      return dense_copy(r.own.dtype(), r.shape, r.strides, r.own.data());
    const Result& base = at(r.of);
    const DType dtype = base.own.dtype();
    return dense_copy(dtype, r.shape, r.strides,
                      base.own.data() + r.offset * static_cast<std::int64_t>(size_of(dtype)));
  }

  std::span<const HostValue* const> inputs_;
  std::vector<Result> results_;
  runtime::HostCalls calls_;
};

}  // namespace

std::vector<HostTensor> run_session(runtime::Session& session,
                                    std::span<const HostValue* const> inputs) {
  const program::Program& program = session.program();
  GEX_CHECK(inputs.size() == program.inputs.size(), "inputs of an ONNX program");
  std::vector<runtime::InputArg> args(inputs.size());
  std::vector<Sizes> strides(inputs.size());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    strides[k] = dense_strides_of(inputs[k]->shape);
    args[k].tensor = {const_cast<void*>(inputs[k]->data.get()), memory_type_of(inputs[k]->elem),
                      inputs[k]->shape, strides[k]};
  }
  ModelHost host(program.outputs.size(), inputs);
  session.run_from_host(args, host);
  return host.take();
}

}  // namespace gex::onnx
