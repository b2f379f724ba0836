#include "runtime/gears.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"

namespace gex::runtime {

namespace {

// Written for a value that tells no Captures apart.
constexpr std::int64_t kAnyValue = 0;

std::int64_t next_power_of_two(std::int64_t size) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 62;
  if (size > kLargest) return size;
  std::int64_t power = 1;
  while (power < size) power *= 2;
  return power;
}

std::string listed(const std::vector<std::int64_t>& sizes) {
  std::string out;
  for (const std::int64_t size : sizes) out += str(out.empty() ? "" : ", ", size);
  return out;
}

void check(const std::vector<std::int64_t>& sizes) {
  if (sizes.empty())
    fail(ErrorCode::invalid_argument, "a list of gears is empty; give at least one size");
  std::int64_t last = 0;
  for (const std::int64_t size : sizes) {
    if (size < 1) fail(ErrorCode::invalid_argument, "gear ", size, " is no size; gears begin at 1");
    if (size <= last)
      fail(ErrorCode::invalid_argument, "gear ", size, " stands after ", last,
           "; give gears once each, in ascending order");
    last = size;
  }
}

// Symbols that the size of some temporary or scratch of epoch 0 depends on, or the memory of an
// input that is let go of early.
std::vector<Dim> sizing_symbols(const Image& image) {
  const program::Program& program = *image.program;
  std::vector<Dim> symbols;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const program::BufferDesc& root = program.buffers[static_cast<std::size_t>(image.root[i])];
    if (root.kind != program::BufferDesc::Kind::temp) continue;
    program.buffers[i].bytes.collect_symbols(symbols);
    if (program.buffers[i].alias_of >= 0) program.buffers[i].alias_offset.collect_symbols(symbols);
  }
  for (const LaunchOp& op : image.launches) op.launch->scratch_bytes.collect_symbols(symbols);
  for (const InputEnd& end : image.input_ends) {
    const program::BufferId id = program.inputs[static_cast<std::size_t>(end.input)].buffer;
    program.buffers[static_cast<std::size_t>(id)].bytes.collect_symbols(symbols);
  }
  return symbols;
}

}  // namespace

Gears::Gears(const Image& image, GearOptions options, bool sizes_only)
    : options_(std::move(options)) {
  for (const auto& [symbol, sizes] : options_.ladders) check(sizes);
  const std::vector<Dim> sizing = sizing_symbols(image);
  const auto ladder_for = [&](Dim symbol) -> const std::vector<std::int64_t>* {
    const std::vector<std::int64_t>* for_all = nullptr;
    for (const auto& [of, sizes] : options_.ladders) {
      if (of == symbol) return &sizes;
      if (of == Dim(0)) for_all = &sizes;
    }
    return for_all;
  };
  for (int i = 0; i < image.num_input_symbols(); ++i) {
    const Dim symbol = image.program->symbols[static_cast<std::size_t>(i)];
    matters_.push_back(!sizes_only || std::ranges::find(sizing, symbol) != sizing.end());
    ranges_.push_back(symbol.range());
    ladder_of_.push_back(ladder_for(symbol));
  }
}

void Gears::keep_sizes(std::span<std::int64_t> key) const {
  for (std::size_t i = 0; i < key.size(); ++i)
    if (!matters_[i]) key[i] = kAnyValue;
}

std::int64_t Gears::gear_of(std::size_t symbol, std::int64_t size) const {
  if (options_.policy == GearOptions::Policy::automatic) return next_power_of_two(size);
  const std::vector<std::int64_t>* ladder = ladder_of_[symbol];
  if (ladder == nullptr) return size;
  const auto gear = std::ranges::lower_bound(*ladder, size);
  if (options_.refuse_others && (gear == ladder->end() || *gear != size))
    fail(ErrorCode::shape_mismatch, "size ", size, " is none of the gears (", listed(*ladder),
         "); pass one of these, or let the next larger one serve it");
  return gear == ladder->end() ? size : *gear;
}

void Gears::round_up(std::span<std::int64_t> key, std::int64_t captures) const {
  using Policy = GearOptions::Policy;
  if (options_.policy == Policy::exact) return;
  if (options_.policy == Policy::automatic && captures < options_.exact_first) return;
  for (std::size_t i = 0; i < key.size(); ++i)
    if (matters_[i] && (key[i] > 1 || options_.policy == Policy::listed))
      key[i] = std::min(gear_of(i, key[i]), ranges_[i].hi);
}

}  // namespace gex::runtime
