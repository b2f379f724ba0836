#include "plan/report.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "base/error.hpp"
#include "plan/checker.hpp"

namespace gex::plan {

using program::BufferDesc;
using program::BufferId;

namespace {

bool overlap_in_memory(const MemoryReport::Row& a, const MemoryReport::Row& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

void list_sharing(std::vector<MemoryReport::Row>& rows) {
  for (MemoryReport::Row& row : rows)
    for (const MemoryReport::Row& other : rows)
      if (other.buffer != row.buffer && overlap_in_memory(row, other))
        row.sharing.push_back(other.buffer);
}

// Scratch of one launch, rounded as in captures. Nothing if a size is bound later.
std::int64_t largest_scratch(const program::Program& program,
                             const std::function<std::optional<std::int64_t>(Dim)>& evaluated) {
  std::int64_t largest = 0;
  for (const program::Segment& segment : program.segments)
    for (const program::Step& step : segment.steps)
      if (const auto* launch = std::get_if<program::Launch>(&step.op))
        largest = std::max(largest, evaluated(launch->scratch_bytes).value_or(0));
  return (largest + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

double MemoryReport::ratio() const {
  return lower_bound == 0 ? 1.0 : static_cast<double>(total) / static_cast<double>(lower_bound);
}

std::string MemoryReport::why() const {
  if (ratio() <= 1.05) return "";
  if (strategy == Strategy::apart) return "memory reuse is switched off";
  // The value at the top of the arena, and what prevented a lower offset.
  const auto top = std::max_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.offset + a.bytes < b.offset + b.bytes;
  });
  std::int64_t alive = 0;
  int others = 0;
  for (const Row& row : rows) {
    if (&row == &*top || !row.life.overlaps(top->life)) continue;
    alive += row.bytes;
    ++others;
  }
  return str("%", top->buffer, " \"", top->name, "\" (", top->bytes, " bytes, steps ",
             top->life.first, " to ", top->life.last, ") ends at ", total,
             ": it overlaps in time with ", others, " values of ", alive,
             " bytes in total, whose offsets were determined by values that "
             "died before them, and no hole between them is large enough");
}

std::string MemoryReport::text() const {
  std::ostringstream out;
  out << "memory: " << rows.size() << " temporaries, arena " << total << " bytes, lower bound "
      << lower_bound << " (" << std::fixed << std::setprecision(3) << ratio() << ", "
      << name_of(strategy) << "), " << without_reuse << " without reuse\n";
  if (scratch > 0) out << "  and " << scratch << " bytes of kernel scratch for each worker\n";
  if (!why().empty()) out << "  more than the lower bound: " << why() << "\n";
  for (const Row& row : rows) {
    out << "  %" << row.buffer << " \"" << row.name << "\" offset " << row.offset << " bytes "
        << row.bytes << " steps " << row.life.first << ".." << row.life.last;
    for (std::size_t k = 0; k < row.sharing.size(); ++k)
      out << (k == 0 ? " shares with %" : ", %") << row.sharing[k];
    out << "\n";
  }
  for (BufferId id : later) out << "  %" << id << " is placed once its size is known\n";
  return out.str();
}

MemoryReport memory_report(const program::Program& program,
                           const std::function<std::optional<std::int64_t>(Dim)>& value_of,
                           bool reuse) {
  const Lifetimes lives = lifetimes_of(program);
  const auto evaluated = [&](Dim size) -> std::optional<std::int64_t> {
    std::vector<Dim> symbols;
    size.collect_symbols(symbols);
    for (Dim symbol : symbols)
      if (!value_of(symbol)) return std::nullopt;
    return size.eval([&](Dim symbol) { return *value_of(symbol); });
  };
  MemoryReport report;
  std::vector<int> row_of(program.buffers.size(), -1);
  std::vector<Interval> intervals;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferDesc& buffer = program.buffers[i];
    const auto id = static_cast<BufferId>(i);
    if (buffer.kind != BufferDesc::Kind::temp || program::root_of(program, id) != id ||
        !lives.of_root[i].used())
      continue;
    const auto bytes = evaluated(buffer.bytes);
    if (!bytes) {
      report.later.push_back(id);
      continue;
    }
    row_of[i] = static_cast<int>(report.rows.size());
    report.rows.push_back({id, buffer.name, *bytes, 0, lives.of_root[i], {}});
    intervals.push_back(lives.of_root[i]);
  }
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {  // an alias may extend further
    const auto id = static_cast<BufferId>(i);
    const int row = row_of[static_cast<std::size_t>(program::root_of(program, id))];
    if (row < 0) continue;
    const Dim end = program::offset_from_root(program, id) + program.buffers[i].bytes;
    auto& bytes = report.rows[static_cast<std::size_t>(row)].bytes;
    if (const auto reach = evaluated(end)) bytes = std::max(bytes, *reach);
  }
  std::vector<std::int64_t> bytes;
  for (const MemoryReport::Row& row : report.rows) bytes.push_back(row.bytes);
  const MemoryPlanner planner(intervals);
  const Placement placement = reuse ? planner.plan(bytes) : planner.plan(bytes, Strategy::apart);
  std::vector<std::string> names;
  for (std::size_t k = 0; k < report.rows.size(); ++k) {
    MemoryReport::Row& row = report.rows[k];
    row.offset = placement.offsets[k];
    report.without_reuse += (row.bytes + kAlignment - 1) / kAlignment * kAlignment;
    names.push_back(str("%", row.buffer, " \"", row.name, "\""));
  }
  const auto wrong = find_overlap(intervals, bytes, placement.offsets, placement.total, names);
  GEX_CHECK(!wrong, wrong.value_or(""));
  list_sharing(report.rows);
  report.scratch = largest_scratch(program, evaluated);
  report.total = placement.total;
  report.lower_bound = placement.lower_bound;
  report.strategy = placement.strategy;
  std::stable_sort(report.rows.begin(), report.rows.end(), [](const auto& a, const auto& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.life.first < b.life.first;
  });
  return report;
}

}  // namespace gex::plan
