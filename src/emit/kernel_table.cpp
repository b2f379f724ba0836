#include "emit/kernel_table.hpp"

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
  codes_.push_back({std::move(name), kernel, std::nullopt, 0, {}});
  code_by_key_.emplace(std::move(key), id);
  return id;
}

int KernelTable::add_choice_code(std::string name, kernels::Problem problem, int epilogue_kernel,
                                 int extra_buffers, std::vector<PrologueSpec> prologues) {
  std::string key = str(kernels::print(problem), " epilogue ", epilogue_kernel, " ", extra_buffers);
  for (const PrologueSpec& p : prologues)
    key += str(" prologue ", p.kernel, " ", p.operand, " ", p.first_buffer, " ", p.input_buffers,
               " ", p.dims_begin);
  auto found = code_by_key_.find(key);
  if (found != code_by_key_.end()) return found->second;
  int id = static_cast<int>(codes_.size());
  codes_.push_back(
      {std::move(name), epilogue_kernel, std::move(problem), extra_buffers, std::move(prologues)});
  code_by_key_.emplace(std::move(key), id);
  return id;
}

std::vector<program::Callable> KernelTable::bind(
    const std::vector<program::Callable>& functions) const {
  std::vector<program::Callable> bound;
  for (const CodeSpec& spec : codes_) {
    const auto function_of = [&](int kernel) {
      return functions[static_cast<std::size_t>(kernel)];
    };
    bound.push_back(spec.problem ? kernels::make(*spec.problem, attached(spec, function_of))
                                 : function_of(spec.kernel));
  }
  return bound;
}

KernelTable KernelTable::restored(std::vector<loop::Kernel> kernels, std::vector<CodeSpec> codes) {
  KernelTable table;
  table.kernels_ = std::move(kernels);
  table.codes_ = std::move(codes);
  return table;
}

}  // namespace gex::compile_detail
