// Sorting: one block per row. Elements are mapped to keys, unsigned integers in the requested
// order, with the element's index in the low bits, so that all comparisons are integer comparisons
// and equal elements keep their order. A merge network sorts in shared memory, or in the workspace
// for longer rows.

#include <algorithm>
#include <bit>

#include "backend/cuda/problem_text.hpp"
#include "backend/cuda/scalar_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace sort_dim = problems::sort_dims;

namespace {

bool is_wide(DType dtype) { return dtype == DType::f64 || dtype == DType::i64; }

// Keys of up to 32 bits and an index in one word.
constexpr std::string_view kNarrow = R"cuda(
typedef u64 Item;
GEX_FN Item make_item(u32 key, u32 index) { return (u64)key << 32 | index; }
GEX_FN bool before(Item a, Item b) { return a < b; }
GEX_FN u32 index_of(Item a) { return (u32)a; }
)cuda";
constexpr std::string_view kWide = R"cuda(
struct Item { u64 key; u64 index; };
GEX_FN Item make_item(u64 key, u32 index) { Item item; item.key = key; item.index = index; return item; }
GEX_FN bool before(const Item& a, const Item& b) {
  return a.key < b.key || (a.key == b.key && a.index < b.index);
}
GEX_FN u32 index_of(const Item& a) { return (u32)a.index; }
)cuda";

// All comparators have the same direction because the first step of each merge is mirrored. So
// elements past the end would be the largest and never move, and need not be stored.
constexpr std::string_view kNetwork = R"cuda(
GEX_FN void compare(Item* items, i64 low, i64 high, i64 count) {
  if (high >= count) return;
  const Item a = items[low], b = items[high];
  if (before(b, a)) {
    items[low] = b;
    items[high] = a;
  }
}
GEX_FN void sort_items(Item* items, i64 count) {
  for (i64 size = 2; size < 2 * count; size *= 2) {
    __syncthreads();
    for (i64 e = threadIdx.x;; e += blockDim.x) {
      const i64 low = e / (size / 2) * size + e % (size / 2);
      if (low >= count) break;
      compare(items, low, low / size * size + size - 1 - low % size, count);
    }
    for (i64 reach = size / 4; reach > 0; reach /= 2) {
      __syncthreads();
      for (i64 e = threadIdx.x;; e += blockDim.x) {
        const i64 low = e / reach * 2 * reach + e % reach;
        if (low >= count) break;
        compare(items, low, low + reach, count);
      }
    }
  }
  __syncthreads();
}
)cuda";

// Radix select: the first `kept` elements of a row, unsorted. Processes eight bits of the key at a
// time, from the highest, and finds by counting the digit that contains the last selected key. Then
// takes all elements with smaller keys, and the first ones with that key.
constexpr std::string_view kSelect = R"cuda(
struct SelectState { u32 bin, before, less[32], same[32]; };

GEX_FN void select_items(const Element* x, i64 step, i64 length, i64 kept, Item* out, u32* counts, SelectState* state) {
  const u32 thread = threadIdx.x, warp = thread / 32, lane = thread % 32, warps = blockDim.x / 32;
  Key found = 0, mask = 0;
  i64 needed = kept;
  for (int shift = (int)sizeof(Key) * 8 - 8; shift >= 0; shift -= 8) {
    for (u32 i = thread; i < warps * 256; i += blockDim.x) counts[i] = 0;
    __syncthreads();
#pragma unroll 4
    for (i64 i = thread; i < length; i += blockDim.x) {
      const Key key = key_of(value_of(x[i * step]));
      if ((key & mask) == found) atomicAdd(&counts[warp * 256 + (u32)(key >> shift & 255)], 1u);
    }
    __syncthreads();
    for (u32 bin = thread; bin < 256; bin += blockDim.x)
      for (u32 w = 1; w < warps; ++w) counts[bin] += counts[w * 256 + bin];
    __syncthreads();
    if (thread == 0) {
      u32 before = 0, bin = 0;
      while (bin < 255 && before + counts[bin] < needed) before += counts[bin++];
      state->bin = bin;
      state->before = before;
    }
    __syncthreads();
    found |= (Key)state->bin << shift;
    mask |= (Key)255 << shift;
    needed -= state->before;
    __syncthreads();
  }
  i64 less_taken = 0, same_taken = 0;
  for (i64 first = 0; first < length; first += blockDim.x) {
    const i64 i = first + thread;
    const Key key = i < length ? key_of(value_of(x[i * step])) : ~(Key)0;
    const bool less = i < length && key < found, same = i < length && key == found;
    const u32 all_less = __ballot_sync(0xffffffffu, less), all_same = __ballot_sync(0xffffffffu, same);
    if (lane == 0) state->less[warp] = (u32)__popc(all_less), state->same[warp] = (u32)__popc(all_same);
    __syncthreads();
    const u32 below = (1u << lane) - 1;
    i64 less_at = less_taken + __popc(all_less & below), same_at = same_taken + __popc(all_same & below);
    for (u32 w = 0; w < warps; ++w) {
      if (w < warp) less_at += state->less[w], same_at += state->same[w];
      less_taken += state->less[w];
      same_taken += state->same[w];
    }
    if (less) out[less_at] = make_item(key, (u32)i);
    if (same && same_at < needed) out[kept - needed + same_at] = make_item(key, (u32)i);
    __syncthreads();
  }
}
)cuda";

// The key of an element: unsigned, ascending in the requested order. NaN is the largest, -0 is 0.
std::string key_text(const problems::SortProblem& p) {
  std::string bits;
  switch (p.dtype) {
    case DType::f64:
      bits =
          "  u64 bits = bits_of_f64(v);\n"
          "  if (v != v) bits = 0x7fffffffffffffffull;\n"
          "  if (v == 0) bits = 0;\n"
          "  const u64 key = bits >> 63 ? ~bits : bits | 0x8000000000000000ull;\n";
      break;
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      bits =
          "  u32 bits = bits_of_f32(v);\n"
          "  if (v != v) bits = 0x7fffffffu;\n"
          "  if (v == 0) bits = 0;\n"
          "  const u32 key = bits >> 31 ? ~bits : bits | 0x80000000u;\n";
      break;
    case DType::i64:
      bits = "  const u64 key = (u64)v ^ 0x8000000000000000ull;\n";
      break;
    default:
      bits = "  const u32 key = (u32)(int)v ^ 0x80000000u;\n";
  }
  return str("GEX_FN ", is_wide(p.dtype) ? "u64" : "u32", " key_of(", register_type(p.dtype),
             " v) {\n", bits, "  return ", p.descending ? "~key" : "key", ";\n}\n");
}

constexpr std::int64_t kSelectMost = 1024;  // elements that are selected, then sorted
constexpr std::int64_t kSelectBytes = 32 * 256 * 4 + 512;

bool can_select(std::span<const Dim> dims) {
  return dims[sort_dim::kept].range().lo <= kSelectMost && dims[sort_dim::length].range().hi > 4096;
}

std::string body_text(const problems::SortProblem& p, int buffers, std::int64_t shared_items,
                      bool select) {
  const int rank = p.batch_rank;
  std::string out = str("  const i64 length = dims[0], kept = dims[1];\n",
                        "  const Element* const x = (const Element*)words[0];\n");
  int result = 1;
  if (p.values) out += str("  Element* const values = (Element*)words[", result++, "];\n");
  if (p.indices) out += str("  i64* const indices = (i64*)words[", result, "];\n");
  out += "  GEX_DECLARE_LOCALS\n";
  out += select ? str("  const bool selects = kept <= ", kSelectMost, " && length > 4096;\n")
                : "  const bool selects = false;\n";
  out += str("  Item* const items = selects || length <= ", shared_items,
             " ? (Item*)gex_locals : (Item*)words[", buffers - 1,
             "] + (i64)block.index * length;\n  const i64 rows = 1");
  for (int d = 0; d < rank; ++d) out += str(" * dims[", sort_dim::sizes + d, "]");
  out += ";\n  for (i64 row = block.index; row < rows; row += block.count) {\n";
  out += "    i64 rest = row, from = 0, to_values = 0, to_indices = 0;\n";
  const int xs = sort_dim::x_strides(rank);
  const int vs = sort_dim::result_strides(rank, 0);
  const int is = sort_dim::result_strides(rank, p.values ? 1 : 0);
  for (int d = rank; d-- > 0;) {
    out += str("    { const i64 size = dims[", sort_dim::sizes + d,
               "], i = rest % size; rest /= size; from += i * dims[", xs + d, "];");
    if (p.values) out += str(" to_values += i * dims[", vs + d, "];");
    if (p.indices) out += str(" to_indices += i * dims[", is + d, "];");
    out += " }\n";
  }
  out += str("    const i64 step = dims[", xs + rank, "];\n");
  if (select)
    out += str("    if (selects)\n      select_items(x + from, step, length, kept, items, ",
               "(u32*)(items + ", kSelectMost, "), (SelectState*)(gex_locals + ", kSelectMost,
               " * sizeof(Item) + 32 * 256 * 4));\n    else\n  ");
  out += str("    for (i64 i = threadIdx.x; i < length; i += blockDim.x)\n",
             "      items[i] = make_item(key_of(value_of(x[from + i * step])), (u32)i);\n",
             "    sort_items(items, selects ? kept : length);\n",
             "    for (i64 i = threadIdx.x; i < kept; i += blockDim.x) {\n",
             "      const i64 index = index_of(items[i]);\n");
  if (p.values)
    out += str("      values[to_values + i * dims[", vs + rank, "]] = x[from + index * step];\n");
  if (p.indices) out += str("      indices[to_indices + i * dims[", is + rank, "]] = index;\n");
  return out + "    }\n    __syncthreads();\n  }\n";
}

}  // namespace

KernelText sort_text(const problems::SortProblem& p, std::span<const Dim> dims,
                     const DeviceLimits& limits) {
  const std::int64_t item = is_wide(p.dtype) ? 16 : 8;
  const std::int64_t shared_items = (limits.shared_bytes - 4096) / item;
  const Dim length = dims[sort_dim::length];
  Dim rows = 1;
  for (int d = 0; d < p.batch_rank; ++d)
    rows *= dims[static_cast<std::size_t>(sort_dim::sizes + d)];
  const Dim grid = capped_grid(rows, limits, 4);
  // 0 if every row fits into shared memory.
  const Dim too_long = min(floordiv(length, Dim(shared_items + 1)), Dim(1));
  const bool select = can_select(dims);
  const bool always_selects =
      dims[sort_dim::kept].range().hi <= kSelectMost && length.range().lo > 4096;
  const Dim workspace = length.range().hi <= shared_items || always_selects
                            ? Dim(0)
                            : too_long * grid * length * Dim(item);
  const AttachedKernels none;
  ProblemText out("gex_sort", none, 1, (p.values ? 1 : 0) + (p.indices ? 1 : 0),
                  !(workspace == Dim(0)), dims, limits);
  out.text += str("typedef ", memory_type(p.dtype), " Element;\n");
  out.text += is_wide(p.dtype) ? kWide : kNarrow;
  out.text += str("typedef ", is_wide(p.dtype) ? "u64" : "u32", " Key;\n");
  out.text += str("GEX_FN ", register_type(p.dtype), " value_of(Element v) { return ",
                  from_memory(p.dtype, "v"), "; }\n");
  out.text += key_text(p);
  out.text += kNetwork;
  if (select) out.text += kSelect;
  Dim shared = min(length, Dim(shared_items)) * Dim(item);
  if (always_selects) shared = 0;
  if (select) shared = max(shared, Dim(kSelectMost * item + kSelectBytes));
  const std::int64_t longest = std::min<std::int64_t>(length.range().hi, 2048);
  const int threads = std::clamp(
      static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(longest)) / 2), 32, 1024);
  return out.done(body_text(p, out.buffers, shared_items, select), threads, grid, shared,
                  workspace);
}

}  // namespace gex::backend::cuda
