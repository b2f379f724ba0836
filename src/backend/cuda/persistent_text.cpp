#include "backend/cuda/persistent_text.hpp"

#include <algorithm>
#include <map>

#include "backend/cuda/persistent_helpers.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace {

std::int64_t rounded(std::int64_t bytes) { return (bytes + 127) / 128 * 128; }

class PersistentWriter {
 public:
  PersistentWriter(std::span<const Phase> phases, const DeviceLimits& limits)
      : phases_(phases), limits_(limits) {
    for (const Phase& phase : phases) {
      for (const PhasePart& part : phase.parts) add_locals(*part.text);
      for (const Phase::Local& local : phase.locals) add_locals(*local.part.text);
    }
    staging_ = rounded(std::max(staging_, kSumBytes));
    all_bytes_ = staging_;
  }

  KernelText write() {
    std::string table;
    for (std::size_t p = 0; p < phases_.size(); ++p) table += entry(p);
    KernelText out;
    out.name = "gex_super_kernel";
    out.block = 256;
    out.grid = limits_.multiprocessors;
    out.shared_bytes = all_bytes_;
    out.source = str(prelude(), exchange_text(), phase_table_text(), phase_products_text(), spaces_,
                     functions_, "__constant__ PhaseEntry kPhases[", phases_.size(), "] = {\n",
                     table, "};\n", product_function(), kernel());
    return out;
  }

 private:
  void add_locals(const KernelText& text) {
    GEX_CHECK(text.block == 256 && text.cluster == 1 && text.shared_bytes.is_const(),
              "a launch that can't be a phase");
    staging_ = std::max(staging_, text.shared_bytes.constant());
  }

  std::string space_of(const KernelText& text) {
    const auto [found, added] = space_numbers_.emplace(text.part, space_numbers_.size());
    const std::string space = str("phase_part", found->second);
    if (added) spaces_ += str("namespace ", space, " {\n", text.part, "}\n");
    return space;
  }

  static int words_of(const PhasePart& part) { return part.text->words + 3; }
  static int first_word(const Phase& phase) { return phase.parts.front().first_word; }
  static int words_of(const Phase& phase) {
    return phase.parts.back().first_word + words_of(phase.parts.back()) - first_word(phase);
  }
  static std::string words(const Phase& phase, const PhasePart& part) {
    return str("(mine + ", part.first_word - first_word(phase), ")");
  }
  static std::string local_words(const Phase& phase) {
    return str("(mine + ", words_of(phase), ")");
  }

  bool is_waited_for(std::size_t p) const {
    return std::any_of(phases_.begin(), phases_.end(),
                       [&](const Phase& phase) { return phase.after == static_cast<int>(p); });
  }

  // Products that each block computes at most one of, so that they share one code.
  bool has_products(const Phase& phase) const {
    std::int64_t blocks = 0;
    for (const PhasePart& part : phase.parts) {
      if (!part.text->product) return false;
      blocks += part.grid;
    }
    return blocks <= limits_.multiprocessors;
  }

  std::string entry(std::size_t p) {
    const Phase& phase = phases_[p];
    const bool products = has_products(phase);
    const int kind = products ? product_kind(phase) : other_kind(phase);
    const bool local = !phase.locals.empty();
    const int count = words_of(phase);
    const int local_count = local ? words_of(phase.locals.front().part) : 0;
    GEX_CHECK(count + local_count <= kMostPhaseWords, "words of a phase");
    return str("  {", kind, ", ", first_word(phase), ", ", count, ", ",
               local ? phase.locals.front().part.first_word : 0, ", ", local_count, ", ",
               phase.after, ", ", is_waited_for(p) ? 1 : 0, ", ", products ? 1 : 0, "},\n");
  }

  // ---- what all phases share ----

  static std::string touches(const PhasePart& part, const std::string& words) {
    std::string text;
    for (const auto& [buffer, bytes] : part.touched)
      text += str("      touch_bytes(", words, "[", buffer, "], ", bytes, ");\n");
    return text;
  }

  // Finds the part of the phase that the block belongs to.
  static std::string find_part(const Phase& phase) {
    std::string text;
    for (std::size_t i = 0; i < phase.parts.size(); ++i)
      text += str("    if (part < 0) {\n      block.count = ", phase.parts[i].grid,
                  ";\n      if (block.index < ", phase.parts[i].grid, ") part = ", i,
                  ";\n      else block.index -= ", phase.parts[i].grid, ";\n    }\n");
    return text;
  }

  // `w`: an array of the launch's words that is not shared memory of the phase.
  static std::string copy_words(const PhasePart& part, const std::string& w,
                                const std::string& words) {
    return str("      i64 ", w, "[", part.text->words,
               "];\n#pragma unroll\n      for (int i = 0; i < ", part.text->words, "; ++i) ", w,
               "[i] = ", words, "[i];\n");
  }

  static std::string staged_name(const std::string& w, const PhasePart::Staged& staged) {
    return str(w, "_in", staged.buffers.front());
  }

  // Requests what a launch reads from exchanged memory.
  static std::string request(const PhasePart& part, const std::string& w,
                             const std::string& words) {
    std::string text;
    for (const PhasePart::Staged& staged : part.staged) {
      const std::string name = staged_name(w, staged);
      text +=
          str("      Staged<", staged.element_bytes, ", ", staged.elements, "> ", name, ";\n      ",
              name, ".request((const char*)", words, "[", staged.buffers.front(), "]);\n");
    }
    return text;
  }

  // Waits for it and sets the words to its places in shared memory; `set` writes one of them.
  template <class Set>
  static std::string finish(const PhasePart& part, const std::string& w, const std::string& words,
                            std::int64_t& at, Set set) {
    std::string text;
    for (const PhasePart::Staged& staged : part.staged) {
      text += str("      ", staged_name(w, staged), ".finish((const char*)", words, "[",
                  staged.buffers.front(), "], staging + ", at, ");\n");
      for (int buffer : staged.buffers) text += set(buffer, str("(i64)(staging + ", at, ")"));
      at += rounded(staged.elements * staged.element_bytes);
    }
    return text;
  }

  static bool reads_local(const Phase& phase, std::size_t part) {
    return !phase.locals.empty() && !phase.locals.front().read_by[part].empty();
  }

  // Computes the launch that the blocks of a phase repeat: `v` becomes its words.
  std::string repeat(const Phase& phase, std::int64_t& at) {
    if (phase.locals.empty()) return {};
    const Phase::Local& local = phase.locals.front();
    const std::string own = local_words(phase);
    const auto set = [](int buffer, const std::string& value) {
      return str("      v[", buffer, "] = ", value, ";\n");
    };
    std::string text = copy_words(local.part, "v", own) + request(local.part, "v", own);
    text += finish(local.part, "v", own, at, set);
    text += str("      __syncthreads();\n", set(local.result, str("(i64)(staging + ", at, ")")),
                "      ", space_of(*local.part.text), "::run(v, Blocks{0, 1});\n");
    at += rounded(local.result_bytes);
    return text;
  }

  // Stages what part `number` reads, after repeat().
  template <class Set>
  std::string stage(const Phase& phase, std::size_t number, Set set, std::int64_t& at) {
    const PhasePart& part = phase.parts[number];
    const std::string own = words(phase, part);
    std::string text = request(part, "w", own);
    text += finish(part, "w", own, at, set);
    if (reads_local(phase, number))
      for (int buffer : phase.locals.front().read_by[number])
        text += set(buffer, str("v[", phase.locals.front().result, "]"));
    return text;
  }

  // ---- phases that are not products ----

  // Phases of equal layers have equal texts: words are addressed from the phase's first.
  int other_kind(const Phase& phase) {
    std::int64_t total = 0, repeated = 0;
    const std::string first = repeat(phase, repeated);
    std::string prepare, compute;
    for (std::size_t i = 0; i < phase.parts.size(); ++i) {
      const PhasePart& part = phase.parts[i];
      GEX_CHECK(!part.text->product, "a product beside other launches, or with too many blocks");
      prepare += str("    if (part == ", i, ") {\n", touches(part, words(phase, part)), "    }\n");
      std::int64_t at = repeated;
      const auto set = [](int buffer, const std::string& value) {
        return str("      w[", buffer, "] = ", value, ";\n");
      };
      const std::string staged = stage(phase, i, set, at);
      compute += str("    if (part == ", i, ") {\n", copy_words(part, "w", words(phase, part)),
                     staged, at > 0 ? "      __syncthreads();\n" : "", "      ",
                     space_of(*part.text), "::run(w, block);\n    }\n");
      all_bytes_ = std::max(all_bytes_, staging_ + at);
      total += part.grid;
    }
    const std::string text = str(
        "  for (i64 at = blockIdx.x; at < ", total,
        "; at += gridDim.x) {\n    Blocks block = {at, 0};\n    int part = -1;\n", find_part(phase),
        prepare,
        "    if (at == blockIdx.x && phase.after >= 0) wait_for_phase(counters + phase.after);\n",
        first, compute, "    __syncthreads();\n  }\n");
    const auto [found, added] = kinds_.emplace(text, static_cast<int>(kinds_.size()));
    if (added)
      functions_ += str("static __device__ __noinline__ void kind", found->second,
                        "(const PhaseEntry& phase, const i64* mine, u32* counters, "
                        "char* staging) {\n",
                        text, "}\n");
    return found->second;
  }

  // ---- products ----

  struct ProductKind {
    std::string find, touch, stage, finish;
    bool operator==(const ProductKind&) const = default;
  };

  int product_kind(const Phase& phase) {
    ProductKind kind;
    kind.find = find_part(phase);
    std::int64_t repeated = 0;
    kind.stage = repeat(phase, repeated);
    if (!phase.locals.empty()) kind.touch += touches(phase.locals.front().part, local_words(phase));
    for (std::size_t i = 0; i < phase.parts.size(); ++i) {
      const PhasePart& part = phase.parts[i];
      const KernelText::Product& product = *part.text->product;
      const std::string own = words(phase, part), space = space_of(*part.text);
      (product.bf16 ? has_bf16_ : has_f16_) = true;
      kind.find += str("    if (part == ", i, ") {\n      task = {", i, ", (const char*)", own,
                       "[1], ", 2 * product.stride, ", ", product.rows, ", ", product.cols, ", ",
                       product.depth, ", (int)block.index, (int)block.count, ",
                       product.bf16 ? "true" : "false", ", 0};\n    }\n");
      const std::string touch = touches(part, own);
      if (!touch.empty()) kind.touch += str("    if (task.part == ", i, ") {\n", touch, "    }\n");
      std::int64_t at = repeated;
      const auto set = [](int buffer, const std::string& value) {
        return str("      if (threadIdx.x == ", buffer, ") patched[", buffer, "] = ", value, ";\n");
      };
      const std::string staged = stage(phase, i, set, at);
      kind.stage += str("    if (task.part == ", i, ") {\n      if (threadIdx.x < ",
                        part.text->words, ") patched[threadIdx.x] = ", own, "[threadIdx.x];\n",
                        staged, "      __syncthreads();\n");
      if (product.computed) {
        kind.stage += str("      ", space, "::stage_left(patched, (unsigned short*)(staging + ", at,
                          "));\n      task.x = (const unsigned short*)(staging + ", at, ");\n");
        at += rounded(product.rows * product.depth * 2);
      } else {
        kind.stage += copy_left(product, at);
      }
      kind.stage += "    }\n";
      kind.finish +=
          str("    if (task.part == ", i, ") ", space, "::finish(patched, row, col, sum);\n");
      all_bytes_ = std::max(all_bytes_, staging_ + at);
    }
    const auto found = std::find(products_.begin(), products_.end(), kind);
    if (found != products_.end()) return static_cast<int>(found - products_.begin());
    products_.push_back(std::move(kind));
    return static_cast<int>(products_.size()) - 1;
  }

  // A left operand in global memory, or not aligned, is copied.
  static std::string copy_left(const KernelText::Product& product, std::int64_t& at) {
    std::string text = str(
        "      task.x = (const unsigned short*)patched[0];\n      if (!is_shared(task.x) || "
        "patched[0] % 16 != 0) {\n#pragma unroll 1\n        for (int e = (int)threadIdx.x; e < ",
        product.rows * product.depth, "; e += 256) ((unsigned short*)(staging + ", at,
        "))[e] = task.x[e];\n        task.x = (const unsigned short*)(staging + ", at,
        ");\n      }\n");
    at += rounded(product.rows * product.depth * 2);
    return text;
  }

  std::string cases(std::string ProductKind::* text) const {
    std::string out;
    for (std::size_t k = 0; k < products_.size(); ++k)
      out += str("    case ", k, ": {\n", products_[k].*text, "    } break;\n");
    return out;
  }

  // The call of a template for the type of a product's elements.
  std::string by_type(const char* name, const char* arguments) const {
    const std::string first = str(name, "<false>", arguments),
                      second = str(name, "<true>", arguments);
    return !has_bf16_ ? first : !has_f16_ ? second : str("task.bf16 ? ", second, " : ", first);
  }

  std::string product_function() const {
    if (products_.empty()) return {};
    return str(R"(// What this block does in a phase; `mine`: the words of the phase.
GEX_FN ProductTask find_task(int kind, const i64* mine) {
  ProductTask task;
  Blocks block = {blockIdx.x, 0};
  int part = -1;
  task.part = -1;
  switch (kind) {
)",
               cases(&ProductKind::find), R"(  }
  return task;
}
GEX_FN void product_phase(const PhaseEntry& phase, const i64* mine, u32* counters,
                          char* staging, float* sums, i64* patched) {
  ProductTask task = find_task(phase.kind, mine);
  if (task.part < 0) return;
  switch (phase.kind) {
)",
               cases(&ProductKind::touch), R"(  }
  const SlotPlan plan(task);
  const bool aligned = (i64)task.weights % 16 == 0;
  uint4 w[kSlots][4];
  if (aligned) request_weights(task, plan, 0, 0, w);
  if (phase.after >= 0) wait_for_phase(counters + phase.after);
  switch (phase.kind) {
)",
               cases(&ProductKind::stage), R"(  }
  __syncthreads();
#pragma unroll 1
  for (int group = 0; group < plan.groups; ++group) {
#pragma unroll 1
    for (int pass = 0; pass < plan.passes && aligned; ++pass) {
      if (group > 0 || pass > 0) request_weights(task, plan, group, pass, w);
      )",
               by_type("multiply_slots", "(task, plan, pass, w, sums)"), R"(;
    }
    __syncthreads();
#pragma unroll 1
    for (int e = (int)threadIdx.x; e < task.rows * 64; e += 256) {  // [row][at most 8 tiles][column]
      const int row = e / 64, tile = e / 8 % 8;
      const int col = (task.index + (group * plan.tiles + tile) * task.count) * 8 + e % 8;
      if (tile >= plan.tiles || col >= task.cols) continue;
      const float sum = aligned ? join_slots(plan, sums, tile, row * 8 + e % 8) : ()",
               by_type("plain_product", "(task, row, col)"), R"();
      switch (phase.kind) {
)",
               cases(&ProductKind::finish), R"(      }
    }
    __syncthreads();
  }
}
)");
  }

  std::string kernel() const {
    std::string cases;
    for (std::size_t k = 0; k < kinds_.size(); ++k)
      cases += str("      case ", k, ": kind", k, "(phase, mine, counters, staging); break;\n");
    const std::string others = str("switch (phase.kind) {\n", cases, "    }\n");
    const std::string product =
        "product_phase(phase, mine, counters, staging, (float*)gex_locals, patched);\n";
    return str(
        "extern \"C\" __global__ void __launch_bounds__(256, 1) gex_super_kernel(const i64* words) "
        "{\n"
        "  GEX_DECLARE_LOCALS\n  char* const staging = (char*)gex_locals + ",
        staging_, ";\n  __shared__ i64 copied[2][", kMostPhaseWords, "], patched[", kMostPhaseWords,
        "];\n",
        R"(  u32* const counters = (u32*)words[-2];
  // The words of a phase are requested two phases ahead.
  const int thread = (int)threadIdx.x, last = )",
        phases_.size() - 1, R"(;
  copied[0][thread] = phase_word(kPhases[0], words, thread);
  i64 next = phase_word(kPhases[last < 1 ? last : 1], words, thread);
  __syncthreads();
#pragma unroll 1
  for (int p = 0; p <= last; ++p) {
    const PhaseEntry phase = kPhases[p];
    const i64* const mine = copied[p & 1];
    const i64 after_next = phase_word(kPhases[p + 2 < last ? p + 2 : last], words, thread);
    )",
        products_.empty() ? others : str("if (phase.product) ", product, "    else ", others),
        R"(    copied[(p + 1) & 1][thread] = next;
    next = after_next;
    if (phase.ends) end_phase(counters + p);
    __syncthreads();
  }
}
)");
  }

  const std::span<const Phase> phases_;
  const DeviceLimits& limits_;
  std::map<std::string, std::size_t> space_numbers_;  // by text
  std::map<std::string, int> kinds_;                  // by text of the function
  std::vector<ProductKind> products_;
  bool has_f16_ = false, has_bf16_ = false;  // among the products
  std::string spaces_, functions_;
  std::int64_t staging_ = 0, all_bytes_ = 0;  // where staged values begin; shared memory
};

}  // namespace

KernelText persistent_kernel(std::span<const Phase> phases, const DeviceLimits& limits) {
  return PersistentWriter(phases, limits).write();
}

}  // namespace gex::backend::cuda
