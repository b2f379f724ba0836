#pragma once
// How much memory this machine has, and sizes as people write them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gex {

// Memory and swap together. Systems that promise more than they have hand out any size and end the
// process when it is used, so larger requests are refused before they are made.
std::size_t total_memory();

// "500000000", "500M", "2G", "2GB", "1.5GiB": K, M, G and T are powers of 1024, as programs that
// limit memory read them. Nothing if it is something else or does not fit 63 bits.
std::optional<std::int64_t> parse_bytes(std::string_view text);

}  // namespace gex
