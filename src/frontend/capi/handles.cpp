#include "frontend/capi/handles.hpp"

#include <atomic>

#include "base/error.hpp"

namespace {

std::uint32_t next_serial() {
  static std::atomic<std::uint32_t> last{0};
  return ++last;
}

}  // namespace

gex_graph::gex_graph(std::unique_ptr<gex::Graph> from)
    : graph(std::move(from)), serial_(next_serial()) {
  for (gex::Dim symbol : gex::all_symbols_of(*graph)) symbols.emplace(symbol.name(), symbol);
}

gex_value gex_graph::handle(gex::Value* value) {
  auto [at, is_new] = handles_.try_emplace(value, 0);
  if (is_new) {
    values_.push_back(value);
    at->second = (static_cast<gex_value>(serial_) << 32) | static_cast<gex_value>(values_.size());
  }
  return at->second;
}

void gex_graph::forget(const gex::Value* value) {
  const auto at = handles_.find(value);
  if (at == handles_.end()) return;
  values_[(at->second & 0xffffffffu) - 1] = nullptr;
  handles_.erase(at);
}

gex::Value* gex_graph::value(gex_value handle, const char* what) const {
  using gex::ErrorCode;
  if (handle == GEX_NO_VALUE)
    gex::fail(ErrorCode::invalid_argument, what, " is GEX_NO_VALUE; a value is needed here");
  if (handle >> 32 != serial_)
    gex::fail(ErrorCode::invalid_argument, what, " is no value of graph '", graph->name(),
              "': it belongs to another graph or is made up");
  const std::uint64_t position = handle & 0xffffffffu;
  if (position == 0 || position > values_.size())
    gex::fail(ErrorCode::invalid_argument, what, " is no value of graph '", graph->name(), "'");
  if (values_[position - 1] == nullptr)
    gex::fail(ErrorCode::invalid_argument, what, " was erased from graph '", graph->name(), "'");
  return values_[position - 1];
}

gex::Value* gex_graph::optional_value(gex_value handle, const char* what) const {
  return handle == GEX_NO_VALUE ? nullptr : value(handle, what);
}
