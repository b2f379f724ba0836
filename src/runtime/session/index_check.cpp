#include "runtime/session/index_check.hpp"

#include <cstring>

#include "base/error.hpp"

namespace gex {

bool is_index_check(const program::Call& call) { return call.callee == kIndexCheck; }

void refuse_indices(const std::string& name, std::int64_t low, std::int64_t high,
                    std::int64_t size) {
  fail(ErrorCode::invalid_argument, name, ": index out of range: indices range from ", low, " to ",
       high, ", but the axis has ", size, " elements");
}

void fail_index_check(const program::Call& call, std::span<const runtime::TensorRef> inputs,
                      std::span<const std::int64_t> integers) {
  if (inputs.size() != 2 || integers.size() != 1)
    fail(ErrorCode::parse_error, "the index check \"", call.name, "\" has other operands");
  std::int64_t bounds[2] = {};
  for (std::size_t k = 0; k < 2; ++k) {
    if (inputs[k].dtype != DType::i64 || inputs[k].data == nullptr)
      fail(ErrorCode::parse_error, "the index check \"", call.name, "\" has other operands");
    std::memcpy(&bounds[k], inputs[k].data, sizeof bounds[k]);
  }
  refuse_indices(call.name, bounds[0], bounds[1], integers[0]);
}

}  // namespace gex
