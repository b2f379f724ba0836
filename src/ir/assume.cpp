#include "ir/assume.hpp"

#include <algorithm>

namespace gex {
namespace {

thread_local AssumptionLog* log_at_hand = nullptr;

}  // namespace

AssumptionLog::AssumptionLog() : outer_(log_at_hand) { log_at_hand = this; }
AssumptionLog::~AssumptionLog() { log_at_hand = outer_; }
AssumptionLog* AssumptionLog::current() { return log_at_hand; }

void AssumptionLog::name_from(std::size_t first, const std::string& message) {
  for (std::size_t k = first; k < taken_.size(); ++k) taken_[k].message = message;
}

void remember(Assumption::Relation relation, Dim a, Dim b) {
  if (log_at_hand == nullptr) return;
  auto& taken = log_at_hand->taken_;
  const bool known = std::any_of(taken.begin(), taken.end(), [&](const Assumption& other) {
    return other.relation == relation && other.lhs == a && other.rhs == b;
  });
  if (!known) taken.push_back({relation, a, b, {}});
}

bool assume_eq(Dim a, Dim b) {
  const auto known = known_eq(a, b);
  if (!known) remember(Assumption::Relation::equal, a, b);
  return known.value_or(true);
}

bool assume_le(Dim a, Dim b) {
  const auto known = known_le(a, b);
  if (!known) remember(Assumption::Relation::at_most, a, b);
  return known.value_or(true);
}

}  // namespace gex
