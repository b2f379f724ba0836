#pragma once
// Capture options of a compiled graph, as set from Python.

#include <nanobind/nanobind.h>
#include <cstdint>

#include <optional>
#include <utility>

#include "runtime/session/session.hpp"

namespace gex::python {

namespace nb = nanobind;

using PoolHandle = std::pair<std::int64_t, std::int64_t>;

struct CaptureOptions {
  runtime::GearOptions gears;
  bool force_recapture = false;
  bool share_arena = true;
  std::optional<PoolHandle> pool;  // graphs with one handle share one pool

  void set(runtime::SessionOptions& options) const;
};

// For each Capture: key, hits, arena_bytes, reason, note; the last used first.
nb::list captures_of(const runtime::Session& session);

}  // namespace gex::python
