#include "emit/code_table.hpp"

#include "base/error.hpp"

namespace gex::emit {

int CodeTable::add_kernel(const loop::Kernel& kernel, std::vector<Dim>& symbols) {
  loop::Kernel canonical = loop::canonical(kernel, symbols);
  const Hash hash = loop::structural_hash(canonical);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const loop::Kernel& known = kernels_[static_cast<std::size_t>(it->second)];
    std::string name = std::exchange(canonical.name, known.name);
    if (known == canonical) return it->second;
    canonical.name = std::move(name);
  }
  const int number = static_cast<int>(kernels_.size());
  program_.kernels.push_back(loop::print(canonical));
  kernels_.push_back(std::move(canonical));
  by_hash_.emplace(hash, number);
  return number;
}

int CodeTable::add_code(program::Code code) {
  std::string key =
      str(code.problem, " ", code.algorithm, " ", code.kernel, " ", code.extra_buffers);
  for (const program::Code::Prologue& p : code.prologues)
    key += str(" prologue ", p.kernel, " ", p.operand, " ", p.first_buffer, " ", p.input_buffers,
               " ", p.dims_begin);
  const auto [found, added] =
      code_by_key_.try_emplace(std::move(key), static_cast<int>(program_.codes.size()));
  if (added) program_.codes.push_back(std::move(code));
  return found->second;
}

}  // namespace gex::emit
