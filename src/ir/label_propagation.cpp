#include "ir/label_propagation.hpp"

namespace gex {

void LabelPropagation::apply(const Node& from) {
  if (from.labels().empty()) return;
  Node* node = before_ == nullptr ? graph_.first() : before_->next();
  for (; node != nullptr && node != place_; node = node->next()) {
    Labels labels = node->labels();
    for (const auto& [name, value] : from.labels())
      if (find_label(labels, name) == nullptr) set_label(labels, name, value);
    node->set_labels(std::move(labels));
  }
}

}  // namespace gex
