// How a compiled graph captures: gears, pools; and what it captured.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <mutex>

#include "base/error.hpp"
#include "frontend/python/bindings.hpp"
#include "frontend/python/captures.hpp"
#include "runtime/device.hpp"
#include "runtime/session/core_limit.hpp"

namespace gex::python {

namespace {

// Symbols that change gear together, and the rows of their sizes.
using Ladder = std::pair<std::vector<Dim>, std::vector<std::vector<std::int64_t>>>;

// Pools by handle; each lives as long as a graph that uses it.
struct Pools {
  std::mutex mutex;
  std::map<PoolHandle, std::weak_ptr<runtime::DeviceContext>> open;
  static Pools& get() {
    static Pools* pools = new Pools;  // graphs may be destroyed after static destructors ran
    return *pools;
  }
};

std::shared_ptr<runtime::DeviceContext> pool_of(const PoolHandle& handle) {
  Pools& pools = Pools::get();
  const std::lock_guard lock(pools.mutex);
  auto& open = pools.open[handle];
  if (auto device = open.lock()) return device;
  auto device = runtime::open_cpu({});
  open = device;
  return device;
}

std::size_t bytes_of_pool(const PoolHandle& handle) {
  Pools& pools = Pools::get();
  const std::lock_guard lock(pools.mutex);
  const auto found = pools.open.find(handle);
  if (found == pools.open.end()) return 0;
  const auto device = found->second.lock();
  return device == nullptr ? 0 : device->queues->idle_bytes();
}

runtime::GearOptions::Policy policy_of(const std::string& name) {
  using Policy = runtime::GearOptions::Policy;
  if (name == "exact") return Policy::exact;
  if (name == "auto") return Policy::automatic;
  if (name == "listed") return Policy::listed;
  fail(ErrorCode::invalid_argument, "gears can't be '", name, "'; use exact, auto or listed");
}

using Cores = std::pair<int, int>;  // for matmuls, for the rest; 0: no limit

Cores cores_of(runtime::CoreLimit limit) { return {limit.matrix, limit.vector}; }

void bind_core_limits(nb::module_& m) {
  m.def("set_current_stream", &runtime::set_current_stream, nb::arg("stream"),
        "The stream that this thread is on, by number.");
  m.def(
      "set_stream_limit",
      [](std::int64_t stream, std::optional<Cores> cores) {
        std::optional<runtime::CoreLimit> limit;
        if (cores) limit = runtime::CoreLimit{cores->first, cores->second};
        runtime::set_stream_limit(stream, limit);
      },
      nb::arg("stream"), nb::arg("cores").none());
  m.def(
      "stream_limit", [](std::int64_t stream) { return cores_of(runtime::stream_limit(stream)); },
      nb::arg("stream"));
  m.def(
      "set_device_limit",
      [](Cores cores) { runtime::set_device_limit({cores.first, cores.second}); },
      nb::arg("cores"));
  m.def("device_limit", [] { return cores_of(runtime::device_limit()); });
}

}  // namespace

void CaptureOptions::set(runtime::SessionOptions& options) const {
  options.gears = gears;
  options.force_recapture = force_recapture;
  options.captures_share_arena = share_arena;
  if (pool)
    options.device = pool_of(*pool);
  else if (!share_arena)
    options.device = runtime::open_cpu({});
}

nb::list captures_of(const runtime::Session& session) {
  nb::list out;
  for (const runtime::CaptureInfo& info : session.captures()) {
    nb::dict entry;
    entry["key"] = info.key;
    entry["hits"] = info.hits;
    entry["arena_bytes"] = info.arena_bytes;
    entry["reason"] = info.reason;
    entry["note"] = info.note;
    out.append(entry);
  }
  return out;
}

void bind_captures(nb::module_& m) {
  nb::class_<CaptureOptions>(m, "CaptureOptions", "How a compiled graph captures.")
      .def(
          "__init__",
          [](CaptureOptions* self, const std::string& gears, const std::vector<Ladder>& ladders,
             bool gears_only, bool force_recapture, bool share_arena,
             std::optional<PoolHandle> pool) {
            new (self) CaptureOptions{{policy_of(gears)}, force_recapture, share_arena, pool};
            for (const auto& [symbols, rows] : ladders)
              self->gears.ladders.push_back({symbols, rows});
            self->gears.refuse_others = gears_only;
          },
          nb::arg("gears") = "exact", nb::arg("ladders") = std::vector<Ladder>(),
          nb::arg("gears_only") = false, nb::arg("force_recapture") = false,
          nb::arg("share_arena") = true, nb::arg("pool") = nb::none());
  bind_core_limits(m);
  m.def("pool_bytes", &bytes_of_pool, nb::arg("handle"),
        "Bytes that the pool of this handle holds between calls.");
}

}  // namespace gex::python
