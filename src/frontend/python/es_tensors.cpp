#include "frontend/python/es_tensors.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/strided_copy.hpp"

namespace gex::python {
namespace {

struct Match {
  nb::dlpack::dtype_code code;
  int bits;
  es::DType dtype;
};
constexpr Match kMatches[] = {
    {nb::dlpack::dtype_code::Float, 64, es::DType::f64},
    {nb::dlpack::dtype_code::Float, 32, es::DType::f32},
    {nb::dlpack::dtype_code::Float, 16, es::DType::f16},
    {nb::dlpack::dtype_code::Bfloat, 16, es::DType::bf16},
    {nb::dlpack::dtype_code::Int, 64, es::DType::i64},
    {nb::dlpack::dtype_code::Int, 32, es::DType::i32},
    {nb::dlpack::dtype_code::Int, 16, es::DType::i16},
    {nb::dlpack::dtype_code::Int, 8, es::DType::i8},
    {nb::dlpack::dtype_code::UInt, 8, es::DType::u8},
    {nb::dlpack::dtype_code::Bool, 8, es::DType::boolean},
};

es::DType dtype_of(nb::dlpack::dtype dtype, const std::string& what) {
  for (const Match& match : kMatches)
    if (static_cast<std::uint8_t>(match.code) == dtype.code && match.bits == dtype.bits &&
        dtype.lanes == 1)
      return match.dtype;
  throw es::Error(GEX_UNSUPPORTED,
                  what +
                      " has a dtype without tensors here; there are float64, float32, float16, "
                      "bfloat16, int64, int32, int16, int8, uint8 and bool");
}

nb::dlpack::dtype dlpack_of(es::DType dtype) {
  const Match& match = kMatches[static_cast<int>(dtype)];
  return {static_cast<std::uint8_t>(match.code), static_cast<std::uint8_t>(match.bits), 1};
}
static_assert(kMatches[static_cast<int>(es::DType::boolean)].dtype == es::DType::boolean);

nb::object to_numpy(es::Tensor tensor, std::size_t k) {
  if (tensor.dtype() == es::DType::bf16)
    throw es::Error(GEX_UNSUPPORTED, "result " + std::to_string(k) + " is " + tensor.text() +
                                         ", and NumPy has no bf16; cast it to f32 in the graph");
  auto* owned = new es::Tensor(std::move(tensor));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<es::Tensor*>(p); });
  std::vector<std::size_t> shape(owned->shape().begin(), owned->shape().end());
  nb::ndarray<nb::numpy> array(owned->data(), shape.size(), shape.data(), owner, nullptr,
                               dlpack_of(owned->dtype()));
  return nb::cast(array);
}

}  // namespace

ArrayArgument::ArrayArgument(const HostArray& array, const std::string& what)
    : data_(const_cast<void*>(array.data())), dtype_(dtype_of(array.dtype(), what)) {
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    shape_.push_back(static_cast<std::int64_t>(array.shape(d)));
    strides_.push_back(array.stride(d));
  }
}

gex_tensor ArrayArgument::c() const {
  gex_tensor tensor = GEX_TENSOR_INIT;
  tensor.dtype = static_cast<gex_dtype>(dtype_);
  tensor.data = data_;
  tensor.rank = shape_.size();
  tensor.shape = shape_.data();
  tensor.strides = strides_.data();
  return tensor;
}

es::Tensor ArrayArgument::copied() const {
  es::Tensor tensor(dtype_, shape_);
  std::vector<std::int64_t> dense(shape_.size(), 1);
  for (std::size_t d = shape_.size(); d-- > 1;) dense[d - 1] = dense[d] * shape_[d];
  copy_elements(es::SizeOf(dtype_), shape_, static_cast<const std::byte*>(data_), strides_,
                static_cast<std::byte*>(tensor.data()), dense);
  return tensor;
}

nb::list run_on_arrays(const es::Program& program, const std::vector<HostArray>& inputs) {
  std::vector<ArrayArgument> arguments;
  for (std::size_t k = 0; k < inputs.size(); ++k)
    arguments.emplace_back(inputs[k], "input " + std::to_string(k));
  std::vector<gex_tensor> tensors;
  for (const ArrayArgument& argument : arguments) tensors.push_back(argument.c());
  std::vector<es::Tensor> results;
  {
    const nb::gil_scoped_release unlocked;
    results = program.RunOn(tensors);
  }
  nb::list list;
  for (std::size_t k = 0; k < results.size(); ++k) list.append(to_numpy(results[k], k));
  return list;
}

}  // namespace gex::python
