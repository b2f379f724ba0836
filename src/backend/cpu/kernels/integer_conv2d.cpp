#include "backend/cpu/kernels/integer_conv2d.hpp"

#include <array>
#include <cstring>

#include "backend/cpu/kernels/bind.hpp"
#include "backend/cpu/kernels/integer_common.hpp"
#include "backend/cpu/kernels/integer_conv_tiling.hpp"
#include "backend/cpu/kernels/integer_interleave.hpp"
#include "backend/cpu/kernels/integer_pack.hpp"
#include "backend/cpu/kernels/pack_dims.hpp"

namespace gex::kernels {

namespace {

namespace at = problems::conv2d_dims;

constexpr std::int64_t kSlackBytes = 64;  // behind each line, which is read by whole vectors
constexpr std::int64_t kWeightSumBytes = 4;
constexpr std::int64_t kChunk = 16;  // bytes that are copied at once
// The product of three sizes up to this one fits in 64 bits.
constexpr std::int64_t kLargestSize = 1 << 20;

struct ConvContext {
  Conv2dProblem problem;
  EpilogueCall epilogue;
};

// Sizes in bytes of the parts of a worker's scratch.
template <class N>
struct SpaceBytes {
  N image, offsets, left, ones, sums, terms, plane;

  SpaceBytes(const Conv2dProblem& p, const ConvImage<N>& of, const N& sum_rows) {
    const N slack(kSlackBytes);
    const N row = of.groups * N(kGroupBytes) + N(kWeightSumBytes);
    image = whole(of.bytes() + slack);
    offsets = whole(of.groups * N(8));
    left = p.w_packed ? N(0) : whole(row * N(kTileChannels));
    ones = p.w == DType::u8 ? whole(row) : N(0);
    sums = of.columns * sum_rows * N(4);
    terms = p.w == DType::u8 ? of.columns * N(4) : N(0);
    plane = whole(of.plane + slack);
  }
  static N whole(const N& bytes) { return ceildiv(bytes, N(kSlackBytes)) * N(kSlackBytes); }
  N total() const { return image + offsets + left + ones + sums + terms + plane * N(kGroupBytes); }
};

// The weights of one output channel as the kernel reads them; byte_at(c, y, x) is a tap.
template <class ByteAt>
void pack_channel(std::uint8_t* to, bool by_taps, std::int64_t channels, std::int64_t kernel_h,
                  std::int64_t kernel_w, const ByteAt& byte_at) {
  std::int32_t sum = 0;
  const auto put = [&](std::int64_t c, std::int64_t y, std::int64_t x) {
    const std::uint8_t byte = c < channels && x < kernel_w ? byte_at(c, y, x) : 0;
    sum += static_cast<std::int8_t>(byte);
    *to++ = byte;
  };
  if (by_taps) {
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < kernel_h; ++y)
        for (std::int64_t x = 0; x < ceildiv(kernel_w, kGroupBytes) * kGroupBytes; ++x)
          put(c, y, x);
  } else {
    for (std::int64_t c = 0; c < channels; c += kGroupBytes)
      for (std::int64_t y = 0; y < kernel_h; ++y)
        for (std::int64_t x = 0; x < kernel_w; ++x)
          for (std::int64_t k = 0; k < kGroupBytes; ++k) put(c + k, y, x);
  }
  std::memcpy(to, &sum, sizeof sum);
}

class ConvUnits {
 public:
  ConvUnits(const ConvContext& context, void* const* buffers, const std::int64_t* dims,
            std::byte* scratch)
      : p_(context.problem),
        buffers_(buffers),
        d_(dims),
        tiling_(p_, dims),
        y_(p_.stride[0], p_.dilation[0]),
        x_(p_.stride[1], p_.dilation[1]),
        by_taps_(reads_by_taps(tiling_.group_in, dims[at::kh], dims[at::kw])),
        flat_(dims[at::kh] * dims[at::kw] == 1),
        across_(by_taps_ ? ceildiv(dims[at::kw], kGroupBytes) : std::min(dims[at::kw], x_.period)),
        shifts_(p_.x, p_.w),
        space_(p_, image_of(tiling_.tile_height, tiling_.tile_width), tiling_.sum_rows),
        image_(image_of(tiling_.tile_height, tiling_.tile_width)),
        scratch_(scratch),
        has_epilogue_(context.epilogue.fn != nullptr),
        epilogue_(context.epilogue, buffers + 2, dims, scratch + space_.total()) {
    row_bytes_ = image_.groups * kGroupBytes + kWeightSumBytes;
    take(packed_image_, space_.image);
    take(offsets_, space_.offsets);
    take(left_, space_.left);
    take(ones_, space_.ones);
    take(sums_, space_.sums);
    take(terms_, space_.terms);
    take(planes_, space_.plane * kGroupBytes);
    std::memset(border_, static_cast<int>(p_.border & 0xff), kChunk);
    readable_ = readable_bytes();
    if (shifts_.of_signed != 0)
      pack_channel(ones_, by_taps_, tiling_.group_in, d_[at::kh], d_[at::kw],
                   [](std::int64_t, std::int64_t, std::int64_t) { return std::uint8_t{1}; });
  }

  void run(std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      std::int64_t rest = unit;
      const auto next = [&](std::int64_t size) {
        const std::int64_t index = rest % size;
        rest /= size;
        return index;
      };
      const std::int64_t block = next(tiling_.channel_blocks);
      Tile tile;
      tile.x = next(tiling_.tiles_across) * tiling_.tile_width;
      tile.y = next(tiling_.tiles_down) * tiling_.tile_height;
      const std::int64_t first = next(tiling_.group_blocks) * tiling_.unit_groups;
      tile.image = rest;
      tile.width = std::min(tiling_.tile_width, tiling_.width - tile.x);
      tile.height = std::min(tiling_.tile_height, tiling_.height - tile.y);
      for (tile.group = first; tile.group < std::min(first + tiling_.unit_groups, p_.groups);
           ++tile.group) {
        if (!(tile == copied_)) copy_image(tile);
        copied_ = tile;
        multiply(tile, block * kTileChannels);
      }
    }
  }

 private:
  struct Tile {
    std::int64_t image = -1, group = 0, y = 0, x = 0, height = 0, width = 0;
    bool operator==(const Tile&) const = default;
  };

  template <class T>
  void take(T*& part, std::int64_t bytes) {
    part = reinterpret_cast<T*>(scratch_);
    scratch_ += bytes;
  }
  ConvImage<std::int64_t> image_of(std::int64_t height, std::int64_t width) const {
    return {p_, by_taps_, tiling_.group_in, d_[at::kh], d_[at::kw], height, width};
  }

  // `size` bytes of a row from column x on; writes up to 15 more.
  void copy_line(std::uint8_t* to, const Tile& tile, std::int64_t channel, std::int64_t y,
                 std::int64_t x, std::int64_t size) const {
    const std::int64_t* strides = d_ + at::x_strides;
    const bool inside = y >= 0 && y < d_[at::h];
    const std::int64_t begin = inside ? std::clamp<std::int64_t>(-x, 0, size) : size;
    const std::int64_t end = inside ? std::clamp<std::int64_t>(d_[at::w] - x, begin, size) : size;
    for (std::int64_t k = 0; k < begin; k += kChunk) std::memcpy(to + k, border_, kChunk);
    Bytes image = static_cast<Bytes>(buffers_[0]) + tile.image * strides[0];
    const std::int64_t first = (tile.group * tiling_.group_in + channel) * strides[1] +
                               y * strides[2] + (x + begin) * strides[3];
    const std::int64_t count = end - begin;
    if (count > 0 && strides[3] != 1) {
      for (std::int64_t k = 0; k < count; ++k) to[begin + k] = image[first + k * strides[3]];
    } else if (count > 0 && first + count + kChunk <= readable_) {
      for (std::int64_t k = 0; k < count; k += kChunk)
        std::memcpy(to + begin + k, image + first + k, kChunk);
    } else if (count > 0) {
      std::memcpy(to + begin, image + first, static_cast<std::size_t>(count));
    }
    for (std::int64_t k = end; k < size; k += kChunk) std::memcpy(to + k, border_, kChunk);
  }

  // The rows of a channel that a phase of the taps reads, one after the other.
  void copy_plane(std::uint8_t* to, const Tile& tile, std::int64_t channel, std::int64_t phase,
                  std::int64_t rows) const {
    const std::int64_t size = current_.pitch * x_.stride;
    for (std::int64_t r = 0; r < rows; ++r)
      copy_line(to + r * size, tile, channel,
                (tile.y + r) * y_.stride + y_.first_of(phase) - p_.pad[0],
                tile.x * x_.stride - p_.pad[1], size);
  }

  void copy_image(const Tile& tile) {
    if (tile.height != copied_.height || tile.width != copied_.width) {
      current_ = image_of(tile.height, tile.width);
      place_taps();
    }
    if (flat_) return copy_pixels(tile);
    const std::int64_t step = by_taps_ ? 1 : kGroupBytes;
    const std::int64_t phases = std::min(d_[at::kh], y_.period);
    for (std::int64_t c = 0; c < tiling_.group_in; c += step)
      for (std::int64_t phase = 0; phase < phases; ++phase) {
        const std::int64_t rows = tile.height + y_.reach(phase, d_[at::kh]);
        const std::int64_t channels = std::min(step, tiling_.group_in - c);
        for (std::int64_t k = 0; k < channels; ++k) copy_plane(plane(k), tile, c + k, phase, rows);
        const std::int64_t at_line = (c / step * phases + phase) * across_;
        by_taps_ ? interleave_taps(at_line, rows) : interleave_channels(at_line, rows, channels);
      }
  }

  std::uint8_t* plane(std::int64_t k) const { return planes_ + k * space_.plane; }
  std::uint8_t* place(std::int64_t line, std::int64_t row) const {
    return packed_image_ + (line * current_.rows + row) * current_.pitch * kGroupBytes;
  }

  // A group may have fewer than four channels: the weights of the others are 0.
  void interleave_channels(std::int64_t at_line, std::int64_t rows, std::int64_t channels) const {
    for (std::int64_t phase = 0; phase < across_; ++phase) {
      Bytes from[kGroupBytes];
      for (std::int64_t k = 0; k < kGroupBytes; ++k)
        from[k] = plane(k < channels ? k : 0) + x_.first_of(phase);
      interleaving_.lines(place(at_line + phase, 0), from, x_.stride, rows * current_.pitch,
                          shifts_.flip_unsigned);
    }
  }
  void interleave_taps(std::int64_t at_line, std::int64_t rows) const {
    for (std::int64_t quad = 0; quad < across_; ++quad) {
      const std::int64_t first = quad * kGroupBytes;
      const std::int64_t last = std::min(kGroupBytes, d_[at::kw] - first) - 1;
      interleaving_.taps(place(at_line + quad, 0), plane(0) + first * x_.dilation, x_.dilation,
                         last, x_.stride, rows * current_.pitch, shifts_.flip_unsigned);
    }
  }

  // Kernels of one tap: pixels of several rows follow each other.
  void copy_pixels(const Tile& tile) const {
    const std::int64_t* strides = d_ + at::x_strides;
    const bool dense = y_.stride == 1 && x_.stride == 1 && p_.pad[0] == 0 && p_.pad[1] == 0 &&
                       d_[at::w] == d_[at::ow] && strides[3] == 1 && strides[2] == d_[at::w];
    for (std::int64_t c = 0; c < tiling_.group_in; c += kGroupBytes) {
      Bytes from[kGroupBytes];
      for (std::int64_t k = 0; k < kGroupBytes; ++k) {
        const std::int64_t channel = tile.group * tiling_.group_in + c + k;
        const std::int64_t first = channel * strides[1] + tile.x;
        from[k] = from[0];
        if (c + k >= tiling_.group_in) continue;
        from[k] = plane(k);
        if (dense && first + tile.width + kSlackBytes <= readable_)
          from[k] = static_cast<Bytes>(buffers_[0]) + tile.image * strides[0] + first;
        else
          copy_segments(plane(k), tile, c + k);
      }
      interleaving_.lines(place(c / kGroupBytes, 0), from, x_.stride, tile.width,
                          shifts_.flip_unsigned);
    }
  }
  void copy_segments(std::uint8_t* to, const Tile& tile, std::int64_t channel) const {
    for (std::int64_t done = 0; done < tile.width;) {
      const std::int64_t y = (tile.x + done) / d_[at::ow], x = (tile.x + done) % d_[at::ow];
      const std::int64_t count = std::min(d_[at::ow] - x, tile.width - done);
      copy_line(to + done * x_.stride, tile, channel, y * y_.stride - p_.pad[0],
                x * x_.stride - p_.pad[1], count * x_.stride);
      done += count;
    }
  }

  // Bytes of an image from its first pixel on that are known to be in memory.
  std::int64_t readable_bytes() const {
    std::int64_t last = 0;
    for (int k = 0; k < 3; ++k) {
      if (d_[at::x_strides + 1 + k] < 0) return 0;
      last += (d_[at::c + k] - 1) * d_[at::x_strides + 1 + k];
    }
    return last + 1;
  }

  // Offsets in the copied image of the bytes that each group of four products reads.
  void place_taps() {
    std::int64_t* offset = offsets_;
    const std::int64_t down = std::min(d_[at::kh], y_.period);
    const std::int64_t step = by_taps_ ? 1 : kGroupBytes;
    for (std::int64_t c = 0; c < tiling_.group_in; c += step)
      for (std::int64_t y = 0; y < d_[at::kh]; ++y)
        for (std::int64_t x = 0; x < (by_taps_ ? across_ : d_[at::kw]); ++x) {
          const std::int64_t at_line = (c / step * down + y % y_.period) * across_;
          const std::int64_t shift = by_taps_ ? 0 : x_.shift(x);
          *offset++ = place(at_line + (by_taps_ ? x : x % x_.period), y_.shift(y)) - packed_image_ +
                      shift * kGroupBytes;
        }
  }

  Bytes weights(std::int64_t channel, std::int64_t count) {
    if (p_.w_packed) return static_cast<Bytes>(buffers_[1]) + channel * row_bytes_;
    for (std::int64_t r = 0; r < count && channel != packed_channel_; ++r) {
      const std::int64_t* strides = d_ + at::w_strides;
      Bytes from = static_cast<Bytes>(buffers_[1]) + (channel + r) * strides[0];
      pack_channel(
          left_ + r * row_bytes_, by_taps_, tiling_.group_in, d_[at::kh], d_[at::kw],
          [&](std::int64_t c, std::int64_t y, std::int64_t x) {
            return static_cast<std::uint8_t>(
                from[c * strides[1] + y * strides[2] + x * strides[3]] ^ shifts_.flip_signed);
          });
    }
    packed_channel_ = channel;
    return left_;
  }

  void multiply(const Tile& tile, std::int64_t first) {
    const std::int64_t count = std::min(kTileChannels, tiling_.group_out - first);
    const std::int64_t channel = tile.group * tiling_.group_out + first;
    Bytes left = weights(channel, count);
    const std::int64_t columns = current_.columns;
    IntegerTile product{left,
                        row_bytes_,
                        packed_image_,
                        kPanelGroupBytes,
                        offsets_,
                        current_.groups,
                        0,
                        columns / kPanelColumns,
                        sums_,
                        columns};
    if (shifts_.of_signed != 0) {
      IntegerTile sum = product;
      sum.left = ones_;
      sum.rows = 1;
      sum.sums = terms_;
      tile_(sum);
    }
    for (std::int64_t r = 0; r < count; r += kIntegerTileRows) {
      product.left = left + r * row_bytes_;
      product.rows = std::min(kIntegerTileRows, count - r);
      tile_(product);
      for (std::int64_t k = 0; k < product.rows; ++k)
        finish(tile, channel + r + k, sums_ + k * columns, product.left + (k + 1) * row_bytes_);
    }
  }

  // `end`: the end of the channel's weights.
  void finish(const Tile& tile, std::int64_t channel, std::int32_t* sums, Bytes end) {
    correct(sums, end);
    // Sums at the ends of the tile's rows belong to no result.
    for (std::int64_t y = 1; y < tile.height && current_.pitch != tile.width; ++y)
      std::memmove(sums + y * tile.width, sums + y * current_.pitch,
                   static_cast<std::size_t>(tile.width * 4));
    const bool whole_rows = tile.width == tiling_.width;
    const std::int64_t count = whole_rows ? tile.height * tile.width : tile.width;
    for (std::int64_t y = 0; y < (whole_rows ? 1 : tile.height); ++y)
      store(tile.image, channel, (tile.y + y) * tiling_.width + tile.x, sums + y * tile.width,
            count);
  }

  void store(std::int64_t image, std::int64_t channel, std::int64_t pixel,
             const std::int32_t* values, std::int64_t count) {
    if (has_epilogue_)
      return epilogue_.run(values, (image * d_[at::o] + channel) * d_[at::oh] * d_[at::ow] + pixel,
                           count);
    const std::int64_t* strides = d_ + at::y_strides;
    auto* out = static_cast<std::int32_t*>(buffers_[2]) + image * strides[0] + channel * strides[1];
    for (std::int64_t c = 0; c < count; ++c)
      out[(pixel + c) / d_[at::ow] * strides[2] + (pixel + c) % d_[at::ow] * strides[3]] =
          values[c];
  }

  // Corrects sums of shifted operands; see integer_common.hpp for the formula.
  void correct(std::int32_t* sums, Bytes end) const {
    if (shifts_.of_unsigned == 0 && shifts_.of_signed == 0) return;
    std::int32_t sum = 0;
    std::memcpy(&sum, end - kWeightSumBytes, sizeof sum);
    const auto depth = static_cast<std::int32_t>(tiling_.group_in * d_[at::kh] * d_[at::kw]);
    const std::int32_t term = -shifts_.of_unsigned * (sum + shifts_.of_signed * depth);
    for (std::int64_t k = 0; k < current_.columns; ++k) {
      auto value = static_cast<std::uint32_t>(sums[k]) + static_cast<std::uint32_t>(term);
      if (shifts_.of_signed != 0) value += static_cast<std::uint32_t>(terms_[k]) * 128;
      sums[k] = static_cast<std::int32_t>(value);
    }
  }

  const Conv2dProblem& p_;
  void* const* buffers_;
  const std::int64_t* d_;
  ConvTiling<std::int64_t> tiling_;
  TapPhases y_, x_;
  bool by_taps_, flat_;
  std::int64_t across_;  // lines of a channel, or of four, for each row of taps
  Shifts shifts_;
  SpaceBytes<std::int64_t> space_;
  ConvImage<std::int64_t> image_, current_ = image_;
  std::byte* scratch_;
  bool has_epilogue_;
  IntegerEpilogue epilogue_;
  IntegerTileFn tile_ = integer_tile(false);
  const Interleaving& interleaving_ = interleaving();

  std::uint8_t *packed_image_, *left_, *ones_, *planes_;
  std::int64_t* offsets_;
  std::int32_t *sums_, *terms_;
  std::int64_t row_bytes_, readable_, packed_channel_ = -1;
  std::uint8_t border_[kChunk];
  Tile copied_;
};

void integer_conv2d(const void* context, void* const* buffers, const std::int64_t* dims,
                    std::int64_t begin, std::int64_t end, std::byte* scratch) {
  if (begin < end)
    ConvUnits(*static_cast<const ConvContext*>(context), buffers, dims, scratch).run(begin, end);
}

void integer_conv2d_pack(const void* context, void* const* buffers, const std::int64_t* dims,
                         std::int64_t begin, std::int64_t end, std::byte*) {
  namespace of = conv_pack_dims;
  const Shifts shifts(DType::u8, static_cast<const ConvContext*>(context)->problem.w);
  const std::int64_t channels = dims[of::c], kernel_h = dims[of::kh], kernel_w = dims[of::kw];
  const bool by_taps = reads_by_taps(channels, kernel_h, kernel_w);
  const std::int64_t* strides = dims + of::w_strides;
  const std::int64_t groups = groups_of(by_taps, channels, kernel_h, kernel_w);
  for (std::int64_t o = begin; o < end; ++o) {
    Bytes from = static_cast<Bytes>(buffers[0]) + o * strides[0];
    auto* to =
        static_cast<std::uint8_t*>(buffers[1]) + o * (groups * kGroupBytes + kWeightSumBytes);
    pack_channel(to, by_taps, channels, kernel_h, kernel_w,
                 [&](std::int64_t c, std::int64_t y, std::int64_t x) {
                   return static_cast<std::uint8_t>(
                       from[c * strides[1] + y * strides[2] + x * strides[3]] ^ shifts.flip_signed);
                 });
  }
}

void check_integer_geometry(const Conv2dProblem& p) {
  for (std::size_t i = 0; i < 2; ++i)
    if (p.stride[i] < 1 || p.dilation[i] < 1)
      fail(ErrorCode::invalid_argument,
           "conv2d of integers: stride and dilation must be at least 1, got ", p.stride[i], " and ",
           p.dilation[i]);
  if (p.groups < 1)
    fail(ErrorCode::invalid_argument, "conv2d of integers: groups must be at least 1, got ",
         p.groups);
}

}  // namespace

Dim integer_conv2d_grid(const Conv2dProblem& problem, std::span<const Dim> dims) {
  return ConvTiling<Dim>(problem, dims.data()).units;
}

Dim integer_conv2d_scratch_bytes(const Conv2dProblem& problem, std::span<const Dim> dims) {
  const ConvTiling<Dim> tiling(problem, dims.data());
  const Dim kernel_h = dims[at::kh], kernel_w = dims[at::kw];
  const auto bytes = [&](bool by_taps) {
    const ConvImage<Dim> image(problem, by_taps, tiling.group_in, kernel_h, kernel_w,
                               tiling.tile_height, tiling.tile_width);
    return SpaceBytes<Dim>(problem, image, tiling.sum_rows).total();
  };
  const auto small = [](Dim size) {
    return size.is_const() && size.constant() >= 0 && size.constant() <= kLargestSize;
  };
  if (small(tiling.group_in) && small(kernel_h) && small(kernel_w))
    return bytes(
        reads_by_taps(tiling.group_in.constant(), kernel_h.constant(), kernel_w.constant()));
  return max(bytes(false), bytes(true));
}

program::Callable make_integer_conv2d(const Conv2dProblem& problem, const Attached& attached) {
  check_integer_dtypes("conv2d", problem.x, problem.w, problem.y, attached.epilogue.has_value());
  check_integer_geometry(problem);
  return bind_kernel(&integer_conv2d, ConvContext{problem, epilogue_call(attached.epilogue)},
                     attached);
}

std::optional<std::int64_t> integer_conv2d_packed_bytes(const Conv2dProblem& problem,
                                                        std::span<const Dim> dims) {
  const auto o = dims[at::o].as_const(), c = dims[at::c].as_const(), kh = dims[at::kh].as_const(),
             kw = dims[at::kw].as_const();
  if (!o || !c || !kh || !kw || problem.groups < 1) return std::nullopt;
  for (const std::int64_t size : {*o, *c, *kh, *kw})
    if (size < 1 || size > kLargestSize) return std::nullopt;
  const std::int64_t channels = *c / problem.groups;
  const std::int64_t groups = groups_of(reads_by_taps(channels, *kh, *kw), channels, *kh, *kw);
  return (Dim(*o) * (Dim(groups) * Dim(kGroupBytes) + Dim(kWeightSumBytes))).as_const();
}

program::Callable make_integer_conv2d_pack(const Conv2dProblem& problem) {
  check_integer_dtypes("conv2d", problem.x, problem.w, problem.y, true);
  return bind_kernel(&integer_conv2d_pack, ConvContext{problem, {}});
}

}  // namespace gex::kernels
