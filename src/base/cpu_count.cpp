#include "base/cpu_count.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/error.hpp"

namespace gex {

namespace {

int affinity_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(CPU_COUNT(&set), 1);
  // More CPUs than a cpu_set_t holds.
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::optional<int> cpus_of(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return std::nullopt;
  double cpus = std::min(quota / period, 1e6);
  return std::max(static_cast<int>(cpus) + (cpus > static_cast<int>(cpus) ? 1 : 0), 1);
}

// v2: "max 100000" or "150000 100000"
std::optional<int> limit_v2(const std::string& folder) {
  std::istringstream in(read_text(folder + "/cpu.max"));
  double quota = 0;
  double period = 0;
  if (!(in >> quota >> period)) return std::nullopt;
  return cpus_of(quota, period);
}

// v1: -1 for none
std::optional<int> limit_v1(const std::string& folder) {
  std::istringstream quota_in(read_text(folder + "/cpu.cfs_quota_us"));
  std::istringstream period_in(read_text(folder + "/cpu.cfs_period_us"));
  double quota = 0;
  double period = 0;
  if (!(quota_in >> quota) || !(period_in >> period)) return std::nullopt;
  return cpus_of(quota, period);
}

// Limits of parent groups apply too. Inside a container the path may not exist under the mount,
// whose root is then the container's own group, so the walk always ends at the mount.
template <class LimitOf>
std::optional<int> least_upwards(const std::string& mount, std::string path, LimitOf limit_of) {
  std::optional<int> least;
  for (;;) {
    if (auto limit = limit_of(mount + path)) least = std::min(least.value_or(*limit), *limit);
    auto slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return least;
    path.resize(slash);
  }
}

bool lists(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    auto comma = controllers.find(',');
    if (controllers.substr(0, comma) == wanted) return true;
    if (comma == std::string_view::npos) break;
    controllers.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

std::optional<int> cgroup_cpu_limit(const std::string& root, std::string_view proc_cgroup) {
  std::optional<int> least;
  auto note = [&](std::optional<int> limit) {
    if (limit) least = std::min(least.value_or(*limit), *limit);
  };
  std::istringstream lines{std::string(proc_cgroup)};
  for (std::string line; std::getline(lines, line);) {  // hierarchy:controllers:path
    auto first = line.find(':');
    auto second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      note(least_upwards(root, path, limit_v2));
    } else if (lists(controllers, "cpu")) {
      note(least_upwards(root + "/cpu", path, limit_v1));
      note(least_upwards(root + "/cpu,cpuacct", path, limit_v1));
    }
  }
  return least;
}

int default_thread_count() {
  int count = affinity_count();
  if (auto limit = cgroup_cpu_limit("/sys/fs/cgroup", read_text("/proc/self/cgroup"))) {
    count = std::min(count, *limit);
  }
  if (const char* text = std::getenv("GEX_NUM_THREADS"); text && *text) {
    std::string_view view(text);
    int wanted = 0;
    auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), wanted);
    if (error != std::errc() || end != view.data() + view.size() || wanted < 1) {
      fail(ErrorCode::invalid_argument, "GEX_NUM_THREADS must be a positive number, got '", view,
           "'");
    }
    count = std::min(count, wanted);
  }
  return count;
}

}  // namespace gex
