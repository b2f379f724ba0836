#include "program/bytes.hpp"

#include "base/error.hpp"

namespace gex::program {

std::string_view ByteReader::raw(std::uint64_t size) {
  if (size > bytes_.size())
    fail(ErrorCode::parse_error, "it is truncated: ", size - bytes_.size(), " bytes are missing");
  const std::string_view out = bytes_.substr(0, size);
  bytes_.remove_prefix(size);
  return out;
}

std::uint64_t ByteReader::number(std::size_t size) {
  const std::string_view bytes = raw(size);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= std::uint64_t{static_cast<std::uint8_t>(bytes[i])} << 8 * i;
  return value;
}

std::size_t ByteReader::count(std::uint64_t least) {
  const std::uint64_t n = u64();
  if (n > bytes_.size() / least)
    fail(ErrorCode::parse_error, "it announces ", n, " entries, but has only ", bytes_.size(),
         " bytes");
  return n;
}

void ByteReader::must_end() const {
  if (!bytes_.empty())
    fail(ErrorCode::parse_error, "it has ", bytes_.size(), " extra bytes at the end");
}

}  // namespace gex::program
