#include "backend/cpu/kernels/sort.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <type_traits>

#include "backend/cpu/kernels/variants.hpp"
#include "base/error.hpp"
#include "problems/sort.hpp"

namespace gex::kernels {

namespace {

using i64 = std::int64_t;

// --- keys: unsigned integers in the order of the values ---------------------------------------

template <class Bits>
constexpr Bits top_bit() {
  return static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
}

// Bits of a float with its exponent and mantissa: magnitudes above `infinity` are NaN.
template <class Bits>
Bits float_key(Bits bits, Bits infinity) {
  const Bits top = top_bit<Bits>();
  const Bits magnitude = static_cast<Bits>(bits & ~top);
  if (magnitude > infinity) return static_cast<Bits>(~Bits{0});
  if (magnitude == 0) return top;
  return static_cast<Bits>((bits & top) != 0 ? ~bits : bits | top);
}

struct F64 {
  using Bits = std::uint64_t;
  static Bits key(Bits bits) { return float_key<Bits>(bits, 0x7FF0000000000000u); }
};
struct F32 {
  using Bits = std::uint32_t;
  static Bits key(Bits bits) { return float_key<Bits>(bits, 0x7F800000u); }
};
struct F16 {
  using Bits = std::uint16_t;
  static Bits key(Bits bits) { return float_key<Bits>(bits, 0x7C00u); }
};
struct BF16 {
  using Bits = std::uint16_t;
  static Bits key(Bits bits) { return float_key<Bits>(bits, 0x7F80u); }
};
template <class B>
struct Signed {
  using Bits = B;
  static Bits key(Bits bits) { return static_cast<Bits>(bits ^ top_bit<Bits>()); }
};
struct U8 {
  using Bits = std::uint8_t;
  static Bits key(Bits bits) { return bits; }
};

// --- entries: a key and its position; all different, so every sort of them is stable -----

// Keys of at most 32 bits share a word with the index: one comparison, half the memory.
struct ShortEntry {
  static constexpr int kKeyShift = 32;
  std::uint64_t word;
  static ShortEntry of(std::uint64_t key, i64 index) {
    return {key << kKeyShift | static_cast<std::uint64_t>(index)};
  }
  std::uint64_t key() const { return word >> kKeyShift; }
  i64 index() const { return static_cast<i64>(word & 0xFFFFFFFFu); }
  bool operator<(const ShortEntry& other) const { return word < other.word; }
};
struct LongEntry {
  std::uint64_t high;
  i64 at;
  static LongEntry of(std::uint64_t key, i64 index) { return {key, index}; }
  std::uint64_t key() const { return high; }
  i64 index() const { return at; }
  bool operator<(const LongEntry& other) const {
    return high != other.high ? high < other.high : at < other.at;
  }
};

constexpr i64 kLongestShortRow = i64{1} << 32;
// Below this length comparison sorting is faster than radix sort.
constexpr i64 kCountingLength = 512;

// Radix sort, least significant byte first; bytes equal in all entries are skipped. Returns the
// array that holds the result.
template <class Entry>
Entry* sort_by_digits(Entry* from, Entry* to, i64 n, int key_bytes) {
  std::uint64_t different = 0;
  for (i64 i = 1; i < n; ++i) different |= from[i].key() ^ from[0].key();
  int digits[8], used = 0;
  for (int b = 0; b < key_bytes; ++b)
    if ((different >> (8 * b) & 0xFF) != 0) digits[used++] = b;
  i64 counts[8][256] = {};
  for (i64 i = 0; i < n; ++i)
    for (int d = 0; d < used; ++d) ++counts[d][from[i].key() >> (8 * digits[d]) & 0xFF];
  for (int u = 0; u < used; ++u) {
    i64* count = counts[u];
    const int b = digits[u];
    i64 position = 0;
    for (int d = 0; d < 256; ++d) position += std::exchange(count[d], position);
    for (i64 i = 0; i < n; ++i) to[count[from[i].key() >> (8 * b) & 0xFF]++] = from[i];
    std::swap(from, to);
  }
  return from;
}

template <class Entry>
Entry* sort_all(Entry* entries, Entry* spare, i64 n, int key_bytes) {
  if (n >= kCountingLength) return sort_by_digits(entries, spare, n, key_bytes);
  std::sort(entries, entries + n);
  return entries;
}

// Writes the k smallest of the n entries make(i), in order, to the start of `entries`: candidates
// are collected if they beat the worst of the best k so far.
template <class Entry, class Make>
void select_smallest(Entry* entries, i64 n, i64 k, const Make& make) {
  const i64 room = std::min(n, std::max<i64>(2 * k, 64));
  i64 held = 0, next = 0;
  for (; held < room; ++held, ++next) entries[held] = make(next);
  while (next < n) {
    std::nth_element(entries, entries + k - 1, entries + held);
    const Entry worst = entries[k - 1];
    held = k;
    for (; next < n && held < room; ++next) {
      const Entry e = make(next);
      if (e < worst) entries[held++] = e;
    }
  }
  std::partial_sort(entries, entries + std::min(k, held), entries + held);
}

// Selects the k smallest entries of a long row. Vector code finds the elements below the k-th
// smallest so far; only these few are compared one by one.
struct LongRow {
  static constexpr i64 kPart = 256;  // elements compared at a time
  static constexpr i64 kShortest = 4 * kPart;

  CandidatesFn candidates;
  DType dtype;
  bool descending;
  ShortEntry* entries;  // room for 2k + 2 * kPart
  i64 k, held = 0;
  std::uint64_t worst = 0;   // key of the k-th
  std::uint64_t limit = 0;   // of the keys that are still looked for
  bool tied = false;         // an entry with the key of the k-th was dropped
  bool last_unused = false;  // no key can be below the worst

  // Keeps the best k entries so far, and sets the limit that later elements have to beat.
  void shrink() {
    std::nth_element(entries, entries + k - 1, entries + held);
    const std::uint64_t now = entries[k - 1].key();
    tied = tied && now == worst;
    worst = now;
    for (i64 i = k; i < held; ++i) tied = tied || entries[i].key() == worst;
    held = k;
    last_unused = tied && worst == 0;
    limit = tied ? worst - 1 : worst;
  }

  // Whether the entries are in order and no other has the key of one of them, so that every
  // algorithm gives this result. Equal keys do not matter if `stable`.
  template <class Bits, class Make>
  bool select(const Bits* x, i64 n, bool stable, const Make& make) {
    std::uint32_t places[kPart];
    const i64 room = std::max<i64>(2 * k, kPart);
    i64 next = room;
    for (; held < room; ++held) entries[held] = make(held);
    shrink();
    while (next < n && !last_unused) {
      for (; next < n && held < room; next += kPart) {
        const i64 count = std::min(kPart, n - next);
        const i64 found = candidates(dtype, x + next, count, descending, limit, places);
        for (i64 i = 0; i < found; ++i) entries[held++] = make(next + places[i]);
      }
      shrink();
    }
    std::sort(entries, entries + k);
    if (stable) return true;
    for (i64 i = 1; i < k; ++i) tied = tied || entries[i].key() == entries[i - 1].key();
    return !tied;
  }
};

template <class Storage>
struct RowSorter {
  using Bits = typename Storage::Bits;

  const SortProblem& problem;
  void* const* buffers;
  const i64* dims;
  std::byte* scratch;

  // Offset of a row in an operand whose strides start at `at`.
  i64 offset(i64 row, int at) const {
    i64 result = 0;
    for (int d = problem.batch_rank - 1; d >= 0; --d) {
      const i64 size = dims[sort_dims::sizes + d];
      result += row % size * dims[at + d];
      row /= size;
    }
    return result;
  }

  std::uint64_t key(Bits bits) const {
    const Bits k = Storage::key(bits);
    return problem.descending ? static_cast<Bits>(~k) : k;
  }

  template <class Entry>
  void sort_row(i64 row) {
    const int rank = problem.batch_rank, at_x = sort_dims::x_strides(rank);
    const i64 n = dims[sort_dims::length], kept = dims[sort_dims::kept], step = dims[at_x + rank];
    const Bits* x = static_cast<const Bits*>(buffers[0]) + offset(row, at_x);
    auto make = [&](i64 i) { return Entry::of(key(x[i * step]), i); };
    if (select_by_vectors(row, x, n, kept, step)) return;
    Entry* entries = reinterpret_cast<Entry*>(scratch);
    if constexpr (std::is_same_v<Entry, LongEntry>) {
      if (problem.ties != Ties::stable && kept > 0) {
        for (i64 i = 0; i < n; ++i) entries[i] = make(i);
        order_like_eager(entries, n, kept, problem.ties,
                         [](const LongEntry& a, const LongEntry& b) { return a.high < b.high; });
        return store(row, x, entries);
      }
    }
    // Selection is faster than sorting if few elements are requested.
    if (kept < n && kept <= n / 8 + 16) {
      if (kept > 0) select_smallest(entries, n, kept, make);
    } else {
      for (i64 i = 0; i < n; ++i) entries[i] = make(i);
      entries = sort_all(entries, entries + n, n, static_cast<int>(sizeof(Bits)));
    }
    store(row, x, entries);
  }

  // False if the row is too short or not adjacent in memory, or if ties decide.
  bool select_by_vectors(i64 row, const Bits* x, i64 n, i64 kept, i64 step) {
    if constexpr (sizeof(Bits) == 2 || sizeof(Bits) == 4) {
      if (!is_float(problem.dtype) || step != 1 || kept == 0 || kept > n / 8 ||
          n < LongRow::kShortest || n >= kLongestShortRow)
        return false;
      ShortEntry* entries = reinterpret_cast<ShortEntry*>(scratch);
      LongRow selection{usable_variants().front()->candidates, problem.dtype, problem.descending,
                        entries, kept};
      const auto make = [&](i64 i) { return ShortEntry::of(key(x[i]), i); };
      if (!selection.select(x, n, problem.ties == Ties::stable, make)) return false;
      store(row, x, entries);
      return true;
    }
    return false;
  }

  template <class Entry>
  void store(i64 row, const Bits* x, const Entry* entries) {
    const int rank = problem.batch_rank;
    const i64 kept = dims[sort_dims::kept], step = dims[sort_dims::x_strides(rank) + rank];
    int result = 0;
    if (problem.values) {
      const int at = sort_dims::result_strides(rank, result);
      Bits* out = static_cast<Bits*>(buffers[1 + result++]) + offset(row, at);
      for (i64 i = 0; i < kept; ++i) out[i * dims[at + rank]] = x[entries[i].index() * step];
    }
    if (problem.indices) {
      const int at = sort_dims::result_strides(rank, result);
      i64* out = static_cast<i64*>(buffers[1 + result]) + offset(row, at);
      for (i64 i = 0; i < kept; ++i) out[i * dims[at + rank]] = entries[i].index();
    }
  }

  void run(i64 begin, i64 end) {
    const bool fits = problem.ties == Ties::stable && sizeof(Bits) <= 4 &&
                      dims[sort_dims::length] < kLongestShortRow;
    for (i64 row = begin; row < end; ++row) {
      if (fits) {
        sort_row<ShortEntry>(row);
      } else {
        sort_row<LongEntry>(row);
      }
    }
  }
};

template <class Storage>
void sort_rows(const void* context, void* const* buffers, const i64* dims, i64 begin, i64 end,
               std::byte* scratch) {
  RowSorter<Storage>{*static_cast<const SortProblem*>(context), buffers, dims, scratch}.run(begin,
                                                                                            end);
}

program::KernelFn kernel_for(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return &sort_rows<F64>;
    case DType::f32:
      return &sort_rows<F32>;
    case DType::f16:
      return &sort_rows<F16>;
    case DType::bf16:
      return &sort_rows<BF16>;
    case DType::i64:
      return &sort_rows<Signed<std::uint64_t>>;
    case DType::i32:
      return &sort_rows<Signed<std::uint32_t>>;
    case DType::i16:
      return &sort_rows<Signed<std::uint16_t>>;
    case DType::i8:
      return &sort_rows<Signed<std::uint8_t>>;
    case DType::u8:
    case DType::boolean:
      return &sort_rows<U8>;
  }
  fail(ErrorCode::unsupported, "sort kernel: unsupported dtype ", dtype);
}

}  // namespace

Dim sort_scratch_bytes(const SortProblem&, Dim length) {
  // Two arrays; long rows need LongEntry even for narrow keys.
  return length * Dim(static_cast<i64>(2 * sizeof(LongEntry)));
}

program::Callable make_sort(const SortProblem& problem) {
  auto context = std::make_shared<const SortProblem>(problem);
  const void* address = context.get();
  return {kernel_for(problem.dtype), address, std::move(context)};
}

}  // namespace gex::kernels
