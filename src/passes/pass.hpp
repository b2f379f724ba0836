#pragma once
// A pass: Graph -> changed?, with a name, a level and a stage. Built-in and user passes are the
// same thing; the manager alone verifies, times, dumps, switches off and checks that "changed" is
// the truth.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace gex::passes {

enum class Stage : std::uint8_t {
  early,   // on the graph as it was built: recognise what the user meant
  middle,  // clean up; runs to a fixpoint
  late,    // composites are gone: prepare for fusion
};

class PassContext {
 public:
  // Why something was or was not done, with the node it is about.
  void remark(const Node& node, std::string_view reason);
  // How many times the pass did its thing; shown in reports.
  void count(std::int64_t n = 1) { count_ += n; }
  std::int64_t counted() const { return count_; }
  std::vector<std::string>& remarks() { return remarks_; }

 private:
  std::int64_t count_ = 0;
  std::vector<std::string> remarks_;
};

struct Pass {
  std::string name;
  std::string summary;
  Stage stage = Stage::middle;
  int level = 1;  // runs at this level and above
  std::function<bool(Graph&, PassContext&)> run;
};

}  // namespace gex::passes
