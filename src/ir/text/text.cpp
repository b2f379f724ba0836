#include "ir/text/text.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace gex {
namespace {

constexpr std::int64_t kLargestValueList = 16;  // longer tensors are printed as base64
constexpr char kHex[] = "0123456789abcdef";
constexpr char kBase64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void append_hex(std::string& out, std::uint64_t bits, std::size_t bytes) {
  out += "0x";
  for (std::size_t i = bytes * 2; i-- > 0;) out += kHex[(bits >> (4 * i)) & 15];
}

template <class F>
void append_float(std::string& out, F value) {
  if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
    return;
  }
  char buffer[64];
  char* end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string_view digits(buffer, static_cast<std::size_t>(end - buffer));
  out += digits;
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void append_element(std::string& out, const HostTensor& tensor, std::int64_t i) {
  DType dtype = tensor.dtype();
  if (dtype == DType::boolean) {
    out += tensor.get_int(i) ? "true" : "false";
  } else if (is_int(dtype)) {
    append_int(out, tensor.get_int(i));
  } else if (double value = tensor.get(i); std::isnan(value)) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, tensor.data() + static_cast<std::size_t>(i) * size_of(dtype),
                size_of(dtype));
    append_hex(out, bits, size_of(dtype));
  } else if (dtype == DType::f64) {
    append_float(out, value);
  } else {
    append_float(out, static_cast<float>(value));
  }
}

bool repeats_one_element(const HostTensor& tensor) {
  std::size_t size = size_of(tensor.dtype());
  return tensor.bytes() > size && tensor.bytes() <= kLargestSplatBytes &&
         std::memcmp(tensor.data(), tensor.data() + size, tensor.bytes() - size) == 0;
}

bool has_odd_booleans(const HostTensor& tensor) {
  return tensor.dtype() == DType::boolean &&
         std::any_of(tensor.data(), tensor.data() + tensor.bytes(),
                     [](std::byte b) { return std::to_integer<int>(b) > 1; });
}

template <class T, class AppendOne>
void append_list(std::string& out, const std::vector<T>& list, const AppendOne& append_one) {
  out += '[';
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i) out += ", ";
    append_one(list[i]);
  }
  out += ']';
}

}  // namespace

bool is_identifier(std::string_view text) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  auto later = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.'; };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), later);
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      ((out += "\\x") += kHex[byte >> 4]) += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_int(std::string& out, std::int64_t value) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

void append_double(std::string& out, double value) {
  if (!std::isnan(value)) return append_float(out, value);
  auto bits = std::bit_cast<std::uint64_t>(value);
  if (bits == std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN()))
    out += "nan";
  else
    append_hex(out, bits, 8);
}

void append_tensor(std::string& out, const HostTensor& tensor) {
  out += name_of(tensor.dtype());
  append_list(out, tensor.shape(), [&](std::int64_t size) { append_int(out, size); });
  bool exact_values = !has_odd_booleans(tensor);
  if (exact_values && repeats_one_element(tensor)) {
    out += " splat(";
    append_element(out, tensor, 0);
    out += ')';
  } else if (exact_values && tensor.numel() <= kLargestValueList) {
    out += '(';
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      if (i) out += ", ";
      append_element(out, tensor, i);
    }
    out += ')';
  } else {
    out += " base64(\"";
    out += encode_base64(tensor.data(), tensor.bytes());
    out += "\")";
  }
}

void append_abbreviated(std::string& out, const HostTensor& tensor) {
  constexpr std::int64_t kEnds = 3;
  if (tensor.numel() <= 2 * kEnds) return append_tensor(out, tensor);
  out += name_of(tensor.dtype());
  append_list(out, tensor.shape(), [&](std::int64_t size) { append_int(out, size); });
  out += '(';
  for (std::int64_t i = 0; i < kEnds; ++i) {
    append_element(out, tensor, i);
    out += ", ";
  }
  out += "...";
  for (std::int64_t i = tensor.numel() - kEnds; i < tensor.numel(); ++i) {
    out += ", ";
    append_element(out, tensor, i);
  }
  out += ')';
}

namespace {

struct AppendAttr {
  std::string& out;
  void operator()(bool v) const { out += v ? "true" : "false"; }
  void operator()(std::int64_t v) const { append_int(out, v); }
  void operator()(double v) const { append_double(out, v); }
  void operator()(const std::string& v) const { append_quoted(out, v); }
  void operator()(DType v) const { out += name_of(v); }
  void operator()(Dim v) const { out += v.text(); }
  void operator()(const TensorPtr& v) const {
    if (v)
      append_tensor(out, *v);
    else
      out += "none";
  }
  template <class T>
  void operator()(const std::vector<T>& v) const {
    append_list(out, v, *this);
  }
};

}  // namespace

void append_attr(std::string& out, const AttrValue& value) { std::visit(AppendAttr{out}, value); }

std::string encode_base64(const void* data, std::size_t size) {
  const auto* in = static_cast<const unsigned char*>(data);
  std::string out;
  out.reserve((size + 2) / 3 * 4);
  for (std::size_t i = 0; i < size; i += 3) {
    std::size_t have = std::min<std::size_t>(3, size - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < have ? in[i + k] : 0u);
    for (std::size_t k = 0; k < 4; ++k) out += k <= have ? kBase64[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

bool decode_base64(std::string_view text, std::string& out) {
  static const std::array<signed char, 256> value_of = [] {
    std::array<signed char, 256> table;
    table.fill(-1);
    for (int i = 0; i < 64; ++i)
      table[static_cast<unsigned char>(kBase64[i])] = static_cast<signed char>(i);
    return table;
  }();
  out.clear();
  if (text.size() % 4 != 0) return false;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::size_t padding = 0;
    if (i + 4 == text.size()) padding = text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      int v = k >= 4 - padding ? 0 : value_of[static_cast<unsigned char>(text[i + k])];
      if (v < 0) return false;
      bits = bits << 6 | static_cast<std::uint32_t>(v);
    }
    for (std::size_t k = 0; k < 3 - padding; ++k)
      out += static_cast<char>(bits >> (16 - 8 * k) & 255);
  }
  return true;
}

}  // namespace gex
