#include "runtime/session/user_kernels.hpp"

#include <map>
#include <mutex>

#include "base/error.hpp"
#include "runtime/session/forest.hpp"
#include "runtime/session/host_functions.hpp"
#include "runtime/session/pairwise_probabilities.hpp"

namespace gex::runtime {
namespace {

constexpr std::string_view kPrefix = "kernel ";

struct UserKernelTable {
  std::mutex mutex;
  std::map<std::string, UserKernel, std::less<>> kernels;  // addresses of elements must stay valid
  static UserKernelTable& get() {
    // Never destroyed: calls may come after static destructors.
    static auto* const table = new UserKernelTable{
        {}, {{kForestKernel, run_forest}, {kPairwiseProbabilities, run_pairwise_probabilities}}};
    return *table;
  }
};

}  // namespace

void register_user_kernel(const std::string& name, UserKernel kernel) {
  if (name.empty() || name.find(' ') != std::string::npos)
    fail(ErrorCode::invalid_argument, "'", name,
         "' is not a valid kernel name: it must be non-empty and contain no spaces");
  UserKernelTable& table = UserKernelTable::get();
  const std::lock_guard lock(table.mutex);
  if (!table.kernels.emplace(name, std::move(kernel)).second)
    fail(ErrorCode::invalid_argument, "there is a kernel '", name, "' already");
}

bool has_user_kernel(std::string_view name) {
  UserKernelTable& table = UserKernelTable::get();
  const std::lock_guard lock(table.mutex);
  return table.kernels.find(name) != table.kernels.end();
}

const UserKernel& user_kernel(const std::string& name) {
  UserKernelTable& table = UserKernelTable::get();
  const std::lock_guard lock(table.mutex);
  const auto found = table.kernels.find(name);
  if (found == table.kernels.end())
    fail(ErrorCode::not_found, "there is no kernel '", name,
         "' in this process; load the library that has it");
  return found->second;
}

std::string call_of_kernel(const std::string& name, const std::string& parameters) {
  return str(kPrefix, name, parameters.empty() ? "" : " ", parameters);
}

bool is_kernel_call(const program::Call& call) {
  return call.callee == kHostCallee && call.name.starts_with(kPrefix);
}

KernelCall kernel_of_call(const program::Call& call) {
  const std::string rest = call.name.substr(kPrefix.size());
  const std::size_t space = rest.find(' ');
  if (space == std::string::npos) return {rest, ""};
  return {rest.substr(0, space), rest.substr(space + 1)};
}

}  // namespace gex::runtime
