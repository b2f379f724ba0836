#include "passes/engine/plugins.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/log.hpp"
#include "passes/engine/user_passes.hpp"

namespace gex::passes {
namespace {

// Set while this thread loads a library: collects its failures.
thread_local std::vector<std::string>* failures = nullptr;

class CollectFailures {
 public:
  explicit CollectFailures(std::vector<std::string>& into) : saved_(failures) { failures = &into; }
  ~CollectFailures() { failures = saved_; }
  CollectFailures(const CollectFailures&) = delete;
  CollectFailures& operator=(const CollectFailures&) = delete;

 private:
  std::vector<std::string>* saved_;
};

struct Loaded {
  std::mutex mutex;
  std::map<std::string, std::string> problems;  // by path; empty: no error
};

Loaded& loaded() {
  static Loaded loaded;
  return loaded;
}

// Returns the errors of its passes, or nothing. A library stays loaded: the registry has its
// functions, and its static objects would not register again.
std::string load_plugin(const std::string& path) {
  if (!std::filesystem::exists(path))
    fail(ErrorCode::io_error, "plugin ", path, ": there is no such file");
  std::vector<std::string> failed;
  void* library = nullptr;
  {
    CollectFailures collect(failed);
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr)
    fail(ErrorCode::io_error, "plugin ", path, " can't be loaded: ", dlerror());
  return failed.empty() ? "" : failed.front();
}

}  // namespace

void note_failed_registration(std::string message) {
  if (failures != nullptr) {
    failures->push_back(std::move(message));
  } else {
    log(LogArea::passes, LogLevel::error, message);
  }
}

void load_plugins(std::string_view list) {
  Loaded& known = loaded();
  std::lock_guard lock(known.mutex);
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(':'), list.size());
    const std::string path(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
    if (path.empty()) continue;
    if (!known.problems.contains(path)) known.problems[path] = load_plugin(path);
    if (const std::string& problem = known.problems[path]; !problem.empty())
      fail(ErrorCode::invalid_argument, "plugin ", path, ": ", problem);
  }
}

void load_environment_plugins() {
  const char* list = std::getenv("GEX_PLUGINS");
  if (list != nullptr && *list != '\0') load_plugins(list);
}

}  // namespace gex::passes
