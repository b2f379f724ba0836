// Sorting: a block takes a row. Elements become keys, unsigned integers in the order asked for,
// with their index below the key, so that every comparison is one of integers and equal elements
// keep their order. A merging network works in shared memory, or in the workspace for longer rows.

#include <algorithm>
#include <bit>

#include "backend/cuda/problem_text.hpp"
#include "backend/cuda/scalar_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace at_dim = problems::sort_dims;

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

// Comparators of one direction only: with the first step of each merge mirrored, elements beyond
// the end would be the largest and never move, so they need not exist.
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

// The key of an element: unsigned, ascending in the order asked for. NaN is the largest, -0 is 0.
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

std::string body_text(const problems::SortProblem& p, int buffers, std::int64_t shared_items) {
  const int rank = p.batch_rank;
  std::string out = str("  const i64 length = dims[0], kept = dims[1];\n",
                        "  const Element* const x = (const Element*)words[0];\n");
  int result = 1;
  if (p.values) out += str("  Element* const values = (Element*)words[", result++, "];\n");
  if (p.indices) out += str("  i64* const indices = (i64*)words[", result, "];\n");
  out += "  GEX_DECLARE_LOCALS\n";
  out +=
      str("  Item* const items = length <= ", shared_items, " ? (Item*)gex_locals : (Item*)words[",
          buffers - 1, "] + (i64)blockIdx.x * length;\n  const i64 rows = 1");
  for (int d = 0; d < rank; ++d) out += str(" * dims[", at_dim::sizes + d, "]");
  out += ";\n  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {\n";
  out += "    i64 rest = row, from = 0, to_values = 0, to_indices = 0;\n";
  const int xs = at_dim::x_strides(rank);
  const int vs = at_dim::result_strides(rank, 0);
  const int is = at_dim::result_strides(rank, p.values ? 1 : 0);
  for (int d = rank; d-- > 0;) {
    out += str("    { const i64 size = dims[", at_dim::sizes + d,
               "], i = rest % size; rest /= size; from += i * dims[", xs + d, "];");
    if (p.values) out += str(" to_values += i * dims[", vs + d, "];");
    if (p.indices) out += str(" to_indices += i * dims[", is + d, "];");
    out += " }\n";
  }
  out += str("    const i64 step = dims[", xs + rank, "];\n",
             "    for (i64 i = threadIdx.x; i < length; i += blockDim.x)\n",
             "      items[i] = make_item(key_of(", from_memory(p.dtype, "x[from + i * step]"),
             "), (u32)i);\n    sort_items(items, length);\n",
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
  const Dim length = dims[at_dim::length];
  Dim rows = 1;
  for (int d = 0; d < p.batch_rank; ++d) rows *= dims[static_cast<std::size_t>(at_dim::sizes + d)];
  const Dim grid = capped_grid(rows, limits, 4);
  // 0 where every row fits into shared memory.
  const Dim too_long = min(floordiv(length, Dim(shared_items + 1)), Dim(1));
  const Dim workspace =
      length.range().hi <= shared_items ? Dim(0) : too_long * grid * length * Dim(item);
  const AttachedKernels none;
  ProblemText out("gex_sort", none, 1, (p.values ? 1 : 0) + (p.indices ? 1 : 0),
                  !(workspace == Dim(0)), dims, limits);
  out.text += str("typedef ", memory_type(p.dtype), " Element;\n");
  out.text += is_wide(p.dtype) ? kWide : kNarrow;
  out.text += key_text(p);
  out.text += kNetwork;
  const std::int64_t longest = std::min<std::int64_t>(length.range().hi, 2048);
  const int threads = std::clamp(
      static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(longest)) / 2), 32, 1024);
  return out.done(body_text(p, out.buffers, shared_items), threads, grid,
                  min(length, Dim(shared_items)) * Dim(item), workspace);
}

}  // namespace gex::backend::cuda
