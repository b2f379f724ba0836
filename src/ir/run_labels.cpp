#include "ir/run_labels.hpp"

#include <map>
#include <string>

namespace gex {

namespace {

constexpr int kAnyBatch = 3;  // of the deterministic levels

int number_of(const Node& node, std::string_view label) {
  const AttrValue* value = find_label(node.labels(), label);
  if (value == nullptr) return 0;
  const auto* number = std::get_if<std::int64_t>(value);
  if (number == nullptr || *number < 0 || *number > 1'000'000)
    fail(ErrorCode::invalid_argument, "label ", label, " of ", node.op().name, " is ",
         attr_text(*value), "; it must be a non-negative number");
  return static_cast<int>(*number);
}

void number_streams(Graph& graph, std::map<std::string, std::int64_t>& streams) {
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) number_streams(*subgraph, streams);
    const AttrValue* label = find_label(node.labels(), kStreamLabel);
    if (label == nullptr || find_label(node.labels(), kStreamNumberLabel) != nullptr) continue;
    const auto stream =
        streams.try_emplace(attr_text(*label), static_cast<std::int64_t>(streams.size()))
            .first->second;
    Labels labels = node.labels();
    set_label(labels, std::string(kStreamNumberLabel), stream);
    node.set_labels(std::move(labels));
  }
}

}  // namespace

int number_streams(Graph& graph) {
  std::map<std::string, std::int64_t> streams;
  number_streams(graph, streams);
  return static_cast<int>(streams.size());
}

RunLabels run_labels_of(const Node& node) {
  if (node.labels().empty()) return {};
  return {number_of(node, kStreamNumberLabel), number_of(node, kMatrixCoresLabel),
          number_of(node, kVectorCoresLabel), number_of(node, kLevelLabel) >= kAnyBatch};
}

}  // namespace gex
