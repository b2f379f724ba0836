// Tensors of the caller: the part of convert.hpp that running a program needs.

#include <algorithm>

#include "base/strided_copy.hpp"
#include "frontend/capi/boundary.hpp"
#include "frontend/capi/convert.hpp"

namespace gex::capi {

static constexpr std::size_t kMaxRank = 64;

void check_rank(std::size_t rank, const std::string& what) {
  if (rank > kMaxRank)
    fail(ErrorCode::invalid_argument, what, " has ", rank, " axes; at most ", kMaxRank,
         " are possible");
}

void check_bytes(const Type& type) {
  auto total = static_cast<std::int64_t>(size_of(type.dtype));
  for (Dim size : type.shape)
    if (size == Dim(0)) return;
  for (Dim size : type.shape) {
    const auto number = size.as_const();
    if (number && __builtin_mul_overflow(total, *number, &total))
      fail(ErrorCode::invalid_argument, "the size of ", type, " in bytes overflows 64 bits");
  }
}

DType to_dtype(gex_dtype dtype, const char* what) {
  if (dtype < 0 || dtype >= kDTypeCount)
    fail(ErrorCode::invalid_argument, what, " is ", dtype,
         ", which is not a dtype; dtypes are 0 to ", kDTypeCount - 1);
  return static_cast<DType>(dtype);
}

gex_dtype from_dtype(DType dtype) { return static_cast<gex_dtype>(dtype); }

std::string TensorView::text() const {
  return str(dtype, text_of(Shape(shape.begin(), shape.end())));
}

bool TensorView::empty() const { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

TensorView to_view(const gex_tensor& tensor, bool need_data, const std::string& what) {
  if (tensor.struct_size < sizeof(gex_tensor))
    fail(ErrorCode::invalid_argument, what, ": struct_size is ", tensor.struct_size, ", expected ",
         sizeof(gex_tensor), ": start from GEX_TENSOR_INIT");
  check_rank(tensor.rank, what);
  require_list(tensor.shape, tensor.rank, str(what, ".shape").c_str());
  TensorView view;
  view.dtype = to_dtype(tensor.dtype, str(what, ".dtype").c_str());
  view.data = tensor.data;
  view.shape.assign(tensor.shape, tensor.shape + tensor.rank);
  for (std::int64_t size : view.shape)
    if (size < 0)
      fail(ErrorCode::invalid_argument, what, " is ", view.text(), ": a size can't be negative");
  check_bytes(Type::tensor(view.dtype, Shape(view.shape.begin(), view.shape.end())));
  if (tensor.strides == nullptr) {
    view.strides = dense_strides_of(view.shape);
  } else {
    view.strides.assign(tensor.strides, tensor.strides + tensor.rank);
  }
  if (need_data && view.data == nullptr && !view.empty())
    fail(ErrorCode::invalid_argument, what, " is ", view.text(), " but its data is NULL");
  return view;
}

HostTensor to_host(const TensorView& view) {
  HostTensor tensor(view.dtype, view.shape);
  copy_elements(size_of(view.dtype), view.shape, static_cast<const std::byte*>(view.data),
                view.strides, tensor.data(), dense_strides_of(view.shape));
  return tensor;
}

}  // namespace gex::capi
