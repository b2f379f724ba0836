#pragma once
// Number of CPUs that this process may use.

#include <optional>
#include <string>
#include <string_view>

namespace gex {

// The minimum of: CPUs in the affinity mask, the cgroup's CPU quota (rounded up), GEX_NUM_THREADS.
// UserError if GEX_NUM_THREADS is not a positive number.
int default_thread_count();

// The CPU quota of the cgroups (v1 or v2) listed in `proc_cgroup`, the content of
// /proc/self/cgroup, with the hierarchies mounted under `root`. Nothing if there is no limit.
std::optional<int> cgroup_cpu_limit(const std::string& root, std::string_view proc_cgroup);

}  // namespace gex
