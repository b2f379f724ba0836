#pragma once
// What shape rules take for granted. A rule decides what it can; where the answer depends on the
// sizes of a run it goes on and says so here. Whoever collects it (compile) turns it into guards of
// the program, so that sizes that don't fit are an error and never a read outside a tensor.

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

// False if it can't hold. True if it always does, or if only a run can tell: then it is remembered
// by the AssumptionLog of this thread, if there is one.
bool assume_eq(Dim a, Dim b);
bool assume_le(Dim a, Dim b);

// Collects what rules assume on this thread during its life, each thing once.
class AssumptionLog {
 public:
  AssumptionLog();
  ~AssumptionLog();
  AssumptionLog(const AssumptionLog&) = delete;
  AssumptionLog& operator=(const AssumptionLog&) = delete;

  const std::vector<Assumption>& taken() const { return taken_; }

  // The log at hand, or null. The caller of a rule names the node for what the rule just took.
  static AssumptionLog* current();
  void name_from(std::size_t first, const std::string& message);

 private:
  friend void remember(Assumption::Relation relation, Dim a, Dim b);
  AssumptionLog* outer_;
  std::vector<Assumption> taken_;
};

}  // namespace gex
