#pragma once
// Strings in graphs: a tensor of strings is an i64 tensor of numbers of this process-wide table, in
// which equal strings have equal numbers. Moving and comparing strings then needs only ordinary
// ops; everything else is a host function. Strings stay in the table until the process ends.

#include <cstdint>
#include <string>
#include <string_view>

namespace gex::onnx {

std::int64_t string_number(std::string_view text);
const std::string& string_of(std::int64_t number);  // UserError for an invalid number

}  // namespace gex::onnx
