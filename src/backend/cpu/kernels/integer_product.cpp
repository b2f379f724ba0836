#include "backend/cpu/kernels/integer_product.hpp"

#include <array>

#include "backend/cpu/kernels/bind.hpp"
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

// Left operands a and right operands b of other signs are shifted: a' = a + 128 if it was signed,
// b' = b - 128 if it was unsigned, for the sides that must be unsigned and signed. Then
// sum(ab) = sum(a'b') + shift_b*sum(a') - shift_a*sum(b') - shift_a*shift_b*depth.
struct Shifts {
  std::uint8_t flip_unsigned = 0, flip_signed = 0;
  std::int32_t of_unsigned = 0, of_signed = 0;

  Shifts(DType unsigned_side, DType signed_side) {
    if (unsigned_side == DType::i8) flip_unsigned = 0x80, of_unsigned = 128;
    if (signed_side == DType::u8) flip_signed = 0x80, of_signed = 128;
  }
};

struct IntegerContext {
  MatmulProblem matmul;
  Conv2dProblem conv;
  EpilogueCall epilogue;
};

// Memory of one worker.
struct Space {
  std::uint8_t* left;
  std::int32_t* row_terms;
  std::uint8_t* right;
  std::int64_t* offsets;
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
    offsets = reinterpret_cast<std::int64_t*>(take(padded_depth(depth) * 8));
    sums = reinterpret_cast<std::int32_t*>(take(kBlockRows * kBlockColumns * 4));
    rest = scratch;
  }
};

// Finished rows to the epilogue.
struct IntegerEpilogue {
  const EpilogueCall& call;
  const std::int64_t* dims;
  std::byte* scratch;
  void* buffers[1 + kMaxEpilogueBuffers];

  IntegerEpilogue(const EpilogueCall& epilogue, void* const* extra, const std::int64_t* launch_dims,
                  std::byte* rest)
      : call(epilogue), dims(launch_dims + epilogue.dims_begin), scratch(rest) {
    for (int i = 0; i < epilogue.extra_buffers; ++i) buffers[1 + i] = extra[i];
  }
  void run(const std::int32_t* values, std::int64_t begin, std::int64_t count) {
    // Integer arithmetic, because the address of element 0 may not be a valid pointer.
    buffers[0] = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(values) -
                                         static_cast<std::uintptr_t>(begin) * 4);
    call.fn(call.context, buffers, dims, begin, begin + count, scratch);
  }
};

// Adds what the shifts of the operands left out.
void correct(std::int32_t* sums, std::int64_t rows, std::int64_t columns,
             const std::int32_t* row_terms, const std::int32_t* column_terms) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      auto sum = static_cast<std::uint32_t>(sums[r * kBlockColumns + c]);
      sum += static_cast<std::uint32_t>(row_terms[r]) + static_cast<std::uint32_t>(column_terms[c]);
      sums[r * kBlockColumns + c] = static_cast<std::int32_t>(sum);
    }
}

// --- matmul ---------------------------------------------------------------------------------

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
    pack_panel(panel, depth, width, at, stride == 1, flip, nullptr,
               [&](std::int64_t k) { return from + k * k_stride; });
    const std::int64_t bytes = padded_depth(depth) * kPanelColumns;
    std::int32_t sums[kPanelColumns];
    sum_columns(panel, padded_depth(depth) / kGroupBytes, false, sums);
    std::memcpy(panel + bytes, sums, sizeof sums);
  }

  void finish(std::int64_t batch, std::int64_t row, std::int64_t height, std::int64_t column,
              std::int64_t width) {
    Bytes panels = right(batch, column, width);
    tile({space.left, padded_depth(depth), panels, panel_bytes(depth),
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

// --- convolution ----------------------------------------------------------------------------

// Rows are output channels and columns pixels of an image, so that rows of the result are dense.
struct ConvUnits {
  const IntegerContext& context;
  void* const* buffers;
  const std::int64_t* dims;
  std::int64_t channels, width, pixels, depth;
  Shifts shifts;
  Space space;
  IntegerEpilogue epilogue;
  IntegerTileFn tile = integer_tile(false);

  ConvUnits(const IntegerContext& c, void* const* b, const std::int64_t* d, std::byte* scratch)
      : context(c),
        buffers(b),
        dims(d),
        channels(d[problems::conv2d_dims::o]),
        width(d[problems::conv2d_dims::ow]),
        pixels(d[problems::conv2d_dims::oh] * width),
        depth(d[problems::conv2d_dims::c] * d[problems::conv2d_dims::kh] *
              d[problems::conv2d_dims::kw]),
        shifts(c.conv.x, c.conv.w),
        space(scratch, depth),
        epilogue(c.epilogue, b + 2, d, space.rest) {
    namespace at = problems::conv2d_dims;
    std::int64_t* offset = space.offsets;
    for (std::int64_t channel = 0; channel < d[at::c]; ++channel)
      for (std::int64_t y = 0; y < d[at::kh]; ++y)
        for (std::int64_t x = 0; x < d[at::kw]; ++x)
          *offset++ = channel * d[at::x_strides + 1] +
                      y * c.conv.dilation[0] * d[at::x_strides + 2] +
                      x * c.conv.dilation[1] * d[at::x_strides + 3];
  }

  void run(std::int64_t begin, std::int64_t end) {
    const std::int64_t row_blocks = blocks(channels, kBlockRows);
    const std::int64_t column_blocks = blocks(pixels, kBlockColumns);
    std::int64_t packed = -1;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t block = unit / row_blocks;
      const std::int64_t image = block / column_blocks;
      const std::int64_t pixel = block % column_blocks * kBlockColumns;
      const std::int64_t row = unit % row_blocks * kBlockRows;
      const std::int64_t count = std::min(kBlockColumns, pixels - pixel);
      if (packed != block) pack_right(image, pixel, count);
      packed = block;
      finish(image, row, std::min(kBlockRows, channels - row), pixel, count);
    }
  }

  void pack_right(std::int64_t image, std::int64_t pixel, std::int64_t count) {
    namespace at = problems::conv2d_dims;
    Bytes from = static_cast<Bytes>(buffers[0]) + image * dims[at::x_strides];
    for (std::int64_t c = 0; c < count; c += kPanelColumns) {
      const std::int64_t columns = std::min(kPanelColumns, count - c);
      std::int64_t places[kPanelColumns] = {};
      bool adjacent = true;
      for (std::int64_t k = 0; k < columns; ++k) {
        const std::int64_t y = (pixel + c + k) / width, x = (pixel + c + k) % width;
        places[k] = y * context.conv.stride[0] * dims[at::x_strides + 2] +
                    x * context.conv.stride[1] * dims[at::x_strides + 3];
        adjacent = adjacent && places[k] == places[0] + k;
      }
      Bytes first = from + places[0];
      for (std::int64_t k = columns; k-- > 0;) places[k] -= places[0];
      std::uint8_t* panel = space.right + c / kPanelColumns * panel_bytes(depth);
      pack_panel(panel, depth, columns, places, adjacent, shifts.flip_unsigned, limit(from),
                 [&](std::int64_t k) { return first + space.offsets[k]; });
      if (shifts.of_signed == 0) continue;
      std::int32_t sums[kPanelColumns];
      sum_columns(panel, padded_depth(depth) / kGroupBytes, true, sums);
      std::memcpy(panel + panel_bytes(depth) - kSumBytes, sums, sizeof sums);
    }
  }

  // Behind the last byte of an image that a window reads.
  Bytes limit(Bytes image) const {
    namespace at = problems::conv2d_dims;
    std::int64_t last = 0;
    for (int d = 1; d < 4; ++d) {
      if (dims[at::x_strides + d] < 0) return image;
      last += (dims[at::c + d - 1] - 1) * dims[at::x_strides + d];
    }
    return image + last + 1;
  }

  void pack_left(std::int64_t row, std::int64_t height) {
    namespace at = problems::conv2d_dims;
    const std::int64_t* strides = dims + at::w_strides;
    const bool dense =
        strides[3] == 1 && strides[2] == dims[at::kw] && strides[1] == dims[at::kw] * dims[at::kh];
    for (std::int64_t r = 0; r < height; ++r) {
      Bytes from = static_cast<Bytes>(buffers[1]) + (row + r) * strides[0];
      std::uint8_t* to = space.left + r * padded_depth(depth);
      if (dense) {
        pack_row(to, from, 1, depth, shifts.flip_signed);
      } else {
        pack_row(to, from, 0, depth, 0);  // zeros behind the row
        for (std::int64_t k = 0; k < depth; ++k) {
          const std::int64_t x = k % dims[at::kw], y = k / dims[at::kw] % dims[at::kh];
          const std::int64_t channel = k / dims[at::kw] / dims[at::kh];
          to[k] = static_cast<std::uint8_t>(
              from[channel * strides[1] + y * strides[2] + x * strides[3]] ^ shifts.flip_signed);
        }
      }
      space.row_terms[r] = 0;
      if (shifts.of_unsigned != 0)
        space.row_terms[r] =
            -shifts.of_unsigned *
            (sum_of(to, depth, false) + shifts.of_signed * static_cast<std::int32_t>(depth));
    }
  }

  void finish(std::int64_t image, std::int64_t row, std::int64_t height, std::int64_t pixel,
              std::int64_t count) {
    pack_left(row, height);
    tile({space.left, padded_depth(depth), space.right, panel_bytes(depth),
          padded_depth(depth) / kGroupBytes, height, blocks(count, kPanelColumns), space.sums,
          kBlockColumns});
    if (shifts.of_unsigned != 0 || shifts.of_signed != 0) {
      std::int32_t terms[kBlockColumns] = {};
      for (std::int64_t c = 0; shifts.of_signed != 0 && c < count; ++c) {
        const std::int64_t p = c / kPanelColumns;
        std::memcpy(terms + c,
                    space.right + (p + 1) * panel_bytes(depth) - kSumBytes + c % kPanelColumns * 4,
                    4);
        terms[c] *= shifts.of_signed;
      }
      correct(space.sums, height, count, space.row_terms, terms);
    }
    namespace at = problems::conv2d_dims;
    const std::int64_t* strides = dims + at::y_strides;
    for (std::int64_t r = 0; r < height; ++r) {
      const std::int32_t* values = space.sums + r * kBlockColumns;
      if (context.epilogue.fn != nullptr) {
        epilogue.run(values, (image * channels + row + r) * pixels + pixel, count);
        continue;
      }
      auto* out =
          static_cast<std::int32_t*>(buffers[2]) + image * strides[0] + (row + r) * strides[1];
      for (std::int64_t c = 0; c < count; ++c)
        out[(pixel + c) / width * strides[2] + (pixel + c) % width * strides[3]] = values[c];
    }
  }
};

void integer_conv2d(const void* context, void* const* buffers, const std::int64_t* dims,
                    std::int64_t begin, std::int64_t end, std::byte* scratch) {
  ConvUnits(*static_cast<const IntegerContext*>(context), buffers, dims, scratch).run(begin, end);
}

void check_dtypes(const char* kernel, DType a, DType b, DType result, bool has_epilogue) {
  if (!is_byte(a) || !is_byte(b) || (!has_epilogue && result != DType::i32))
    fail(ErrorCode::unsupported, kernel,
         " kernel of integers: i8 or u8 operands and an i32 result, got ", a, ", ", b, " and ",
         result, "; cast them");
}

void check_integer_geometry(const Conv2dProblem& p) {
  for (std::size_t i = 0; i < 2; ++i)
    if (p.stride[i] < 1 || p.dilation[i] < 1 || p.pad[i] != 0)
      fail(ErrorCode::invalid_argument,
           "conv2d of integers: stride and dilation must be at least 1 "
           "and padding 0, got ",
           p.stride[i], ", ", p.dilation[i], " and ", p.pad[i]);
  if (p.groups != 1)
    fail(ErrorCode::invalid_argument, "conv2d of integers: groups must be 1, got ", p.groups);
}

Dim padded_depth(Dim depth) { return ceildiv(depth, kGroupBytes) * Dim(kGroupBytes); }
Dim panel_bytes(Dim depth) { return padded_depth(depth) * Dim(kPanelColumns) + Dim(kSumBytes); }

}  // namespace

Dim integer_matmul_grid(Dim batch, Dim m, Dim n) {
  return batch * ceildiv(m, kBlockRows) * ceildiv(n, kBlockColumns);
}

Dim integer_conv2d_grid(Dim n, Dim o, Dim oh, Dim ow) {
  return n * ceildiv(oh * ow, kBlockColumns) * ceildiv(o, kBlockRows);
}

Dim integer_scratch_bytes(Dim depth) {
  return padded_depth(depth) * Dim(kBlockRows + 8) + panel_bytes(depth) * Dim(kBlockPanels) +
         Dim(kRowTermBytes + kBlockRows * kBlockColumns * 4);
}

program::Callable make_integer_matmul(const MatmulProblem& problem, const Attached& attached) {
  check_dtypes("matmul", problem.a, problem.b, problem.c, attached.epilogue.has_value());
  return bind_kernel(&integer_matmul, IntegerContext{problem, {}, epilogue_call(attached.epilogue)},
                     attached);
}

program::Callable make_integer_conv2d(const Conv2dProblem& problem, const Attached& attached) {
  check_dtypes("conv2d", problem.x, problem.w, problem.y, attached.epilogue.has_value());
  check_integer_geometry(problem);
  return bind_kernel(&integer_conv2d, IntegerContext{{}, problem, epilogue_call(attached.epilogue)},
                     attached);
}

Dim integer_matmul_pack_grid(Dim batch, Dim n) { return batch * ceildiv(n, kPanelColumns); }

Dim integer_matmul_packed_bytes(Dim batch, Dim n, Dim k) {
  return integer_matmul_pack_grid(batch, n) * panel_bytes(k);
}

program::Callable make_integer_matmul_pack(const MatmulProblem& problem) {
  check_dtypes("matmul", problem.a, problem.b, problem.c, true);
  return bind_kernel(&integer_matmul_pack, IntegerContext{problem, {}, {}});
}

}  // namespace gex::kernels
