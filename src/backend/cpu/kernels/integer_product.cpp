#include "backend/cpu/kernels/integer_product.hpp"

#include "backend/cpu/kernels/bind.hpp"
#include "backend/cpu/kernels/integer_common.hpp"
#include "backend/cpu/kernels/integer_pack.hpp"
#include "backend/cpu/kernels/pack_dims.hpp"

namespace gex::kernels {

namespace {

// A unit of the grid.
constexpr std::int64_t kBlockRows = 48;
constexpr std::int64_t kBlockColumns = 64;
constexpr std::int64_t kBlockPanels = kBlockColumns / kPanelColumns;
constexpr std::int64_t kSumBytes = kPanelColumns * 4;
constexpr std::int64_t kRowTermBytes = 256;

std::int64_t panel_bytes(std::int64_t depth) {
  return padded_depth(depth) * kPanelColumns + kSumBytes;
}
std::int64_t blocks(std::int64_t size, std::int64_t block) { return (size + block - 1) / block; }

struct IntegerContext {
  MatmulProblem matmul;
  EpilogueCall epilogue;
};

// Memory of one worker.
struct Space {
  std::uint8_t* left;
  std::int32_t* row_terms;
  std::uint8_t* right;
  std::int32_t* sums;
  std::byte* rest;

  Space(std::byte* scratch, std::int64_t depth) {
    const auto take = [&](std::int64_t bytes) {
      std::byte* at = scratch;
      scratch += bytes;
      return at;
    };
    left = reinterpret_cast<std::uint8_t*>(take(kBlockRows * padded_depth(depth)));
    row_terms = reinterpret_cast<std::int32_t*>(take(kRowTermBytes));
    right = reinterpret_cast<std::uint8_t*>(take(kBlockPanels * panel_bytes(depth)));
    sums = reinterpret_cast<std::int32_t*>(take(kBlockRows * kBlockColumns * 4));
    rest = scratch;
  }
};

// Corrects sums of shifted operands; see integer_common.hpp for the formula.
void correct(std::int32_t* sums, std::int64_t rows, std::int64_t columns,
             const std::int32_t* row_terms, const std::int32_t* column_terms) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      auto sum = static_cast<std::uint32_t>(sums[r * kBlockColumns + c]);
      sum += static_cast<std::uint32_t>(row_terms[r]) + static_cast<std::uint32_t>(column_terms[c]);
      sums[r * kBlockColumns + c] = static_cast<std::int32_t>(sum);
    }
}

struct MatmulUnits {
  const IntegerContext& context;
  void* const* buffers;
  const std::int64_t* dims;
  std::int64_t rows, columns, depth;
  Shifts shifts;
  Space space;
  IntegerEpilogue epilogue;
  IntegerTileFn tile = integer_tile(true);

  MatmulUnits(const IntegerContext& c, void* const* b, const std::int64_t* d, std::byte* scratch)
      : context(c),
        buffers(b),
        dims(d),
        rows(d[problems::matmul_dims::m]),
        columns(d[problems::matmul_dims::n]),
        depth(d[problems::matmul_dims::k]),
        shifts(c.matmul.a, c.matmul.b),
        space(scratch, depth),
        epilogue(c.epilogue, b + 2, d, space.rest) {}

  std::int64_t batch_offset(std::int64_t batch, int at) const {
    const std::int64_t inner = dims[problems::matmul_dims::batch1];
    return batch / inner * dims[at] + batch % inner * dims[at + 1];
  }

  void run(std::int64_t begin, std::int64_t end) {
    const std::int64_t row_blocks = blocks(rows, kBlockRows);
    const std::int64_t column_blocks = blocks(columns, kBlockColumns);
    std::int64_t packed = -1;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t block = unit / column_blocks;
      const std::int64_t batch = block / row_blocks, row = block % row_blocks * kBlockRows;
      const std::int64_t column = unit % column_blocks * kBlockColumns;
      const std::int64_t height = std::min(kBlockRows, rows - row);
      if (packed != block) pack_left(batch, row, height);
      packed = block;
      finish(batch, row, height, column, std::min(kBlockColumns, columns - column));
    }
  }

  void pack_left(std::int64_t batch, std::int64_t row, std::int64_t height) {
    constexpr int at = problems::matmul_dims::a_strides;
    Bytes from = static_cast<Bytes>(buffers[0]) + batch_offset(batch, at) + row * dims[at + 2];
    for (std::int64_t r = 0; r < height; ++r) {
      std::uint8_t* to = space.left + r * padded_depth(depth);
      pack_row(to, from + r * dims[at + 2], dims[at + 3], depth, shifts.flip_unsigned);
      space.row_terms[r] = 0;
      if (shifts.of_signed != 0)
        space.row_terms[r] =
            shifts.of_signed *
            (sum_of(to, depth, true) - shifts.of_unsigned * static_cast<std::int32_t>(depth));
    }
  }

  // The panels of a block of columns: packed ahead of time, or now.
  Bytes right(std::int64_t batch, std::int64_t column, std::int64_t width) {
    constexpr int at = problems::matmul_dims::b_strides;
    Bytes from = static_cast<Bytes>(buffers[1]) + batch_offset(batch, at);
    if (context.matmul.b_packed) return from + column / kPanelColumns * panel_bytes(depth);
    for (std::int64_t c = 0; c < width; c += kPanelColumns)
      pack_columns(space.right + c / kPanelColumns * panel_bytes(depth),
                   from + (column + c) * dims[at + 3], dims[at + 2], dims[at + 3], depth,
                   std::min(kPanelColumns, width - c), shifts.flip_signed);
    return space.right;
  }

  static void pack_columns(std::uint8_t* panel, Bytes from, std::int64_t k_stride,
                           std::int64_t stride, std::int64_t depth, std::int64_t width,
                           std::uint8_t flip) {
    std::int64_t at[kPanelColumns];
    for (std::int64_t c = 0; c < kPanelColumns; ++c) at[c] = c * stride;
    pack_panel(panel, depth, width, at, stride == 1, flip,
               [&](std::int64_t k) { return from + k * k_stride; });
    const std::int64_t bytes = padded_depth(depth) * kPanelColumns;
    std::int32_t sums[kPanelColumns];
    sum_columns(panel, padded_depth(depth) / kGroupBytes, false, sums);
    std::memcpy(panel + bytes, sums, sizeof sums);
  }

  void finish(std::int64_t batch, std::int64_t row, std::int64_t height, std::int64_t column,
              std::int64_t width) {
    Bytes panels = right(batch, column, width);
    tile({space.left, padded_depth(depth), panels, panel_bytes(depth), nullptr,
          padded_depth(depth) / kGroupBytes, height, blocks(width, kPanelColumns), space.sums,
          kBlockColumns});
    if (shifts.of_unsigned != 0 || shifts.of_signed != 0) {
      std::int32_t terms[kBlockColumns] = {};
      for (std::int64_t p = 0; shifts.of_unsigned != 0 && p < blocks(width, kPanelColumns); ++p) {
        std::int32_t* of_panel = terms + p * kPanelColumns;
        std::memcpy(of_panel, panels + (p + 1) * panel_bytes(depth) - kSumBytes, kSumBytes);
        for (std::int64_t c = 0; c < kPanelColumns; ++c) of_panel[c] *= -shifts.of_unsigned;
      }
      correct(space.sums, height, width, space.row_terms, terms);
    }
    constexpr int at = problems::matmul_dims::c_strides;
    for (std::int64_t r = 0; r < height; ++r) {
      const std::int32_t* values = space.sums + r * kBlockColumns;
      if (context.epilogue.fn != nullptr) {
        epilogue.run(values, (batch * rows + row + r) * columns + column, width);
        continue;
      }
      auto* out = static_cast<std::int32_t*>(buffers[2]) + batch_offset(batch, at) +
                  (row + r) * dims[at + 2] + column * dims[at + 3];
      for (std::int64_t c = 0; c < width; ++c) out[c * dims[at + 3]] = values[c];
    }
  }
};

void integer_matmul(const void* context, void* const* buffers, const std::int64_t* dims,
                    std::int64_t begin, std::int64_t end, std::byte* scratch) {
  MatmulUnits(*static_cast<const IntegerContext*>(context), buffers, dims, scratch).run(begin, end);
}

void integer_matmul_pack(const void* context, void* const* buffers, const std::int64_t* dims,
                         std::int64_t begin, std::int64_t end, std::byte*) {
  const Shifts shifts(DType::u8, static_cast<const IntegerContext*>(context)->matmul.b);
  const std::int64_t columns = dims[pack_dims::n], depth = dims[pack_dims::k];
  const std::int64_t panels = blocks(columns, kPanelColumns), inner = dims[pack_dims::batch1];
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t batch = unit / panels, column = unit % panels * kPanelColumns;
    constexpr int at = pack_dims::b_strides;
    Bytes from = static_cast<Bytes>(buffers[0]) + batch / inner * dims[at] +
                 batch % inner * dims[at + 1] + column * dims[at + 3];
    MatmulUnits::pack_columns(static_cast<std::uint8_t*>(buffers[1]) + unit * panel_bytes(depth),
                              from, dims[at + 2], dims[at + 3], depth,
                              std::min(kPanelColumns, columns - column), shifts.flip_signed);
  }
}

Dim padded_depth(Dim depth) { return ceildiv(depth, kGroupBytes) * Dim(kGroupBytes); }
Dim panel_bytes(Dim depth) { return padded_depth(depth) * Dim(kPanelColumns) + Dim(kSumBytes); }

}  // namespace

void check_integer_dtypes(const char* kernel, DType a, DType b, DType result, bool has_epilogue) {
  if (!is_byte(a) || !is_byte(b) || (!has_epilogue && result != DType::i32))
    fail(ErrorCode::unsupported, kernel,
         " kernel of integers: i8 or u8 operands and an i32 result, got ", a, ", ", b, " and ",
         result, "; cast them");
}

Dim integer_matmul_grid(Dim batch, Dim m, Dim n) {
  return batch * ceildiv(m, kBlockRows) * ceildiv(n, kBlockColumns);
}

Dim integer_matmul_scratch_bytes(Dim depth) {
  return padded_depth(depth) * Dim(kBlockRows) + panel_bytes(depth) * Dim(kBlockPanels) +
         Dim(kRowTermBytes + kBlockRows * kBlockColumns * 4);
}

program::Callable make_integer_matmul(const MatmulProblem& problem, const Attached& attached) {
  check_integer_dtypes("matmul", problem.a, problem.b, problem.c, attached.epilogue.has_value());
  return bind_kernel(&integer_matmul, IntegerContext{problem, epilogue_call(attached.epilogue)},
                     attached);
}

Dim integer_matmul_pack_grid(Dim batch, Dim n) { return batch * ceildiv(n, kPanelColumns); }

Dim integer_matmul_packed_bytes(Dim batch, Dim n, Dim k) {
  return integer_matmul_pack_grid(batch, n) * panel_bytes(k);
}

program::Callable make_integer_matmul_pack(const MatmulProblem& problem) {
  check_integer_dtypes("matmul", problem.a, problem.b, problem.c, true);
  return bind_kernel(&integer_matmul_pack, IntegerContext{problem, {}});
}

}  // namespace gex::kernels
