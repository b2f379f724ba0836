#include "compile/kernel_table.hpp"

#include "base/error.hpp"

namespace gex::compile_detail {

int KernelTable::add(const loop::Kernel& kernel, std::vector<Dim>& symbols) {
  loop::Kernel canonical = loop::canonical(kernel, symbols);
  Hash hash = loop::structural_hash(canonical);
  auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    loop::Kernel& known = kernels_[static_cast<std::size_t>(it->second)];
    std::string name = std::exchange(canonical.name, known.name);
    if (known == canonical) return it->second;
    canonical.name = std::move(name);
  }
  int id = static_cast<int>(kernels_.size());
  kernels_.push_back(std::move(canonical));
  by_hash_.emplace(hash, id);
  return id;
}

int KernelTable::add_loop_code(std::string name, int kernel) {
  std::string key = str("loop ", kernel);
  auto found = code_by_key_.find(key);
  if (found != code_by_key_.end()) return found->second;
  int id = static_cast<int>(codes_.size());
  codes_.push_back({std::move(name), kernel, nullptr});
  code_by_key_.emplace(std::move(key), id);
  return id;
}

int KernelTable::add_choice_code(
    std::string name, const std::string& key, int epilogue_kernel,
    std::function<program::Callable(const std::optional<program::Callable>&)> make) {
  std::string full_key = str("choice ", key, " epilogue ", epilogue_kernel);
  auto found = code_by_key_.find(full_key);
  if (found != code_by_key_.end()) return found->second;
  int id = static_cast<int>(codes_.size());
  codes_.push_back({std::move(name), epilogue_kernel, std::move(make)});
  code_by_key_.emplace(std::move(full_key), id);
  return id;
}

}  // namespace gex::compile_detail
