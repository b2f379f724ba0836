#include "backend/cuda/mma_plan.hpp"

#include <cmath>

#include "backend/cuda/tile_text.hpp"

namespace gex::backend::cuda {

namespace {

constexpr MmaTile kTiles[] = {kTinyTile, kSmallTile, kMiddleTile, kLargeTile};

// Tiles for sizes that are constants, and a pair of them to choose from at run time otherwise.
std::vector<MmaTile> choose_tiles(const problems::MatmulProblem& p, std::span<const Dim> dims,
                                  const DeviceLimits& limits) {
  const auto rows = dims[matmul_dim::m].as_const(), depth = dims[matmul_dim::k].as_const();
  const auto large = kLargeTile.count(dims).as_const();
  if (!rows || !depth || !large) return {kSmallTile, kMiddleTile};
  if (*large >= limits.multiprocessors * 3 / 4 && kLargeTile.bytes() <= limits.shared_bytes)
    return {kLargeTile};
  MmaTile tile = *rows <= 32 ? kTinyTile : *rows <= 64 ? kSmallTile : kMiddleTile;
  const std::int64_t count = tile.count(dims).constant();
  constexpr std::int64_t kStepsEach = 4;  // at least, of the depth
  while (limits.clusters && !p.any_rows && tile.split < 8 &&
         count * tile.split * 2 <= limits.multiprocessors * 5 / 4 &&
         *depth / 64 / (tile.split * 2) >= kStepsEach)
    tile.split *= 2;
  return {tile};
}

// The axis that is contiguous for every value of the sizes: 1 the first, 2 the second, 0 unknown.
int contiguous_axis(Dim first, Dim second) {
  return first == Dim(1) ? 1 : second == Dim(1) ? 2 : 0;
}

// A form that was chosen before: forms are offered only where the operands allow them.
MmaPlan with_form(MmaPlan plan, const Form& form) {
  plan.stream = form.rows == 0;
  if (plan.stream) plan.stream_columns = form.cols;
  for (MmaTile tile : kTiles) {
    if (tile.rows != form.rows || tile.cols != form.cols) continue;
    tile.split = form.split;
    plan.tiles = {tile};
  }
  GEX_CHECK(plan.any(), "no product has the form ", name_of(form));
  return plan;
}

// Cycles of one multiprocessor: of each 64 steps of the depth, multiplication at the rate of mma
// instructions or loads from the L2 cache, then what a tile takes before and after its steps.
double cycles(const MmaTile& tile, std::span<const Dim> dims, const DeviceLimits& limits) {
  const auto blocks = static_cast<double>(tile.count(dims).constant() * tile.split);
  const double steps =
      std::ceil(static_cast<double>(dims[matmul_dim::k].constant()) / (64.0 * tile.split));
  const double step = std::max(tile.rows * tile.cols / 19.0, (tile.rows + tile.cols) * 128 / 40.0);
  const double ends = 1500 + tile.rows * tile.cols / 16.0 + (tile.split > 1 ? 1000 : 0);
  return std::ceil(blocks / limits.multiprocessors) * (steps * (step + 50) + ends);
}

// The right operand is read once, by all multiprocessors that have columns.
double stream_cycles(int columns, std::span<const Dim> dims, const DeviceLimits& limits) {
  const auto depth = static_cast<double>(dims[matmul_dim::k].constant());
  const double units = static_cast<double>(
      (dims[matmul_dim::batch0] * dims[matmul_dim::batch1] * ceildiv(dims[matmul_dim::n], columns))
          .constant());
  return 2000 + std::ceil(units / limits.multiprocessors) * depth * columns * 2 / 20.0;
}

// Without tensor cores: 128 multiplications a cycle.
Form plain_form(std::span<const Dim> dims, const DeviceLimits& limits) {
  const auto tiles = static_cast<double>((dims[matmul_dim::batch0] * dims[matmul_dim::batch1] *
                                          ceildiv(dims[matmul_dim::m], kTileRows) *
                                          ceildiv(dims[matmul_dim::n], kTileCols))
                                             .constant());
  const double each =
      kTileRows * kTileCols / 128.0 * static_cast<double>(dims[matmul_dim::k].constant()) * 2 +
      2000;
  return {kTileRows, kTileCols, 1, 0,
          std::ceil(tiles / limits.multiprocessors) * each / kCyclesPerMicrosecond};
}

std::vector<Form> tile_forms(std::span<const Dim> dims, const DeviceLimits& limits) {
  std::vector<Form> forms;
  const std::int64_t steps = ceildiv(dims[matmul_dim::k], 64).constant();
  for (MmaTile tile : kTiles)
    for (tile.split = 1; tile.split <= (limits.clusters ? 8 : 1); tile.split *= 2)
      if (tile.bytes() <= limits.shared_bytes && (tile.split == 1 || steps / tile.split >= 2))
        forms.push_back({tile.rows, tile.cols, tile.split, 0,
                         cycles(tile, dims, limits) / kCyclesPerMicrosecond});
  return forms;
}

}  // namespace

MmaPlan mma_plan(const problems::MatmulProblem& p, std::span<const Dim> dims,
                 const DeviceLimits& limits) {
  MmaPlan plan;
  if (p.a != p.b || !is_low_float(p.a)) return plan;
  plan.multiprocessors = limits.multiprocessors;
  plan.stream_bytes = std::min(MmaPlan::kMostStreamBytes, limits.shared_bytes);
  plan.computed = p.computed != 0;
  const bool left_computed = problems::contains(p.computed, 0);
  const bool right_computed = problems::contains(p.computed, 1);
  const int left =
      contiguous_axis(dims[matmul_dim::a_strides + 3], dims[matmul_dim::a_strides + 2]);
  const int right =
      contiguous_axis(dims[matmul_dim::b_strides + 2], dims[matmul_dim::b_strides + 3]);
  plan.left_by_depth = left_computed || left == 1;
  plan.right_by_depth = right_computed || right == 1;
  const DimRange rows = dims[matmul_dim::m].range();
  plan.stream = !p.any_rows && right == 1 && !right_computed && rows.lo <= MmaPlan::kStreamRows;
  const bool fits = std::min<std::int64_t>(dims[matmul_dim::k].range().hi, 1 << 30) *
                        std::min(rows.hi, MmaPlan::kStreamRows) <=
                    (plan.stream_bytes - MmaPlan::kJoinBytes) / 2 - 96 * MmaPlan::kStreamRows;
  // Wide tiles where every block gets several of them: narrow ones spread the columns more evenly.
  constexpr std::int64_t kWideTilesEach = 4;
  const auto columns =
      (dims[matmul_dim::batch0] * dims[matmul_dim::batch1] * dims[matmul_dim::n]).as_const();
  if (columns && *columns <= std::int64_t{16} * limits.multiprocessors * kWideTilesEach)
    plan.stream_columns = 8;
  if (limits.form) return with_form(plan, *limits.form);
  if (plan.stream && fits && rows.hi <= MmaPlan::kStreamRows) return plan;
  // It is known not to fit for constant sizes.
  plan.stream =
      plan.stream && (fits || !dims[matmul_dim::m].is_const() || !dims[matmul_dim::k].is_const());
  if ((left == 0 && !left_computed) || (right == 0 && !right_computed)) return plan;
  plan.tiles = choose_tiles(p, dims, limits);
  return plan;
}

std::vector<Form> matmul_forms(const problems::MatmulProblem& p, std::span<const Dim> dims,
                               const DeviceLimits& limits) {
  if (p.any_rows || p.computed != 0) return {};
  const MmaPlan plan = mma_plan(p, dims, limits);
  if (!plan.any()) return {plain_form(dims, limits)};
  std::vector<Form> forms;
  const auto stream = [&](int columns) {
    return Form{0, columns, 1, 0, stream_cycles(columns, dims, limits) / kCyclesPerMicrosecond};
  };
  if (plan.stream)
    for (const int columns : {8, 16}) forms.push_back(stream(columns));
  // Tiles need operands that are contiguous along one axis each, as the plan of more rows shows.
  std::vector<Dim> more_rows(dims.begin(), dims.end());
  more_rows[matmul_dim::m] = 2 * MmaPlan::kStreamRows;
  if (!mma_plan(p, more_rows, limits).tiles.empty())
    for (const Form& form : tile_forms(dims, limits)) forms.push_back(form);
  if (plan.tiles.empty()) return worth_trying(stream(plan.stream_columns), std::move(forms));
  const MmaTile& tile = plan.tiles.front();
  return worth_trying(
      {tile.rows, tile.cols, tile.split, 0, cycles(tile, dims, limits) / kCyclesPerMicrosecond},
      std::move(forms));
}

}  // namespace gex::backend::cuda
