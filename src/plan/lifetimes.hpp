#pragma once
// When each buffer of a Program is alive, in positions of the flattened step order: the main
// segments one after the other, the segments of an if or while behind the step that runs them.
// Sizes play no part, so this is computed once for a Program and serves every shape key.

#include <vector>

#include "program/program.hpp"

namespace gex::plan {

// Inclusive at both ends: two values that meet at one position are alive together.
struct Interval {
  int first = -1, last = -1;
  bool used() const { return first >= 0; }
  bool overlaps(const Interval& other) const { return first <= other.last && other.first <= last; }
  bool operator==(const Interval&) const = default;
};

struct Lifetimes {
  // By buffer; an alias class has one interval, which stands at its root (members: unused).
  std::vector<Interval> of_root;
  // By segment, then step. An if or while covers the positions of the segments it runs.
  std::vector<std::vector<Interval>> of_step;
  int positions = 0;
};

// What is touched inside a while and also outside of it, or carried from one turn to the next,
// lives through the whole loop. Beside steps of other streams it lives as long as those may run.
Lifetimes lifetimes_of(const program::Program& program);

}  // namespace gex::plan
