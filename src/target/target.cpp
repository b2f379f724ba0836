#include "target/target.hpp"

#include <charconv>

#include "base/error.hpp"

namespace gex {

namespace {

// A block of a CUDA kernel has at most 227 KB of shared memory on Hopper, 99 KB on the smallest
// supported device; local rows share it with what the kernel itself needs.
CostModel cuda_costs() {
  CostModel costs;
  costs.max_row_bytes = 64 * 1024;
  costs.unbounded_locals = false;
  costs.max_local_bytes = 96 * 1024;
  costs.matmul_tile_columns = 128;
  costs.few_rows = 16;
  costs.attention_query_rows = 64;
  costs.library_products = true;
  costs.merges_launches = true;
  return costs;
}

}  // namespace

std::string Target::text() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(device); }

Target parse_target(std::string_view text) {
  Target target;
  if (text == "cpu") return target;
  target.kind = Target::Kind::cuda;
  target.costs = cuda_costs();
  if (text == "cuda") return target;
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    const std::string_view digits = text.substr(kPrefix.size());
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), target.device);
    if (error == std::errc() && end == digits.data() + digits.size() && target.device >= 0)
      return target;
  }
  fail(ErrorCode::invalid_argument, "unknown target '", text, "': use \"cpu\" or \"cuda:N\"");
}

}  // namespace gex
