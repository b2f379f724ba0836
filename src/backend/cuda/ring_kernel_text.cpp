#include "backend/cuda/ring_kernel_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <map>

#include "backend/cuda/persistent_helpers.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace {

// Registers are moved between groups of 4 warps, so three warps beside the loader do nothing.
constexpr int kComputingThreads = 256, kThreads = kComputingThreads + 4 * 32;
// Fewer slots don't hold the weights of a phase ahead.
constexpr int kLeastSlots = 4;
constexpr std::int64_t kSlotBytes = 16 * 1024, kTileDepth = 1024;
// Shared memory for the words of phases, barriers, and what the compiler adds.
constexpr std::int64_t kOwnBytes = 12 * 1024;
constexpr std::int64_t kClockBytes = 6 * 4;  // of a phase

std::int64_t aligned(std::int64_t bytes) { return (bytes + 127) / 128 * 128; }

std::string initialiser(std::initializer_list<std::int64_t> values) {
  std::string text;
  for (std::int64_t value : values) text += str(text.empty() ? "{" : ", ", value);
  return text + "}";
}

// One copy of each distinct text, by number.
class Kinds {
 public:
  int number(const std::string& text) {
    const auto [found, added] = numbers_.emplace(text, static_cast<int>(texts_.size()));
    if (added) texts_.push_back(text);
    return found->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, int> numbers_;
  std::vector<std::string> texts_;
};

// Shared memory of a block: what texts of launches use themselves or the sums of products, the
// result of the repeated launch and its operands, the operands of a phase, the ring.
class RingWriter {
 public:
  RingWriter(std::span<const Phase> phases, const DeviceLimits& limits, const RingOptions& options)
      : phases_(phases), limits_(limits), options_(options) {
    for (const Phase& phase : phases) {
      most_parts_ = std::max(most_parts_, phase.parts.size());
      for (const PhasePart& part : phase.parts) measure(*part.text);
      for (const Phase::Local& local : phase.locals) {
        measure(*local.part.text);
        const std::int64_t operands = staged_bytes(local.part);
        local_bytes_ = std::max(local_bytes_, aligned(local.result_bytes) + operands);
      }
    }
    sum_bytes_ = std::int64_t{options.turn} * 8 * 8 * most_rows_ * 4;
    text_bytes_ = aligned(std::max(text_bytes_, 2 * sum_bytes_));
  }

  std::optional<KernelText> write() {
    for (const Phase& phase : phases_) add_phase(phase);
    const std::int64_t before = aligned(text_bytes_ + local_bytes_ + operand_bytes_);
    const std::int64_t clocks =
        options_.clocks ? kClockBytes * static_cast<std::int64_t>(phases_.size()) : 0;
    const std::int64_t room = limits_.shared_bytes - kOwnBytes - clocks - static_bytes_ - before;
    slots_ = std::min<std::int64_t>(options_.slots, room / kSlotBytes);
    if (slots_ < std::min(options_.slots, kLeastSlots)) return std::nullopt;
    KernelText out;
    out.name = "gex_super_kernel";
    out.block = kThreads;
    out.specific = limits_.architecture == "sm_90";
    out.grid = limits_.multiprocessors;
    out.shared_bytes = before + slots_ * kSlotBytes;
    out.source =
        str(prelude(), ring_threads_text(), exchange_text(), constants(before), ring_text(),
            ring_phases_text(), tables(), ring_products_text(), spaces_, functions(),
            product_function(), ring_kernel_text(), "#undef __syncthreads\n#undef blockDim\n");
    return out;
  }

 private:
  // Numbers that the texts of all kernels use. `before`: bytes before the ring.
  std::string constants(std::int64_t before) const {
    std::string text =
        str("#undef GEX_RING_CLOCKS\n#define GEX_RING_CLOCKS ", options_.clocks ? 1 : 0,
            "\n#undef GEX_RING_PRODUCTS\n#define GEX_RING_PRODUCTS ",
            products_.texts().empty() ? 0 : 1, "\nenum {");
    const std::pair<const char*, std::int64_t> all[] = {
        {"kRingSlots", slots_},
        {"kInFlight", std::min<std::int64_t>(options_.in_flight, slots_)},
        {"kInFlightLong", std::min<std::int64_t>(options_.in_flight_long, slots_)},
        {"kMostRows", most_rows_},
        {"kTurn", options_.turn},
        {"kBlocks", limits_.multiprocessors},
        {"kMostParts", static_cast<std::int64_t>(most_parts_)},
        {"kPhaseCount", static_cast<std::int64_t>(phases_.size())},
        {"kMostWords", kMostPhaseWords},
        {"kAllThreads", kThreads},
        {"kLocalAt", text_bytes_},
        {"kMemoryAt", text_bytes_ + local_bytes_},
        {"kRingAt", before}};
    for (const auto& [name, value] : all) text += str(" ", name, " = ", value, ",");
    return text + " };\n";
  }

  void measure(const KernelText& text) {
    GEX_CHECK(text.block == kComputingThreads && text.cluster == 1 && text.shared_bytes.is_const(),
              "a launch that can't be a phase");
    text_bytes_ = std::max(text_bytes_, text.shared_bytes.constant());
    if (text.product) most_rows_ = std::max(most_rows_, text.product->rows);
    const auto [found, added] = space_numbers_.emplace(text.part, space_numbers_.size());
    if (!added) return;
    static_bytes_ += text.static_bytes;
    spaces_ += str("namespace phase_part", found->second, " {\n", text.part, "}\n");
  }

  std::string space_of(const KernelText& text) const {
    return str("phase_part", space_numbers_.at(text.part));
  }

  static std::int64_t staged_bytes(const PhasePart& part) {
    std::int64_t bytes = 0;
    for (const PhasePart::Staged& staged : part.staged)
      bytes += aligned(staged.elements * staged.element_bytes);
    return bytes;
  }

  // ---- texts of launches; `own`: their words, in shared memory ----

  static std::string touches(const PhasePart& part) {
    std::string text;
    for (const auto& [buffer, bytes] : part.touched)
      text += str("  touch_bytes(own[", buffer, "], ", bytes, ");\n");
    return text;
  }

  static std::string request(const PhasePart& part) {
    std::string text;
    for (const PhasePart::Staged& staged : part.staged)
      text += str("  Staged<", staged.element_bytes, ", ", staged.elements, "> in",
                  staged.buffers.front(), ";\n  in", staged.buffers.front(),
                  ".request((const char*)own[", staged.buffers.front(), "]);\n");
    return text;
  }

  // Waits for what request() asked for; `set` writes the word of a buffer. `at`: bytes of `memory`
  // in use.
  template <class Set>
  static std::string finish(const PhasePart& part, std::int64_t& at, Set set) {
    std::string text;
    for (const PhasePart::Staged& staged : part.staged) {
      text += str("  in", staged.buffers.front(), ".finish((const char*)own[",
                  staged.buffers.front(), "], memory + ", at, ");\n");
      for (int buffer : staged.buffers) text += set(buffer, str("(i64)(memory + ", at, ")"));
      at += aligned(staged.elements * staged.element_bytes);
    }
    return text;
  }

  // An array of the words that is not shared memory.
  static std::string copy_words(const PhasePart& part) {
    return str("  i64 w[", part.text->words, "];\n#pragma unroll\n  for (int i = 0; i < ",
               part.text->words, "; ++i) w[i] = own[i];\n");
  }

  static std::string set_word(int buffer, const std::string& value) {
    return str("  w[", buffer, "] = ", value, ";\n");
  }

  // The launch that every block repeats before a phase; its result is at the begin of `local`.
  // Inlined: registers with weights would be saved around a call.
  std::string repeat(const Phase& phase) const {
    if (phase.locals.empty()) return {};
    const Phase::Local& local = phase.locals.front();
    std::int64_t at = aligned(local.result_bytes);
    std::string text = "  {\n  const i64* const own = own_local;\n  char* const memory = local;\n" +
                       touches(local.part) + request(local.part) + copy_words(local.part);
    text += finish(local.part, at, set_word);
    text += set_word(local.result, "(i64)memory");
    return text + "  __syncthreads();\n  " + space_of(*local.part.text) +
           "::run(w, Blocks{0, 1});\n  __syncthreads();\n  }\n";
  }

  static std::span<const int> reads_local(const Phase& phase, std::size_t part) {
    if (phase.locals.empty()) return {};
    return phase.locals.front().read_by[part];
  }

  int launch_kind(const Phase& phase, std::size_t number) {
    const PhasePart& part = phase.parts[number];
    std::int64_t at = 0;
    std::string text = touches(part) + request(part) +
                       "  GEX_MARK(1);\n  wait_for_phases(waits, counters);\n  GEX_MARK(2);\n";
    text += repeat(phase);
    text += copy_words(part) + finish(part, at, set_word);
    for (int buffer : reads_local(phase, number)) text += set_word(buffer, "(i64)local");
    operand_bytes_ = std::max(operand_bytes_, at);
    return launches_.number(str(text, at > 0 ? "  __syncthreads();\n" : "", "  GEX_MARK(3);\n  ",
                                space_of(*part.text), "::run(w, block);\n  GEX_MARK(4);\n"));
  }

  // `patched`: the words with addresses of shared memory; `x`: the left operand, in shared memory.
  int product_kind(const Phase& phase, std::size_t number) {
    const PhasePart& part = phase.parts[number];
    const KernelText::Product& product = *part.text->product;
    (product.bf16 ? has_bf16_ : has_f16_) = true;
    std::int64_t at = 0;
    const auto set = [](int buffer, const std::string& value) {
      return str("  if (threadIdx.x == ", buffer, ") patched[", buffer, "] = ", value, ";\n");
    };
    const auto staged = std::find_if(part.staged.begin(), part.staged.end(), [](const auto& s) {
      return std::find(s.buffers.begin(), s.buffers.end(), 0) != s.buffers.end();
    });
    const auto local = reads_local(phase, number);
    const bool left_in_shared =
        staged != part.staged.end() || std::find(local.begin(), local.end(), 0) != local.end();
    std::string text = str(touches(part), request(part), "  if (threadIdx.x < ", part.text->words,
                           ") patched[threadIdx.x] = own[threadIdx.x];\n");
    text += finish(part, at, set);
    for (int buffer : local) text += set(buffer, "(i64)local");
    text += "  __syncthreads();\n";
    if (product.computed || !left_in_shared) {
      const std::string to = str("(unsigned short*)(memory + ", at, ")");
      text += product.computed
                  ? str("  ", space_of(*part.text), "::stage_left(patched, ", to, ");\n")
                  : str("#pragma unroll 1\n  for (int e = (int)threadIdx.x; e < ",
                        product.rows * product.depth, "; e += 256) (", to,
                        ")[e] = ((const unsigned short*)patched[0])[e];\n");
      text += str("  __syncthreads();\n  x = ", to, ";\n");
      at += aligned(product.rows * product.depth * 2);
    } else {
      text += "  x = (const unsigned short*)patched[0];\n";
    }
    operand_bytes_ = std::max(operand_bytes_, at);
    return products_.number(str(text, "\n", space_of(*part.text)));
  }

  // ---- tables ----

  static int first_word(const Phase& phase) { return phase.parts.front().first_word; }
  static int words_of(const PhasePart& part) { return part.text->words + 3; }
  static int words_of(const Phase& phase) {
    return phase.parts.back().first_word + words_of(phase.parts.back()) - first_word(phase);
  }

  std::int64_t blocks_of(std::size_t phase) const {
    return std::min<std::int64_t>(totals_[phase], limits_.multiprocessors);
  }

  void add_phase(const Phase& phase) {
    const bool products = phase.parts.front().text->product.has_value();
    std::string parts;
    std::int64_t total = 0;
    for (std::size_t i = 0; i < phase.parts.size(); ++i) {
      const PhasePart& part = phase.parts[i];
      const int word = part.first_word - first_word(phase);
      std::int64_t count = part.grid;
      if (products) {
        const KernelText::Product& p = *part.text->product;
        count = (p.cols + 7) / 8;
        const std::int64_t rounds = (p.depth + kTileDepth - 1) / kTileDepth;
        const std::int64_t passes = (rounds + options_.turn - 1) / options_.turn;
        parts += initialiser({product_kind(phase, i), word, total, count, part.first_word + 1,
                              2 * p.stride, p.rows, p.cols, p.depth, p.bf16 ? 1 : 0, rounds,
                              passes > 1 ? 1 : options_.turn / rounds, passes}) +
                 ", ";
      } else {
        parts +=
            initialiser({launch_kind(phase, i), word, total, count, 0, 0, 0, 0, 0, 0, 0, 0, 0}) +
            ", ";
      }
      total += count;
    }
    GEX_CHECK(total * limits_.multiprocessors <= std::numeric_limits<int>::max(),
              "tiles of a phase");
    totals_.push_back(total);
    const std::int64_t first_wait = waits_;
    for (int other : phase.waits_for) {
      wait_table_ += initialiser({other, blocks_of(static_cast<std::size_t>(other))}) + ", ";
      ++waits_;
    }
    const bool local = !phase.locals.empty();
    const int words = words_of(phase);
    const int local_words = local ? words_of(phase.locals.front().part) : 0;
    GEX_CHECK(words + local_words <= kMostPhaseWords, "words of a phase");
    GEX_CHECK(12 + 13 * phase.parts.size() <= kComputingThreads, "launches of a phase");
    const auto number = static_cast<int>(totals_.size()) - 1;
    const bool ends = std::any_of(phases_.begin(), phases_.end(), [&](const Phase& later) {
      return std::find(later.waits_for.begin(), later.waits_for.end(), number) !=
             later.waits_for.end();
    });
    const std::string entry = initialiser(
        {first_word(phase), words, local ? phase.locals.front().part.first_word : 0, local_words,
         local && products ? locals_.number(repeat(phase)) : -1,
         static_cast<std::int64_t>(phase.parts.size()), total, products ? 0 : next_block_,
         first_wait, waits_ - first_wait, products ? 1 : 0, ends ? 1 : 0});
    records_ += str("  {", entry, ", {", parts, "}},\n");
    // Small phases in turn on different blocks.
    if (!products) next_block_ = (next_block_ + total) % limits_.multiprocessors;
  }

  // In global memory: the threads of a block read different words of a record.
  std::string tables() const {
    return str("__device__ const PhaseRecord kRecords[] = {\n", records_,
               "};\n__device__ const WaitEntry kWaits[] = {", wait_table_, "{0, 0}};\n");
  }

  // ---- functions ----

  static std::string cases(const std::vector<std::string>& calls) {
    if (calls.empty()) return {};
    std::string text = "  switch (kind) {\n";
    for (std::size_t k = 0; k < calls.size(); ++k)
      text += str("    case ", k, ": ", calls[k], " break;\n");
    return text + "  }\n";
  }

  std::string functions() const {
    std::string text = R"(
// What a phase waits for: other memory than exchanged values.
struct Waits { int first, count; };
GEX_FN void wait_for_phases(Waits waits, const u32* counters) {
  if (waits.count == 0) return;
  if ((int)threadIdx.x < waits.count) {
    int tries = 0;
    const WaitEntry wait = kWaits[waits.first + (int)threadIdx.x];
    while (load_acquire(counters + wait.phase) < (u32)wait.blocks) count_wait(tries);
  }
  __syncthreads();
}
)";
    std::vector<std::string> calls;
    for (std::size_t k = 0; k < launches_.texts().size(); ++k) {
      text += str("static __device__ __noinline__ void launch", k,
                  "(const i64* own, const i64* own_local, Blocks block, Waits waits, const u32* "
                  "counters, char* memory, char* local) {\n",
                  launches_.texts()[k], "}\n");
      calls.push_back(str("launch", k, "(own, own_local, block, waits, counters, memory, local);"));
    }
    text +=
        "GEX_FN void run_launch(int kind, const i64* own, const i64* own_local, Blocks block, "
        "Waits waits, const u32* counters, char* memory, char* local) {\n" +
        cases(calls) + "}\n";
    calls.clear();
    for (const std::string& local : locals_.texts()) calls.push_back("{\n" + local + "    }");
    return text + "GEX_FN void repeat_launch(int kind, const i64* own_local, char* local) {\n" +
           cases(calls) + "}\n";
  }

  std::string by_type(const char* name, const char* arguments) const {
    const std::string first = str(name, "<false>", arguments),
                      second = str(name, "<true>", arguments);
    return !has_bf16_ ? first : !has_f16_ ? second : str("part.bf16 ? ", second, " : ", first);
  }

  std::string product_function() const {
    if (products_.texts().empty()) return {};
    std::vector<std::string> stages, finishes;
    for (const std::string& text : products_.texts()) {
      const std::size_t at = text.rfind('\n');
      stages.push_back(str("{\n", text.substr(0, at), "    }"));
      finishes.push_back(str(text.substr(at + 1), "::finish(patched, row, col, sum);"));
    }
    return str(
        "GEX_FN void multiply(const PartEntry& part, const unsigned short* x, int round, int "
        "count, bool add, const uint4 (&w)[kTurn][4], float* sums) {\n  ",
        by_type("multiply_slots", "(part, x, round, count, add, w, sums)"),
        ";\n}\nGEX_FN float product_of(const PartEntry& part, const unsigned short* x, const "
        "char* weights, int row, int col) {\n  return ",
        by_type("plain_product", "(part, x, weights, row, col)"), R"(;
}
// Returns where the left operand is.
GEX_FN const unsigned short* stage_left(int kind, const i64* own, i64* patched, char* memory, char* local) {
  const unsigned short* x = 0;
)",
        cases(stages), R"(  return x;
}
GEX_FN void finish_product(int kind, const i64* patched, int row, int col, float sum) {
)",
        cases(finishes), R"(}
)",
        ring_product_phase_text());
  }

  const std::span<const Phase> phases_;
  const DeviceLimits& limits_;
  const RingOptions& options_;
  std::map<std::string, std::size_t> space_numbers_;  // by text
  Kinds products_, launches_, locals_;
  bool has_f16_ = false, has_bf16_ = false;  // among the products
  std::string spaces_, records_, wait_table_;
  std::vector<std::int64_t> totals_;  // by phase
  std::size_t most_parts_ = 1;
  std::int64_t waits_ = 0, next_block_ = 0, most_rows_ = 1, slots_ = 0;
  std::int64_t text_bytes_ = 0, sum_bytes_ = 0, local_bytes_ = 0, operand_bytes_ = 0,
               static_bytes_ = 0;
};

}  // namespace

namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

}  // namespace

std::string ring_options_text() {
  const std::string ring = variable("GEX_SUPER_KERNEL_RING");
  return variable("GEX_SUPER_KERNEL_CLOCKS") == "1" ? ring + " clocks" : ring;
}

RingOptions ring_options() {
  RingOptions options;
  options.clocks = variable("GEX_SUPER_KERNEL_CLOCKS") == "1";
  const std::string text = variable("GEX_SUPER_KERNEL_RING");
  if (text == "0") options.enabled = false;
  if (text.empty() || text == "0" || text == "1") return options;
  const std::array<int*, 4> numbers = {&options.slots, &options.in_flight, &options.in_flight_long,
                                       &options.turn};
  const char *at = text.data(), *const end = at + text.size();
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    const auto [next, error] = std::from_chars(at, end, *numbers[k]);
    const bool more = k + 1 < numbers.size();
    if (error != std::errc() || *numbers[k] < 1 ||
        (more ? next == end || *next != ',' : next != end))
      fail(ErrorCode::invalid_argument, "GEX_SUPER_KERNEL_RING is '", text,
           "': must be 0, 1, or slots,copies in flight,copies in flight of long phases,slots in "
           "registers, such as 10,2,5,4");
    at = next + 1;
  }
  if (options.slots < 2 || options.turn % 2 != 0)
    fail(ErrorCode::invalid_argument, "GEX_SUPER_KERNEL_RING is '", text,
         "': a ring has at least 2 slots, and an even number of them is in registers");
  return options;
}

bool has_bulk_copies(const DeviceLimits& limits) { return limits.dependent_launch; }

std::optional<KernelText> ring_kernel(std::span<const Phase> phases, const DeviceLimits& limits,
                                      const RingOptions& options) {
  return RingWriter(phases, limits, options).write();
}

}  // namespace gex::backend::cuda
