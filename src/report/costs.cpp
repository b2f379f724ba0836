#include "report/costs.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "problems/costs.hpp"

namespace gex::report {

using program::BufferId;

std::optional<std::int64_t> evaluated(Dim dim, const Sizes& sizes) {
  std::vector<Dim> symbols;
  dim.collect_symbols(symbols);
  for (Dim symbol : symbols)
    if (!sizes(symbol)) return std::nullopt;
  return dim.eval([&](Dim symbol) { return *sizes(symbol); });
}

namespace {

struct UnknownSize {};

std::int64_t value_of(Dim dim, const Sizes& sizes) {
  const auto value = evaluated(dim, sizes);
  if (!value) throw UnknownSize{};
  return *value;
}

double size(DType dtype) { return static_cast<double>(size_of(dtype)); }

// The elements that an access touches: one for each combination of the loop indices in it.
class Touched {
 public:
  Touched(const loop::Kernel& kernel, const Sizes& sizes) : kernel_(kernel), sizes_(sizes) {}

  void add(int buffer, const std::vector<Dim>& index, double all_points) {
    double elements = 1;
    std::set<std::string> seen;
    for (Dim dim : index) {
      std::vector<Dim> symbols;
      dim.collect_symbols(symbols);
      for (Dim symbol : symbols) {
        if (loop::value_symbol_id(symbol)) {
          elements = all_points;  // a gather: the address depends on data
          break;
        }
        if (symbol.extent() && seen.insert(symbol.name()).second)
          elements *= static_cast<double>(value_of(*symbol.extent(), sizes_));
      }
    }
    elements_[buffer] += std::min(elements, all_points);
  }

  double bytes(int number) const {
    const auto found = elements_.find(number);
    if (found == elements_.end()) return 0;
    const loop::Buffer& buffer = kernel_.buffers[static_cast<std::size_t>(number)];
    double room = 1;
    for (Dim dim : buffer.shape) room *= static_cast<double>(value_of(dim, sizes_));
    return std::min(found->second, std::max(room, 1.0)) * size(buffer.dtype);
  }

 private:
  const loop::Kernel& kernel_;
  const Sizes& sizes_;
  std::map<int, double> elements_;
};

double points_of(const std::vector<loop::Range>& ranges, const Sizes& sizes) {
  double points = 1;
  for (const loop::Range& range : ranges)
    points *= static_cast<double>(value_of(range.extent(), sizes));
  return points;
}

}  // namespace

bool on_tensor_cores(const problems::Problem& problem) {
  const std::optional<DType> dtype = problems::multiplied_dtype(problem);
  return dtype == DType::f16 || dtype == DType::bf16;
}

Costs::Costs(const program::Program& program) : program_(program) {
  for (const std::string& text : program.kernels) kernels_.push_back(loop::parse_kernel(text));
}

Cost Costs::of_kernel(const loop::Kernel& kernel, std::span<const std::int64_t> dims,
                      int hidden) const {
  const std::vector<Dim> symbols = kernel.symbols();
  const Sizes sizes = [&](Dim symbol) -> std::optional<std::int64_t> {
    for (std::size_t k = 0; k < symbols.size() && k < dims.size(); ++k)
      if (symbols[k] == symbol) return dims[k];
    return std::nullopt;
  };
  Cost cost;
  Touched loads(kernel, sizes), stores(kernel, sizes);
  const double grid = points_of(kernel.grid, sizes);
  for (const loop::Stage& stage : kernel.stages) {
    const double domain = grid * points_of(stage.domain, sizes);
    const double all = domain * points_of(stage.reduce, sizes);
    for (const loop::Expr& expr : stage.exprs) {
      if (expr.kind == loop::Expr::Kind::prim) cost.flops += all;
      if (expr.kind == loop::Expr::Kind::load) loads.add(expr.buffer, expr.index, all);
    }
    if (stage.reduction) cost.flops += all;
    for (const loop::Store& store : stage.stores) stores.add(store.buffer, store.index, all);
  }
  for (int k = 0; k < static_cast<int>(kernel.buffers.size()); ++k) {
    const loop::Buffer& buffer = kernel.buffers[static_cast<std::size_t>(k)];
    if (k == hidden || buffer.role == loop::Buffer::Role::local) continue;
    cost.read += loads.bytes(k);
    cost.written += stores.bytes(k);
  }
  return cost;
}

double Costs::bytes_of(BufferId id, const Sizes& sizes) const {
  return static_cast<double>(value_of(program_.buffers[static_cast<std::size_t>(id)].bytes, sizes));
}

Cost Costs::of_launch(const program::Launch& launch, const Sizes& sizes) const {
  const program::Code& code = program_.codes[static_cast<std::size_t>(launch.code)];
  std::vector<std::int64_t> dims;
  for (Dim dim : launch.dims) dims.push_back(value_of(dim, sizes));
  if (code.problem.empty()) return of_kernel(kernels_[static_cast<std::size_t>(code.kernel)], dims);
  const problems::Problem problem = problems::parse_problem(code.problem);
  const bool has_epilogue = code.kernel >= 0;
  Cost cost;
  if (const auto traffic = problems::memory_traffic(problem, dims, has_epilogue)) {
    cost.read = traffic->read;
    cost.written = traffic->written;
    const auto first = static_cast<std::size_t>(problems::dims_count(problem));
    const auto add = [&](int number, std::size_t begin, bool is_epilogue) {
      const loop::Kernel& kernel = kernels_[static_cast<std::size_t>(number)];
      // The problem's accumulators, and operands computed by prologues, never reach memory.
      const Cost own = of_kernel(kernel, std::span(dims).subspan(std::min(begin, dims.size())),
                                 is_epilogue ? 0 : kernel.num_params() - 1);
      cost.flops += own.flops;
      cost.read += own.read;
      cost.written += own.written;
    };
    if (has_epilogue) add(code.kernel, first, true);
    for (const program::Code::Prologue& prologue : code.prologues)
      add(prologue.kernel, static_cast<std::size_t>(prologue.dims_begin), false);
  } else {
    for (std::size_t k = 0; k < launch.buffers.size(); ++k)
      (launch.writes[k] ? cost.written : cost.read) += bytes_of(launch.buffers[k], sizes);
  }
  if (!std::holds_alternative<problems::SortProblem>(problem))
    cost.flops += 2 * static_cast<double>(value_of(launch.work, sizes));
  return cost;
}

std::optional<Cost> Costs::of(const program::Step& step, const Sizes& sizes) const {
  try {
    if (const auto* launch = std::get_if<program::Launch>(&step.op))
      return of_launch(*launch, sizes);
    if (const auto* copy = std::get_if<program::Copy>(&step.op)) {
      const auto bytes = static_cast<double>(value_of(copy->bytes, sizes));
      return Cost{0, bytes, bytes};
    }
    if (const auto* fill = std::get_if<program::Fill>(&step.op))
      return Cost{0, 0, static_cast<double>(value_of(fill->bytes, sizes))};
  } catch (const UnknownSize&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace gex::report
