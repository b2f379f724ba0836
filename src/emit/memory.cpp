#include "emit/memory.hpp"

namespace gex::emit {

using program::BufferDesc;
using program::BufferId;

namespace {

// Bytes from the first to the last element, for any strides.
Dim extent_bytes(const Type& type) {
  if (!type.strides) return type.bytes();
  Dim last = 0;
  for (std::size_t d = 0; d < type.shape.size(); ++d)
    last += (type.shape[d] - Dim(1)) * (*type.strides)[d];
  return (last + Dim(1)) * Dim(static_cast<std::int64_t>(size_of(type.dtype)));
}

}  // namespace

BufferDesc describe(const Type& type, BufferDesc::Kind kind, std::string name) {
  BufferDesc desc;
  desc.name = std::move(name);
  desc.kind = kind;
  desc.dtype = type.dtype;
  desc.shape = type.shape;
  desc.strides = type.strides.value_or(std::vector<Dim>{});
  desc.bytes = extent_bytes(type);
  return desc;
}

BufferId Memory::add(BufferDesc desc) {
  state_.program.buffers.push_back(std::move(desc));
  return static_cast<BufferId>(state_.program.buffers.size()) - 1;
}

BufferId Memory::add_temp(const Type& type, std::string name) {
  return add(describe(type, BufferDesc::Kind::temp, std::move(name)));
}

BufferId Memory::of(Value* value) {
  auto found = state_.buffers.find(value);
  if (found != state_.buffers.end()) return found->second;
  GEX_CHECK(value->producer() != nullptr, "an input without a buffer");
  BufferId id =
      add_temp(value->type(), value->name().empty() ? value->producer()->op().name : value->name());
  state_.buffers[value] = id;
  return id;
}

Operand Memory::operand(Value* value) {
  auto own = state_.buffers.find(value);
  if (own != state_.buffers.end()) return {own->second, lower::memory_strides(*value), Dim(0)};
  auto view = lower::resolve_view(value);
  GEX_CHECK(view && state_.buffers.count(view->base) != 0, "operand ", value->type(), " of ",
            state_.current ? state_.current->op().name : "?", " is not in memory");
  return {state_.buffers.at(view->base), view->strides, view->offset};
}

BufferId Memory::window(BufferId base, Dim offset_elements) {
  if (offset_elements == Dim(0)) return base;
  BufferDesc desc = state_.program.buffers[static_cast<std::size_t>(base)];
  desc.alias_of = base;
  desc.alias_offset = offset_elements * Dim(static_cast<std::int64_t>(size_of(desc.dtype)));
  desc.bytes = desc.bytes - desc.alias_offset;
  desc.kind = BufferDesc::Kind::temp;
  desc.slot = -1;
  desc.shape.clear();
  desc.strides.clear();
  desc.data = nullptr;
  return add(std::move(desc));
}

Value* Memory::input_at(BufferId id) const {
  for (const auto& input : state_.graph.inputs()) {
    auto found = state_.buffers.find(input.get());
    if (found != state_.buffers.end() && found->second == id) return input.get();
  }
  return nullptr;
}

}  // namespace gex::emit
