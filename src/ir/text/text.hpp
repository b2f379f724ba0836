#pragma once
// The notation of literals, shared by printer, parser and messages. Everything appended here is
// parsed to the same bits by ir/text/parse.cpp.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/tensor.hpp"
#include "ir/attrs.hpp"

namespace gex {

bool is_identifier(std::string_view text);  // [A-Za-z_][A-Za-z0-9_.]*

void append_quoted(std::string& out, std::string_view text);  // "a\nb", control bytes as \xHH
void append_int(std::string& out, std::int64_t value);
void append_double(std::string& out,
                   double value);  // shortest exact; inf, nan, 0x... for non-default NaNs
void append_tensor(std::string& out, const HostTensor& tensor);
// At most the first and the last three values: "f32[100](1.0, 2.0, 3.0, ..., 98.0, 99.0, 100.0)".
void append_abbreviated(std::string& out, const HostTensor& tensor);
void append_attr(std::string& out, const AttrValue& value);

std::string encode_base64(const void* data, std::size_t size);
// False if the text isn't base64.
bool decode_base64(std::string_view text, std::string& out);

// A tensor of one repeated value is printed and parsed as a splat up to this size: a short text
// can't request more memory than that.
inline constexpr std::size_t kLargestSplatBytes = std::size_t{1} << 30;

}  // namespace gex
