#include "loop/kernel.hpp"

#include <algorithm>
#include <bit>
#include <charconv>

#include "base/error.hpp"
#include "loop/walk.hpp"

namespace gex::loop {
namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace

bool Expr::operator==(const Expr& o) const {
  return kind == o.kind && dtype == o.dtype && prim == o.prim && args == o.args &&
         same_bits(imm, o.imm) && imm_int == o.imm_int && dim == o.dim && buffer == o.buffer &&
         index == o.index && pred == o.pred && fill == o.fill && slot == o.slot;
}

bool Accumulator::operator==(const Accumulator& o) const {
  return name == o.name && dtype == o.dtype && same_bits(init, o.init) && init_int == o.init_int;
}

int Kernel::num_params() const {
  int n = 0;
  while (n < static_cast<int>(buffers.size()) && buffers[n].role != Buffer::Role::local) ++n;
  return n;
}

std::vector<Dim> Kernel::symbols() const {
  std::vector<Dim> found, sizes;
  for_each_dim(*this, [&](Dim d) { d.collect_symbols(found); });
  for (Dim s : found)
    if (!s.extent() && !value_symbol_id(s)) sizes.push_back(s);
  return sizes;
}

Dim Kernel::grid_size() const {
  Dim size = 1;
  for (const Range& r : grid) size *= r.extent();
  return size;
}

Dim Kernel::scratch_bytes() const {
  Dim total = 0;
  for (const Buffer& b : buffers)
    if (b.role == Buffer::Role::local) total += local_bytes(b);
  return total;
}

bool Kernel::ordered() const {
  for (const Stage& stage : stages)
    for (const Store& store : stage.stores)
      if (store.shared && store.ordered) return true;
  return false;
}

Dim value_symbol(ExprId id, DimRange range) { return Dim::symbol(str("v", id), range); }

std::optional<ExprId> value_symbol_id(Dim symbol) {
  if (!symbol.is_symbol() || symbol.extent()) return std::nullopt;
  return value_name_id(symbol.name());
}

std::optional<ExprId> value_name_id(std::string_view name) {
  if (name.size() < 2 || name[0] != 'v' || (name[1] == '0' && name.size() > 2)) return std::nullopt;
  ExprId id = 0;
  auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), id);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return id;
}

Dim local_bytes(const Buffer& buffer) {
  Dim bytes = product(buffer.shape) * Dim(static_cast<std::int64_t>(size_of(buffer.dtype)));
  return ceildiv(bytes, 64) * Dim(64);
}

std::vector<Dim> strides_of(const Buffer& buffer) {
  if (!buffer.strides.empty()) return buffer.strides;
  std::vector<Dim> strides(buffer.shape.size());
  Dim stride = 1;
  for (std::size_t d = buffer.shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= buffer.shape[d];
  }
  return strides;
}

Dim linear_offset(const Buffer& buffer, std::span<const Dim> index) {
  GEX_CHECK(index.size() == buffer.shape.size(), "rank of index into ", buffer.name);
  std::vector<Dim> strides = strides_of(buffer);
  Dim offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
  return offset;
}

bool is_across(const Kernel& kernel, int buffer, const std::vector<Dim>& index) {
  if (kernel.grid.size() < 2) return false;
  const Dim offset = linear_offset(kernel.buffers[static_cast<std::size_t>(buffer)], index);
  const auto along = affine_in(offset, kernel.grid.back().index);
  const auto before = affine_in(offset, kernel.grid[kernel.grid.size() - 2].index);
  return along && before && along->coefficient != Dim(0) && along->coefficient != Dim(1) &&
         (before->coefficient == Dim(1) || before->coefficient == Dim(-1));
}

bool loads_across(const Kernel& kernel, int buffer) {
  return std::ranges::any_of(kernel.stages, [&](const Stage& stage) {
    return std::ranges::any_of(stage.exprs, [&](const Expr& e) {
      return e.kind == Expr::Kind::load && e.buffer == buffer && is_across(kernel, buffer, e.index);
    });
  });
}

}  // namespace gex::loop
