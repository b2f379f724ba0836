// Conversions between element types, and BitCast.

#include <cmath>
#include <cstring>

#include "frontend/onnx/cast.hpp"
#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/strings.hpp"

namespace gex::onnx {
namespace {

std::string text_of_number(double x, Elem elem) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x < 0 ? "-INF" : "INF";
  if (x == std::floor(x) && std::abs(x) < 1e15) {
    std::string text = str(static_cast<std::int64_t>(x));
    return elem == Elem::boolean ? (x != 0 ? "True" : "False")
           : is_float(elem)      ? text + ".0"
                                 : text;
  }
  // The shortest text that parses to the same number.
  char buffer[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, x);
    const double back = std::strtod(buffer, nullptr);
    const bool same =
        elem == Elem::f64 ? back == x : static_cast<float>(back) == static_cast<float>(x);
    if (same) break;
  }
  return buffer;
}

Value* from_string(Row& r, Value* x, Elem to) {
  const DType t = storage_dtype(to);
  return r.host_call(str("from string ", static_cast<int>(to)), {x},
                     {Type::tensor(is_small_float(to) ? DType::f32 : t, x->type().shape)},
                     [to, t](std::span<const HostTensor> in, std::span<const std::int64_t>) {
                       HostTensor out(is_small_float(to) ? DType::f32 : t, in[0].shape());
                       for (std::int64_t k = 0; k < in[0].numel(); ++k) {
                         const std::string& text = string_of(in[0].get_int(k));
                         if (gex::is_float(out.dtype()))
                           out.set(k, std::strtod(text.c_str(), nullptr));
                         else if (to == Elem::boolean)
                           out.set_int(k, text == "True" || text == "1" || text == "true");
                         else
                           out.set_int(k, std::strtoll(text.c_str(), nullptr, 10));
                       }
                       return std::vector{std::move(out)};
                     })[0];
}

Value* to_string_ids(Row& r, Value* x, Elem from) {
  return r.host_call(
      str("to string ", static_cast<int>(from)), {x}, {Type::tensor(DType::i64, x->type().shape)},
      [from](std::span<const HostTensor> in, std::span<const std::int64_t>) {
        HostTensor out(DType::i64, in[0].shape());
        for (std::int64_t k = 0; k < in[0].numel(); ++k) {
          const bool real = gex::is_float(in[0].dtype());
          out.set_int(
              k, string_number(real ? text_of_number(in[0].get(k), from) : str(in[0].get_int(k))));
        }
        return std::vector{std::move(out)};
      })[0];
}

// uint64 in its storage dtype to a float: halved if the top bit is set.
Expr u64_to_float(Expr x, DType t) {
  Expr low = x & Expr(x.g, ops::scalar_int(x.g, DType::i64, INT64_MAX));
  Expr top = (x < 0).to(DType::f64) * 9223372036854775808.0;
  return (low.to(DType::f64) + top).to(t);
}

}  // namespace

Value* cast_elem(Row& r, Value* value, Elem from, Elem to, bool saturate,
                 const std::string& round) {
  Graph& g = r.g;
  if (from == to) return value;
  if (from == Elem::string) {
    value = from_string(r, value, to);
    return is_small_float(to) ? encode_small_float(g, value, to, saturate, round) : value;
  }
  Expr x(g, value);
  if (is_small_float(from)) {
    x = {g, decode_small_float(g, x, from)};
    from = Elem::f32;
  }
  if (to == Elem::string) return to_string_ids(r, x, from);
  const DType t = storage_dtype(to);
  if (is_small_float(to)) {
    Expr wide = from == Elem::u64 ? u64_to_float(x, DType::f32) : x.to(DType::f32);
    return encode_small_float(g, wide, to, saturate, round);
  }
  if (from == Elem::u64 && gex::is_float(t)) return u64_to_float(x, t);
  if (to == Elem::boolean) return x != 0;
  if (gex::is_float(x.dtype()) && !gex::is_float(t)) {
    // Through a wide integer, so that numbers out of range wrap in the same way for every narrow
    // type.
    const bool narrow = bits_of(to) < 8;
    if (to == Elem::u64) {
      Expr big = x.to(DType::f64) >= 9223372036854775808.0;
      Expr low = where(big, x.to(DType::f64) - 9223372036854775808.0, x.to(DType::f64));
      Expr bits = low.to(DType::i64);
      return where(big, binary("bit_xor", bits, {g, ops::scalar_int(g, DType::i64, INT64_MIN)}),
                   bits);
    }
    x = x.to(narrow ? DType::i32 : DType::i64);
    return ops::cast(g, wrap(g, x, to), t);
  }
  if (!gex::is_float(t) && bits_of(to) < 8) return ops::cast(g, wrap(g, x.to(DType::i32), to), t);
  return wrap(g, x.to(t), to);
}

namespace {

Items cast_row(Row& r) {
  const auto to = static_cast<Elem>(r.int_attr("to", 1));
  return r.one(cast_elem(r, r.in(0), r.elem(), to, r.int_attr("saturate", 1) != 0,
                         r.string_attr("round_mode", "up")),
               to);
}

Items cast_like(Row& r) {
  const Elem to = r.elem(1);
  return r.one(cast_elem(r, r.in(0), r.elem(), to, r.int_attr("saturate", 1) != 0,
                         r.string_attr("round_mode", "up")),
               to);
}

// The same bits as another type of the same width.
Items bit_cast(Row& r) {
  const auto to = static_cast<Elem>(r.int_attr("to", 1));
  const Elem from = r.elem();
  if (from == to) return r.one(r.in(0));
  if (bits_of(from) != bits_of(to))
    r.refuse(str("from ", name_of(from), " to ", name_of(to), ", which has a different width"));
  Value* memory = to_memory(r.g, r.in(0), from);
  const DType t = memory_type_of(to);
  const int bits = bits_of(to);
  Value* out = r.host_call(
      str(static_cast<int>(from), " ", static_cast<int>(to)), {memory},
      {Type::tensor(t, memory->type().shape)},
      [t, bits](std::span<const HostTensor> in, std::span<const std::int64_t>) {
        HostTensor result(t, in[0].shape());
        std::memcpy(result.data(), in[0].data(), in[0].bytes());
        if (bits < 8)
          for (std::int64_t k = 0; k < result.numel(); ++k) {
            const std::int64_t mask = (std::int64_t{1} << bits) - 1, half = (mask + 1) / 2;
            const std::int64_t code = in[0].get_int(k) & mask;
            result.set_int(k, t == DType::i8 && code >= half ? code - mask - 1 : code);
          }
        return std::vector{std::move(result)};
      })[0];
  return r.one(from_memory(r.g, out, to), to);
}

}  // namespace

void add_cast_rows() {
  add_row("Cast", cast_row);
  add_row("CastLike", cast_like);
  add_row("BitCast", bit_cast);
}

}  // namespace gex::onnx
