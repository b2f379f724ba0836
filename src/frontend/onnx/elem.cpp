#include "frontend/onnx/elem.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.hpp"
#include "frontend/onnx/strings.hpp"
#include "ops/core/build.hpp"

namespace gex::onnx {

DType storage_dtype(Elem elem) {
  switch (elem) {
    case Elem::u16:
      return DType::i32;
    case Elem::u32:
      return DType::i64;
    default:
      return memory_type_of(elem);
  }
}

DType memory_type_of(Elem elem) {
  switch (elem) {
    case Elem::f32:
      return DType::f32;
    case Elem::f64:
      return DType::f64;
    case Elem::f16:
      return DType::f16;
    case Elem::bf16:
      return DType::bf16;
    case Elem::i64:
    case Elem::u64:
    case Elem::string:
      return DType::i64;
    case Elem::i32:
    case Elem::u32:
      return DType::i32;
    case Elem::i16:
    case Elem::u16:
      return DType::i16;
    case Elem::i8:
    case Elem::i4:
    case Elem::i2:
      return DType::i8;
    case Elem::boolean:
      return DType::boolean;
    case Elem::u8:
    case Elem::u4:
    case Elem::u2:
    case Elem::f8e4m3fn:
    case Elem::f8e4m3fnuz:
    case Elem::f8e5m2:
    case Elem::f8e5m2fnuz:
    case Elem::f8e8m0:
    case Elem::f4e2m1:
      return DType::u8;
    default:
      fail(ErrorCode::unsupported, "tensors of ", name_of(elem), " are not supported");
  }
}

bool is_small_float(Elem elem) {
  switch (elem) {
    case Elem::f8e4m3fn:
    case Elem::f8e4m3fnuz:
    case Elem::f8e5m2:
    case Elem::f8e5m2fnuz:
    case Elem::f8e8m0:
    case Elem::f4e2m1:
      return true;
    default:
      return false;
  }
}

bool is_unsigned(Elem elem) {
  switch (elem) {
    case Elem::u8:
    case Elem::u16:
    case Elem::u32:
    case Elem::u64:
    case Elem::u4:
    case Elem::u2:
      return true;
    default:
      return false;
  }
}

bool is_float(Elem elem) {
  return elem == Elem::f32 || elem == Elem::f64 || elem == Elem::f16 || elem == Elem::bf16;
}

int bits_of(Elem elem) {
  switch (elem) {
    case Elem::u4:
    case Elem::i4:
    case Elem::f4e2m1:
      return 4;
    case Elem::u2:
    case Elem::i2:
      return 2;
    default:
      return static_cast<int>(size_of(memory_type_of(elem))) * 8;
  }
}

Value* from_memory(Graph& g, Value* memory, Elem elem) {
  return wrap(g, ops::cast(g, memory, storage_dtype(elem)), elem);
}

Value* to_memory(Graph& g, Value* stored, Elem elem) {
  return ops::cast(g, stored, memory_type_of(elem));
}

HostTensor to_storage(const HostTensor& memory, Elem elem) {
  if (elem != Elem::u16 && elem != Elem::u32) return memory;
  HostTensor out(storage_dtype(elem), memory.shape());
  const std::int64_t mask = elem == Elem::u16 ? 0xffff : 0xffffffff;
  for (std::int64_t k = 0; k < memory.numel(); ++k) out.set_int(k, memory.get_int(k) & mask);
  return out;
}

HostTensor to_memory(const HostTensor& stored, Elem elem) {
  if (elem == Elem::u16) {
    HostTensor out(DType::i16, stored.shape());
    for (std::int64_t k = 0; k < stored.numel(); ++k)
      out.as<std::uint16_t>()[k] = static_cast<std::uint16_t>(stored.get_int(k));
    return out;
  }
  if (elem == Elem::u32) {
    HostTensor out(DType::i32, stored.shape());
    for (std::int64_t k = 0; k < stored.numel(); ++k)
      out.as<std::uint32_t>()[k] = static_cast<std::uint32_t>(stored.get_int(k));
    return out;
  }
  return stored;
}

Value* wrap(Graph& g, Value* stored, Elem elem) {
  const DType dtype = stored->type().dtype;
  if (elem == Elem::u16) return ops::bit_and(g, stored, ops::scalar_int(g, dtype, 0xffff));
  if (elem == Elem::u32) return ops::bit_and(g, stored, ops::scalar_int(g, dtype, 0xffffffff));
  if (elem == Elem::u4) return ops::bit_and(g, stored, ops::scalar_int(g, dtype, 0xf));
  if (elem == Elem::u2) return ops::bit_and(g, stored, ops::scalar_int(g, dtype, 3));
  if (elem == Elem::i4 || elem == Elem::i2) {  // sign-extend
    const std::int64_t half = elem == Elem::i4 ? 8 : 2;
    Value* low = ops::bit_and(g, stored, ops::scalar_int(g, dtype, 2 * half - 1));
    Value* flipped = ops::bit_xor(g, low, ops::scalar_int(g, dtype, half));
    return ops::sub(g, flipped, ops::scalar_int(g, dtype, half));
  }
  return stored;
}

// --- floats of 8 bits and fewer ----------------------------------------------------------------

namespace {

struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool has_sign, has_infinity;
  int nan_codes;           // of the largest magnitudes: 0, 1 (all ones) or all above infinity
  bool nan_is_minus_zero;  // "uz" formats
};

Format format_of(Elem elem) {
  switch (elem) {
    case Elem::f8e4m3fn:
      return {4, 3, 7, true, false, 1, false};
    case Elem::f8e4m3fnuz:
      return {4, 3, 8, true, false, 0, true};
    case Elem::f8e5m2:
      return {5, 2, 15, true, true, 3, false};
    case Elem::f8e5m2fnuz:
      return {5, 2, 16, true, false, 0, true};
    case Elem::f8e8m0:
      return {8, 0, 127, false, false, 1, false};
    case Elem::f4e2m1:
      return {2, 1, 1, true, false, 0, false};
    default:
      fail(ErrorCode::internal, name_of(elem), " is not a small float");
  }
}

// Value of a code without its sign bit.
float magnitude(const Format& f, Elem elem, unsigned code) {
  const int exponent = static_cast<int>(code >> f.mantissa_bits);
  const auto mantissa = static_cast<float>(code & ((1u << f.mantissa_bits) - 1));
  if (elem == Elem::f8e8m0) return std::ldexp(1.0f, exponent - f.bias);
  const float unit = std::ldexp(1.0f, -f.mantissa_bits);
  if (exponent == 0) return std::ldexp(mantissa * unit, 1 - f.bias);
  return std::ldexp(1.0f + mantissa * unit, exponent - f.bias);
}

}  // namespace

float small_float_value(Elem elem, unsigned code) {
  const Format f = format_of(elem);
  const int bits = f.exponent_bits + f.mantissa_bits;
  const unsigned top = (1u << bits) - 1, low = code & top;
  const bool negative = f.has_sign && ((code >> bits) & 1) != 0;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (f.nan_is_minus_zero && negative && low == 0) return nan;
  if (f.has_infinity && low > top - 3) return nan;
  if (f.has_infinity && low == top - 3)
    return negative ? -std::numeric_limits<float>::infinity()
                    : std::numeric_limits<float>::infinity();
  if (!f.has_infinity && f.nan_codes == 1 && low == top) return nan;
  const float value = magnitude(f, elem, low);
  return negative ? -value : value;
}

Value* decode_small_float(Graph& g, Value* codes, Elem elem) {
  HostTensor table(DType::f32, {256});
  for (unsigned k = 0; k < 256; ++k) table.as<float>()[k] = small_float_value(elem, k);
  return ops::take(g, ops::constant(g, std::move(table)), ops::cast(g, codes, DType::i64), 0);
}

// The code's magnitude is the number of thresholds below |x|: the midpoints between neighbouring
// values, moved by one unit where a tie rounds up to an even code.
Value* encode_small_float(Graph& g, Value* x, Elem elem, bool saturate, const std::string& round) {
  const Format f = format_of(elem);
  const int bits = f.exponent_bits + f.mantissa_bits;
  const unsigned top = (1u << bits) - 1;
  const unsigned largest = f.has_infinity ? top - 4 : top - static_cast<unsigned>(f.nan_codes == 1);
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> thresholds;
  for (unsigned k = 0; k < largest; ++k) {
    const float a = magnitude(f, elem, k), b = magnitude(f, elem, k + 1);
    float middle = static_cast<float>((static_cast<double>(a) + static_cast<double>(b)) / 2);
    const bool tie_goes_up = elem == Elem::f8e8m0 ? true : k % 2 == 1;
    if (elem == Elem::f8e8m0 && round == "down") middle = b;
    if (elem == Elem::f8e8m0 && round == "up")
      thresholds.push_back(a);
    else
      thresholds.push_back(tie_goes_up ? std::nextafter(middle, -infinity) : middle);
  }
  const bool has_special = f.has_infinity || f.nan_codes == 1 || f.nan_is_minus_zero;
  if (!saturate && has_special) {  // one step above the largest: infinity or NaN
    const double a = magnitude(f, elem, largest), b = magnitude(f, elem, largest - 1);
    thresholds.push_back(static_cast<float>(a + (a - b) / 2));
    if (largest % 2 == 1) thresholds.back() = std::nextafter(thresholds.back(), -infinity);
  }
  const auto count = static_cast<std::int64_t>(thresholds.size());
  Value* table = ops::constant(g, HostTensor::of({count}, thresholds));
  Value* number = ops::cast(g, x, DType::f32);
  Value* size = ops::unsqueeze(g, ops::abs(g, number), x->type().rank());
  Value* above = ops::cast(g, ops::gt(g, size, table), DType::i64);
  Value* code = ops::reduce_sum(g, above, {x->type().rank()});
  const auto integer = [&](std::int64_t v) { return ops::scalar_int(g, DType::i64, v); };
  Value* zero = ops::scalar(g, DType::f32, 0);
  Value* bad = ops::is_nan(g, number);
  if (f.nan_is_minus_zero && !saturate) {
    bad = ops::bit_or(g, bad, ops::gt(g, code, integer(largest)));
  }
  if (f.has_sign) {
    // 1 / x distinguishes -0 from 0.
    Value* negative =
        ops::bit_or(g, ops::lt(g, number, zero), ops::lt(g, ops::reciprocal(g, number), zero));
    if (f.nan_is_minus_zero) negative = ops::bit_and(g, negative, ops::gt(g, code, integer(0)));
    code = ops::add(g, code, ops::where(g, negative, integer(std::int64_t{1} << bits), integer(0)));
  }
  if (elem != Elem::f4e2m1) {
    const std::int64_t nan_code = f.nan_is_minus_zero ? std::int64_t{1} << bits
                                  : f.has_infinity    ? top - 1  // quiet, as NumPy writes it
                                                      : top;
    code = ops::where(g, bad, integer(nan_code), code);
  }
  return ops::cast(g, code, DType::u8);
}

// --- stored tensors ------------------------------------------------------------------------------

namespace {

std::int64_t checked_count(const TensorProto& t) {
  std::int64_t count = 1;
  for (const std::int64_t d : t.dims) {
    if (d < 0 || __builtin_mul_overflow(count, d, &count))
      fail(ErrorCode::parse_error, "tensor '", t.name, "' has impossible sizes");
  }
  return count;
}

[[noreturn]] void wrong_count(const TensorProto& t, std::int64_t expected, std::size_t got,
                              const char* unit) {
  fail(ErrorCode::parse_error, "tensor '", t.name, "' has ", got, " ", unit, ", its sizes require ",
       expected);
}

// Several elements per byte, the first in the lowest bits.
HostTensor unpack(const TensorProto& t, std::int64_t count, const unsigned char* bytes) {
  const int bits = bits_of(t.elem), each = 8 / bits;
  HostTensor out(storage_dtype(t.elem), t.dims);
  const int half = 1 << (bits - 1);
  const bool has_sign = t.elem == Elem::i4 || t.elem == Elem::i2;
  for (std::int64_t k = 0; k < count; ++k) {
    int code = (bytes[k / each] >> (bits * static_cast<int>(k % each))) & ((1 << bits) - 1);
    if (has_sign && code >= half) code -= 2 * half;
    out.set_int(k, code);
  }
  return out;
}

HostTensor from_raw(const TensorProto& t, std::int64_t count, std::string_view raw) {
  if (bits_of(t.elem) < 8) {
    const std::int64_t bytes = (count * bits_of(t.elem) + 7) / 8;
    if (static_cast<std::int64_t>(raw.size()) != bytes) wrong_count(t, bytes, raw.size(), "bytes");
    return unpack(t, count, reinterpret_cast<const unsigned char*>(raw.data()));
  }
  const DType dtype = memory_type_of(t.elem);
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(count, static_cast<std::int64_t>(size_of(dtype)), &bytes) ||
      static_cast<std::int64_t>(raw.size()) != bytes)
    wrong_count(t, bytes, raw.size(), "bytes");
  return to_storage(HostTensor::from_bytes(dtype, t.dims, raw.data()), t.elem);
}

HostTensor from_lists(const TensorProto& t, std::int64_t count) {
  const auto n = static_cast<std::size_t>(count);
  const auto require = [&](std::size_t got) {
    if (got != n) wrong_count(t, count, got, "elements");
  };
  if (t.elem == Elem::string) {
    require(t.strings.size());
    HostTensor out(DType::i64, t.dims);
    for (std::size_t k = 0; k < n; ++k) out.as<std::int64_t>()[k] = string_number(t.strings[k]);
    return out;
  }
  if (t.elem == Elem::f32) {
    require(t.floats.size());
    return HostTensor::of(t.dims, t.floats);
  }
  if (t.elem == Elem::f64) {
    require(t.doubles.size());
    return HostTensor::from_bytes(DType::f64, t.dims, t.doubles.data());
  }
  if (bits_of(t.elem) < 8) {
    std::vector<unsigned char> bytes(t.ints.begin(), t.ints.end());
    if (static_cast<std::int64_t>(bytes.size()) < (count * bits_of(t.elem) + 7) / 8)
      wrong_count(t, count, bytes.size(), "packed bytes");
    return unpack(t, count, bytes.data());
  }
  require(t.ints.size());
  HostTensor out(storage_dtype(t.elem), t.dims);
  for (std::size_t k = 0; k < n; ++k) {
    if (t.elem == Elem::f16 || t.elem == Elem::bf16)
      out.as<std::uint16_t>()[k] = static_cast<std::uint16_t>(t.ints[k]);
    else
      out.set_int(static_cast<std::int64_t>(k), t.ints[k]);
  }
  return out;
}

}  // namespace

HostTensor tensor_of(const ModelProto* model, const TensorProto& t) {
  const std::int64_t count = checked_count(t);
  if (t.is_external || t.has_raw) return from_raw(t, count, raw_bytes(model, t));
  return from_lists(t, count);
}

HostTensor tensor_of(const ModelProto* model, const SparseTensorProto& sparse) {
  const HostTensor values = tensor_of(model, sparse.values);
  const HostTensor indices = tensor_of(model, sparse.indices);
  HostTensor out(values.dtype(), sparse.dims);
  const auto rank = static_cast<std::int64_t>(sparse.dims.size());
  const std::int64_t count = values.numel(), width = indices.shape().size() == 2 ? rank : 1;
  if (indices.numel() != count * width || indices.dtype() != DType::i64)
    fail(ErrorCode::parse_error, "sparse tensor '", sparse.values.name, "' has ", count,
         " values and ", indices.numel(), " indices");
  const std::size_t size = size_of(out.dtype());
  for (std::int64_t k = 0; k < count; ++k) {
    std::int64_t at = 0;
    for (std::int64_t d = 0; d < width; ++d) {
      const std::int64_t index = indices.get_int(k * width + d);
      const std::int64_t extent =
          width == 1 ? out.numel() : sparse.dims[static_cast<std::size_t>(d)];
      if (index < 0 || index >= extent)
        fail(ErrorCode::parse_error, "sparse tensor '", sparse.values.name, "': index ", index,
             " is outside of its ", extent, " elements");
      at = at * extent + index;
    }
    std::memcpy(out.data() + static_cast<std::size_t>(at) * size,
                values.data() + static_cast<std::size_t>(k) * size, size);
  }
  return out;
}

}  // namespace gex::onnx
