#include "ir/placement.hpp"

namespace gex {

namespace {

constexpr int kAnyBatch = 3;  // of the deterministic levels

int number_of(const Node& node, std::string_view label) {
  const AttrValue* value = find_label(node.labels(), label);
  if (value == nullptr) return 0;
  const auto* number = std::get_if<std::int64_t>(value);
  if (number == nullptr || *number < 0 || *number > 1'000'000)
    fail(ErrorCode::invalid_argument, "label ", label, " of ", node.op().name, " is ",
         attr_text(*value), "; it must be a number that is not negative");
  return static_cast<int>(*number);
}

}  // namespace

Placement placement_of(const Node& node) {
  if (node.labels().empty()) return {};
  return {number_of(node, kLaneLabel), number_of(node, kMatrixCoresLabel),
          number_of(node, kVectorCoresLabel), number_of(node, kLevelLabel) >= kAnyBatch};
}

}  // namespace gex
