#pragma once
// The lifetime of each buffer of a Program, in positions of the flattened step order: the main
// segments one after the other, the segments of an if or while after the step that runs them.
// Lifetimes don't depend on sizes, so they are computed once per Program and used for every shape
// key.

#include <vector>

#include "program/program.hpp"

namespace gex::plan {

// Inclusive at both ends: two values that share one position are alive at the same time.
struct Interval {
  int first = -1, last = -1;
  bool used() const { return first >= 0; }
  bool overlaps(const Interval& other) const { return first <= other.last && other.first <= last; }
  bool operator==(const Interval&) const = default;
};

struct Lifetimes {
  // By buffer; an alias class has one interval, stored at its root (unused for the other members).
  std::vector<Interval> of_root;
  // By segment, then step. An if or while covers the positions of the segments it runs.
  std::vector<std::vector<Interval>> of_step;
  int positions = 0;
};

// A buffer used inside a while and also outside, or carried from one iteration to the next, lives
// through the whole loop. With several streams a buffer lives as long as any step that may run
// concurrently with one of its accesses.
Lifetimes lifetimes_of(const program::Program& program);

}  // namespace gex::plan
