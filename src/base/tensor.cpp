#include "base/tensor.hpp"

#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "base/half.hpp"

namespace gex {

namespace {

std::size_t checked_bytes(DType dtype, const std::vector<std::int64_t>& shape) {
  // A size of 0 makes the tensor empty even if the product of the other sizes overflows.
  bool empty = false;
  for (std::int64_t d : shape) {
    if (d < 0) fail(ErrorCode::invalid_argument, "a tensor size can't be negative, got ", d);
    empty |= d == 0;
  }
  if (empty) return 0;
  auto total = static_cast<std::int64_t>(size_of(dtype));
  for (std::int64_t d : shape) {
    if (__builtin_mul_overflow(total, d, &total)) {
      fail(ErrorCode::invalid_argument, "the size of the tensor in bytes overflows 64 bits");
    }
  }
  return static_cast<std::size_t>(total);
}

std::vector<std::byte> zeros(DType dtype, const std::vector<std::int64_t>& shape) {
  const std::size_t bytes = checked_bytes(dtype, shape);
  try {
    return std::vector<std::byte>(bytes);
  } catch (const std::exception&) {  // bad_alloc, or length_error: more than any vector can hold
    std::string sizes;
    for (const std::int64_t d : shape) sizes += str(sizes.empty() ? "" : ", ", d);
    fail(ErrorCode::out_of_memory, "out of memory: ", bytes, " bytes for a tensor ", dtype, "[",
         sizes, "]");
  }
}

// Defined for every double: out-of-range values and NaN give the machine's "indefinite" integer.
std::int64_t to_i64(double value) {
  if (!(value >= -0x1p63 && value < 0x1p63)) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

template <class T>
T load(const std::byte* data, std::int64_t i) {
  T value;
  std::memcpy(&value, data + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* data, std::int64_t i, T value) {
  std::memcpy(data + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

HostTensor::HostTensor(DType dtype, std::vector<std::int64_t> shape)
    : dtype_(dtype), shape_(std::move(shape)), data_(zeros(dtype_, shape_)) {}

HostTensor HostTensor::from_bytes(DType dtype, std::vector<std::int64_t> shape, const void* data) {
  HostTensor t(dtype, std::move(shape));
  if (t.bytes() != 0) std::memcpy(t.data(), data, t.bytes());
  return t;
}

HostTensor HostTensor::scalar(DType dtype, double value) {
  HostTensor t(dtype, {});
  t.set(0, value);
  return t;
}

HostTensor HostTensor::of(std::vector<std::int64_t> shape, std::span<const float> values) {
  HostTensor t(DType::f32, std::move(shape));
  if (t.numel() != static_cast<std::int64_t>(values.size())) {
    fail(ErrorCode::shape_mismatch, "the shape holds ", t.numel(), " elements, got ", values.size(),
         " values");
  }
  if (!values.empty()) std::memcpy(t.data(), values.data(), t.bytes());
  return t;
}

HostTensor HostTensor::of_i64(std::vector<std::int64_t> shape,
                              std::span<const std::int64_t> values) {
  HostTensor t(DType::i64, std::move(shape));
  if (t.numel() != static_cast<std::int64_t>(values.size())) {
    fail(ErrorCode::shape_mismatch, "the shape holds ", t.numel(), " elements, got ", values.size(),
         " values");
  }
  if (!values.empty()) std::memcpy(t.data(), values.data(), t.bytes());
  return t;
}

std::int64_t HostTensor::numel() const {
  return static_cast<std::int64_t>(data_.size() / size_of(dtype_));
}

double HostTensor::get(std::int64_t i) const {
  GEX_CHECK(i >= 0 && i < numel(), "element ", i, " of ", numel());
  switch (dtype_) {
    case DType::f64:
      return load<double>(data(), i);
    case DType::f32:
      return load<float>(data(), i);
    case DType::f16:
      return f16_to_f32(load<std::uint16_t>(data(), i));
    case DType::bf16:
      return bf16_to_f32(load<std::uint16_t>(data(), i));
    default:
      return static_cast<double>(get_int(i));
  }
}

std::int64_t HostTensor::get_int(std::int64_t i) const {
  GEX_CHECK(i >= 0 && i < numel(), "element ", i, " of ", numel());
  switch (dtype_) {
    case DType::i64:
      return load<std::int64_t>(data(), i);
    case DType::i32:
      return load<std::int32_t>(data(), i);
    case DType::i16:
      return load<std::int16_t>(data(), i);
    case DType::i8:
      return load<std::int8_t>(data(), i);
    case DType::u8:
      return load<std::uint8_t>(data(), i);
    case DType::boolean:
      return load<std::uint8_t>(data(), i) != 0;
    default:
      return to_i64(get(i));
  }
}

void HostTensor::set(std::int64_t i, double value) {
  GEX_CHECK(i >= 0 && i < numel(), "element ", i, " of ", numel());
  switch (dtype_) {
    case DType::f64:
      return store(data(), i, value);
    case DType::f32:
      return store(data(), i, static_cast<float>(value));
    case DType::f16:
      return store(data(), i, f32_to_f16(static_cast<float>(value)));
    case DType::bf16:
      return store(data(), i, f32_to_bf16(static_cast<float>(value)));
    case DType::boolean:
      return store(data(), i, static_cast<std::uint8_t>(value != 0));
    default:
      return set_int(i, to_i64(value));
  }
}

void HostTensor::set_int(std::int64_t i, std::int64_t value) {
  GEX_CHECK(i >= 0 && i < numel(), "element ", i, " of ", numel());
  switch (dtype_) {
    case DType::i64:
      return store(data(), i, value);
    case DType::i32:
      return store(data(), i, static_cast<std::int32_t>(value));
    case DType::i16:
      return store(data(), i, static_cast<std::int16_t>(value));
    case DType::i8:
      return store(data(), i, static_cast<std::int8_t>(value));
    case DType::u8:
      return store(data(), i, static_cast<std::uint8_t>(value));
    case DType::boolean:
      return store(data(), i, static_cast<std::uint8_t>(value != 0));
    case DType::f64:
      return store(data(), i, static_cast<double>(value));
    default:  // straight to f32: going through f64 would round twice
      return set(i, static_cast<float>(value));
  }
}

Hash HostTensor::hash() const {
  Hash h = hash_combine(static_cast<Hash>(dtype_), shape_.size());
  for (std::int64_t d : shape_) h = hash_combine(h, static_cast<Hash>(d));
  return hash_bytes(data_.data(), data_.size(), h);
}

}  // namespace gex
