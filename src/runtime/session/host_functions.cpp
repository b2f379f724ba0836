#include "runtime/session/host_functions.hpp"

#include <map>
#include <mutex>

namespace gex::runtime {
namespace {

struct HostFunctionTable {
  std::mutex mutex;
  std::map<std::string, HostFunction> functions;  // addresses of elements must stay valid
};

HostFunctionTable& table() {
  static HostFunctionTable the_table;
  return the_table;
}

}  // namespace

void register_host_function(const std::string& name, HostFunction function) {
  HostFunctionTable& t = table();
  const std::lock_guard lock(t.mutex);
  t.functions.emplace(name, std::move(function));
}

const HostFunction* find_host_function(const std::string& name) {
  HostFunctionTable& t = table();
  const std::lock_guard lock(t.mutex);
  const auto found = t.functions.find(name);
  return found == t.functions.end() ? nullptr : &found->second;
}

}  // namespace gex::runtime
