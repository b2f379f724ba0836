#pragma once
// Memory size of this machine, and parsing of sizes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gex {

// Memory plus swap. Systems that overcommit grant any size and kill the process when the memory is
// used, so larger requests are refused up front.
std::size_t total_memory();

// "500000000", "500M", "2G", "2GB", "1.5GiB": K, M, G and T are powers of 1024. Nothing if the text
// is malformed or the number does not fit 63 bits.
std::optional<std::int64_t> parse_bytes(std::string_view text);

}  // namespace gex
