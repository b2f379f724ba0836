#pragma once
// Errors, dtypes, sizes and tensors.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gex/gex.h"

namespace gex::es {

class Error : public std::runtime_error {
 public:
  Error(gex_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  gex_status status() const { return status_; }

 private:
  gex_status status_;
};

namespace detail {

inline void Check(gex_status status) {
  if (status != GEX_OK) throw Error(status, gex_last_error());
}

// A string owned by the library.
inline std::string Take(char* text) {
  std::unique_ptr<char, void (*)(char*)> owned(text, gex_text_free);
  return std::string(owned.get());
}

}  // namespace detail

enum class DType : gex_dtype {
  f64 = GEX_F64,
  f32 = GEX_F32,
  f16 = GEX_F16,
  bf16 = GEX_BF16,
  i64 = GEX_I64,
  i32 = GEX_I32,
  i16 = GEX_I16,
  i8 = GEX_I8,
  u8 = GEX_U8,
  boolean = GEX_BOOL,
};

inline const char* NameOf(DType dtype) {
  static constexpr const char* names[] = {"f64", "f32", "f16", "bf16", "i64",
                                          "i32", "i16", "i8",  "u8",   "bool"};
  return names[static_cast<int>(dtype)];
}
inline std::size_t SizeOf(DType dtype) {
  static constexpr std::size_t sizes[] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1};
  return sizes[static_cast<int>(dtype)];
}
inline bool IsFloat(DType dtype) { return dtype <= DType::bf16; }

// The dtype whose elements are T.
template <class T>
DType DTypeOf() {
  if constexpr (std::is_same_v<T, bool>) return DType::boolean;
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    if constexpr (sizeof(T) == 8) return DType::i64;
    if constexpr (sizeof(T) == 4) return DType::i32;
    if constexpr (sizeof(T) == 2) return DType::i16;
    if constexpr (sizeof(T) == 1) return DType::i8;
  }
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  throw Error(GEX_UNSUPPORTED,
              "there are no tensors of this C++ type; use int64_t, int32_t, int16_t, int8_t, "
              "uint8_t, float, double or bool");
}

// A number, or an expression over symbols: Size(8), Size("s0"), Size("s0*8 + 1").
class Size {
 public:
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  Size(T number) : number_(static_cast<std::int64_t>(number)) {}       // NOLINT: a number is a size
  Size(const char* expression) : Size(std::string(expression)) {}      // NOLINT
  Size(std::string expression) : expression_(std::move(expression)) {  // NOLINT
    if (expression_.empty()) throw Error(GEX_INVALID_ARGUMENT, "a size with an empty name");
  }

  // Valid as long as this Size.
  gex_size c() const { return {number_, expression_.empty() ? nullptr : expression_.c_str()}; }

 private:
  std::int64_t number_ = 0;
  std::string expression_;
};

using Shape = std::vector<Size>;

namespace detail {

inline std::vector<gex_size> ToC(const Shape& shape) {
  std::vector<gex_size> sizes;
  for (const Size& size : shape) sizes.push_back(size.c());
  return sizes;
}

inline std::string Text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t k = 0; k < shape.size(); ++k)
    text += (k == 0 ? "" : ", ") + std::to_string(shape[k]);
  return text + "]";
}

// Number of elements of a shape; more than 62 bits is an error.
inline std::size_t CountOf(const std::vector<std::int64_t>& shape) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  std::int64_t count = 1;
  bool empty = false;
  for (std::int64_t size : shape) {
    if (size < 0) throw Error(GEX_INVALID_ARGUMENT, "a size in " + Text(shape) + " is negative");
    empty |= size == 0;
  }
  if (empty) return 0;
  for (std::int64_t size : shape) {
    if (count > most / size)
      throw Error(GEX_INVALID_ARGUMENT, Text(shape) + " has too many elements");
    count *= size;
  }
  return static_cast<std::size_t>(count);
}

// Size of a tensor in bytes.
inline std::size_t BytesOf(DType dtype, const std::vector<std::int64_t>& shape) {
  const std::size_t count = CountOf(shape);
  if (count > (std::size_t{1} << 62) / SizeOf(dtype))
    throw Error(GEX_INVALID_ARGUMENT, std::string("the size of ") + NameOf(dtype) + Text(shape) +
                                          " in bytes overflows 64 bits");
  return count * SizeOf(dtype);
}

template <class T>
void CheckCount(const std::vector<T>& values, const std::vector<std::int64_t>& shape) {
  const std::size_t count = CountOf(shape);
  if (values.size() != count)
    throw Error(GEX_SHAPE_MISMATCH, std::to_string(values.size()) + " values for the shape " +
                                        Text(shape) + ", which has " + std::to_string(count));
}

// The elements in order, also of std::vector<bool>, which has no element array.
template <class T>
std::vector<unsigned char> Bytes(const std::vector<T>& values) {
  std::vector<unsigned char> bytes(values.size() * sizeof(T));
  for (std::size_t k = 0; k < values.size(); ++k) {
    const T value = values[k];
    std::memcpy(bytes.data() + k * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

}  // namespace detail

// Dense elements in host memory. Copies share them.
class Tensor {
 public:
  Tensor() : Tensor(DType::f32, {}) {}
  // Zeros.
  Tensor(DType dtype, std::vector<std::int64_t> shape) : dtype_(dtype), shape_(std::move(shape)) {
    const std::size_t bytes = detail::BytesOf(dtype_, shape_);
    void* memory = ::operator new(bytes + 1, std::nothrow);
    if (memory == nullptr)
      throw Error(GEX_OUT_OF_MEMORY,
                  text() + ": out of memory: " + std::to_string(bytes) + " bytes were requested");
    memory_ = std::shared_ptr<void>(memory, [](void* p) { ::operator delete(p); });
    std::memset(memory_.get(), 0, bytes + 1);
  }

  template <class T>
  static Tensor Of(std::vector<std::int64_t> shape, const std::vector<T>& values) {
    detail::CheckCount(values, shape);
    Tensor tensor(DTypeOf<T>(), std::move(shape));
    const std::vector<unsigned char> bytes = detail::Bytes(values);
    if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
    return tensor;
  }
  // Memory of the caller, used in place: it must outlive the tensor and its copies.
  static Tensor Borrow(DType dtype, std::vector<std::int64_t> shape, void* data) {
    detail::BytesOf(dtype, shape);
    Tensor tensor;
    tensor.dtype_ = dtype;
    tensor.shape_ = std::move(shape);
    tensor.memory_ = std::shared_ptr<void>(data, [](void*) {});
    return tensor;
  }
  // Memory owned by the library; released with the last copy.
  static Tensor Adopt(const gex_tensor& given) {
    Tensor tensor;
    tensor.dtype_ = static_cast<DType>(given.dtype);
    tensor.shape_.assign(given.shape, given.shape + given.rank);
    auto owner = std::shared_ptr<gex_tensor>(new gex_tensor(given), [](gex_tensor* t) {
      gex_tensor_release(t);
      delete t;
    });
    tensor.memory_ = std::shared_ptr<void>(owner, given.data);
    return tensor;
  }

  DType dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::size_t size() const { return detail::CountOf(shape_); }
  void* data() { return memory_.get(); }
  const void* data() const { return memory_.get(); }
  std::string text() const { return NameOf(dtype_) + detail::Text(shape_); }

  template <class T>
  std::vector<T> ToVector() const {
    if (DTypeOf<T>() != dtype_)
      throw Error(GEX_TYPE_MISMATCH,
                  std::string("elements of ") + text() + " read as " + NameOf(DTypeOf<T>()));
    std::vector<T> values(size());
    for (std::size_t k = 0; k < values.size(); ++k) {
      T value;
      std::memcpy(&value, static_cast<const char*>(data()) + k * sizeof(T), sizeof(T));
      values[k] = value;
    }
    return values;
  }

  // Valid as long as this Tensor.
  gex_tensor c() const {
    gex_tensor tensor = GEX_TENSOR_INIT;
    tensor.dtype = static_cast<gex_dtype>(dtype_);
    tensor.data = memory_.get();
    tensor.rank = shape_.size();
    tensor.shape = shape_.data();
    return tensor;
  }

 private:
  DType dtype_;
  std::vector<std::int64_t> shape_;
  std::shared_ptr<void> memory_;
};

}  // namespace gex::es
