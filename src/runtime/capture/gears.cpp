#include "runtime/capture/gears.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"

namespace gex::runtime {

namespace {

// Replaces values in the key that no Capture depends on.
constexpr std::int64_t kAnyValue = 0;

// The next gear: powers of two, and from 16 on `steps` gears for each doubling, so that little of
// the memory is padding.
std::int64_t next_gear(std::int64_t size, int steps) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 62;
  constexpr std::int64_t kPowersOnly = 16;
  if (size <= 1 || size > kLargest) return size;
  std::int64_t power = 1;  // the largest below the size
  while (power * 2 < size) power *= 2;
  const std::int64_t step = power < kPowersOnly ? power : std::max<std::int64_t>(1, power / steps);
  return (size + step - 1) / step * step;
}

std::string text_of(const std::vector<std::int64_t>& row) {
  std::string out;
  for (const std::int64_t size : row) out += str(out.empty() ? "" : " x ", size);
  return out;
}

std::string text_of(const std::vector<std::vector<std::int64_t>>& rows) {
  std::string out;
  for (const auto& row : rows) out += str(out.empty() ? "" : ", ", text_of(row));
  return out;
}

void check(const GearOptions::Ladder& ladder) {
  if (ladder.rows.empty())
    fail(ErrorCode::invalid_argument, "a list of gears is empty; give at least one size");
  for (std::size_t i = 0; i < ladder.rows.size(); ++i) {
    const auto& row = ladder.rows[i];
    if (row.size() != ladder.symbols.size())
      fail(ErrorCode::invalid_argument, "gear ", text_of(row), " has ", row.size(),
           " sizes; expected ", ladder.symbols.size(), ", one for each dim that its list is for");
    if (std::ranges::any_of(row, [](std::int64_t size) { return size < 1; }))
      fail(ErrorCode::invalid_argument, "gear ", text_of(row),
           " is not a valid size; sizes must be at least 1");
    if (std::find(ladder.rows.begin(), ladder.rows.begin() + static_cast<std::ptrdiff_t>(i), row) !=
        ladder.rows.begin() + static_cast<std::ptrdiff_t>(i))
      fail(ErrorCode::invalid_argument, "gear ", text_of(row),
           " is listed twice; remove one of them");
  }
}

// Symbols that the size of a temporary or scratch of epoch 0 depends on, or the memory of an input
// that is released early.
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

Gears::Gears(const Image& image, GearOptions options, bool sizes_only, GearRule rule)
    : options_(std::move(options)), rule_(std::move(rule)) {
  for (const GearOptions::Ladder& ladder : options_.ladders) check(ladder);
  const bool all_matter = !sizes_only || options_.policy == GearOptions::Policy::exact;
  const std::vector<Dim> sizing = sizing_symbols(image);
  std::vector<Dim> others;
  for (int i = 0; i < image.num_input_symbols(); ++i) {
    const Dim symbol = image.program->symbols[static_cast<std::size_t>(i)];
    matters_.push_back(all_matter || std::ranges::find(sizing, symbol) != sizing.end());
    ranges_.push_back(symbol.range());
    others.push_back(symbol);
  }
  const std::vector<Dim> symbols = others;
  const GearOptions::Ladder* for_others = nullptr;
  for (const GearOptions::Ladder& ladder : options_.ladders) {
    if (ladder.symbols == std::vector{Dim(0)}) {
      for_others = &ladder;
      continue;
    }
    Rows rows{{}, &ladder.rows};
    for (Dim symbol : ladder.symbols) {
      const auto at = std::ranges::find(symbols, symbol);
      if (at == symbols.end()) break;  // passes found that nothing depends on this symbol
      rows.symbols.push_back(static_cast<std::size_t>(at - symbols.begin()));
      std::erase(others, symbol);
    }
    if (rows.symbols.size() == ladder.symbols.size()) listed_.push_back(std::move(rows));
  }
  if (for_others == nullptr) return;
  for (Dim symbol : others) {
    const auto at = std::ranges::find(symbols, symbol) - symbols.begin();
    listed_.push_back({{static_cast<std::size_t>(at)}, &for_others->rows});
  }
}

void Gears::keep_sizes(std::span<std::int64_t> key) const {
  for (std::size_t i = 0; i < key.size(); ++i)
    if (!matters_[i]) key[i] = kAnyValue;
}

void Gears::round_up(const Rows& rows, std::span<std::int64_t> key) const {
  const std::vector<std::int64_t>* serving = nullptr;
  bool is_row = false;
  for (const auto& row : *rows.sizes) {
    bool covers = true, equal = true;
    for (std::size_t k = 0; k < row.size(); ++k) {
      covers = covers && key[rows.symbols[k]] <= row[k];
      equal = equal && key[rows.symbols[k]] == row[k];
    }
    if (covers && serving == nullptr) serving = &row;
    is_row = is_row || equal;
  }
  if (options_.refuse_others && !is_row) {
    std::vector<std::int64_t> sizes;
    for (std::size_t symbol : rows.symbols) sizes.push_back(key[symbol]);
    fail(ErrorCode::shape_mismatch, "size ", text_of(sizes), " is not one of the gears (",
         text_of(*rows.sizes),
         "); pass one of these sizes, or allow the next larger gear to serve it");
  }
  if (serving == nullptr || is_row) return;
  // Sizes of a row change together: one that has to be exact keeps all of them.
  if (std::ranges::any_of(rows.symbols, [&](std::size_t i) { return is_exact(i); })) return;
  for (std::size_t k = 0; k < serving->size(); ++k) key[rows.symbols[k]] = (*serving)[k];
}

void Gears::round_up(std::span<std::int64_t> key, std::int64_t captures) const {
  round_up_by_policy(key, captures);
  if (rule_.steps == 0) return;
  for (std::size_t i = 0; i < key.size(); ++i)
    if (!is_exact(i)) key[i] = std::min(next_gear(key[i], rule_.steps), ranges_[i].hi);
}

void Gears::round_up_by_policy(std::span<std::int64_t> key, std::int64_t captures) const {
  using Policy = GearOptions::Policy;
  if (options_.policy == Policy::exact) return;
  if (options_.policy == Policy::automatic && captures < options_.exact_first) return;
  for (const Rows& rows : listed_) round_up(rows, key);
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (options_.policy == Policy::automatic && matters_[i] && !is_exact(i))
      key[i] = next_gear(key[i], 1);
    key[i] = std::min(key[i], ranges_[i].hi);
  }
}

}  // namespace gex::runtime
