#include "npy.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/strided_copy.hpp"
#include "files.hpp"

namespace gex::tool {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Descr {
  std::string_view text;
  DType dtype;
};
constexpr Descr kDescrs[] = {
    {"<f8", DType::f64}, {"<f4", DType::f32},     {"<f2", DType::f16},  {"<V2", DType::bf16},
    {"<i8", DType::i64}, {"<i4", DType::i32},     {"<i2", DType::i16},  {"|i1", DType::i8},
    {"|u1", DType::u8},  {"|b1", DType::boolean}, {"|V2", DType::bf16},
};

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// The value of a key in the header's Python dictionary, up to the next comma or brace.
std::string_view value_of(std::string_view header, std::string_view key, const std::string& path) {
  const auto at = header.find(str("'", key, "'"));
  const auto colon = at == std::string_view::npos ? at : header.find(':', at);
  if (colon == std::string_view::npos)
    fail(ErrorCode::parse_error, path, ": the .npy header has no '", key, "'");
  std::string_view rest = header.substr(colon + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const auto end = !rest.empty() && rest[0] == '(' ? rest.find(')') : rest.find_first_of(",}");
  return rest.substr(0, end);
}

Header parse_header(std::string_view text, const std::string& path) {
  Header header;
  std::string_view descr = value_of(text, "descr", path);
  if (descr.size() >= 2) descr = descr.substr(1, descr.find_last_of("'\"") - 1);
  header.descr = descr;
  header.fortran_order = value_of(text, "fortran_order", path).starts_with("True");
  std::string_view shape = value_of(text, "shape", path);
  for (const char* at = shape.data(); at < shape.data() + shape.size();) {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(at, shape.data() + shape.size(), size);
    if (error == std::errc()) {
      header.shape.push_back(size);
      at = end;
    } else {
      ++at;
    }
  }
  return header;
}

DType dtype_of(const std::string& descr, const std::string& path) {
  for (const Descr& known : kDescrs)
    if (known.text == descr) return known.dtype;
  fail(ErrorCode::unsupported, path, ": elements are '", descr,
       "'; gex reads little-endian f8, f4, f2, i8, i4, i2, i1, u1, b1 and V2 (bf16)");
}

std::size_t bytes_of(DType dtype, const std::vector<std::int64_t>& shape, const std::string& path) {
  std::size_t bytes = size_of(dtype);
  for (std::int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes))
      fail(ErrorCode::parse_error, path, ": its shape is invalid");
  return bytes;
}

}  // namespace

HostTensor read_npy(const std::string& path) {
  const std::string bytes = read_file(path);
  if (!bytes.starts_with(kMagic) || bytes.size() < 12)
    fail(ErrorCode::parse_error, path, " is not a .npy file");
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(bytes[k]); };
  const bool version1 = byte(6) == 1;
  const std::size_t start = version1 ? 10 : 12;
  std::size_t length = byte(8) | static_cast<std::size_t>(byte(9)) << 8;
  if (!version1)
    length |= static_cast<std::size_t>(byte(10)) << 16 | static_cast<std::size_t>(byte(11)) << 24;
  if (length > bytes.size() - start)
    fail(ErrorCode::parse_error, path, ": the .npy header is truncated");
  const Header header = parse_header(std::string_view(bytes).substr(start, length), path);
  const DType dtype = dtype_of(header.descr, path);
  const std::size_t have = bytes.size() - start - length;
  // Checked before allocating: the header may claim any size.
  const std::size_t expected = bytes_of(dtype, header.shape, path);
  if (have != expected)
    fail(ErrorCode::parse_error, path, ": expected ", expected, " bytes of elements, found ", have);
  HostTensor tensor(dtype, header.shape);
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data()) + start + length;
  std::vector<std::int64_t> dense(header.shape.size(), 1), fortran(header.shape.size(), 1);
  for (std::size_t d = 1; d < dense.size(); ++d) {
    dense[dense.size() - 1 - d] = dense[dense.size() - d] * header.shape[dense.size() - d];
    fortran[d] = fortran[d - 1] * header.shape[d - 1];
  }
  copy_elements(size_of(tensor.dtype()), header.shape, data, header.fortran_order ? fortran : dense,
                tensor.data(), dense);
  return tensor;
}

void write_npy(const std::string& path, const HostTensor& tensor) {
  std::string shape;
  for (std::int64_t size : tensor.shape()) shape += str(size, ",");
  const auto* descr = std::find_if(std::begin(kDescrs), std::end(kDescrs),
                                   [&](const Descr& d) { return d.dtype == tensor.dtype(); });
  std::string header =
      str("{'descr': '", descr->text, "', 'fortran_order': False, 'shape': (", shape, "), }");
  // Elements start at a multiple of 64 bytes.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes(kMagic);
  bytes += {1, 0, static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(tensor.data()), tensor.bytes());
  write_file(path, bytes);
}

}  // namespace gex::tool
