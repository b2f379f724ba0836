#pragma once
// Run-time conditions of shape rules. A rule decides what it can; if the answer depends on the
// sizes of a run, it assumes it and records that here. The collector (compile) turns it into guards
// of the program, so that sizes that don't match are an error and never an access out of bounds.

#include <string>
#include <string_view>
#include <vector>

#include "base/dim/dim.hpp"

namespace gex {

struct Assumption {
  enum class Relation { equal, at_most } relation = Relation::equal;
  Dim lhs, rhs;
  std::string message;  // which node needs it
};

// False if it can't hold. True if it always holds, or if it is known only at run time: then it is
// recorded in this thread's AssumptionLog, if there is one.
bool assume_eq(Dim a, Dim b);
bool assume_le(Dim a, Dim b);

// Collects the assumptions of rules on this thread during its lifetime, each once.
class AssumptionLog {
 public:
  AssumptionLog();
  ~AssumptionLog();
  AssumptionLog(const AssumptionLog&) = delete;
  AssumptionLog& operator=(const AssumptionLog&) = delete;

  const std::vector<Assumption>& taken() const { return taken_; }

  // The current log, or null. The caller of a rule adds the node to the rule's assumptions.
  static AssumptionLog* current();
  void name_from(std::size_t first, const std::string& message);

 private:
  friend void remember(Assumption::Relation relation, Dim a, Dim b);
  AssumptionLog* outer_;
  std::vector<Assumption> taken_;
};

}  // namespace gex
