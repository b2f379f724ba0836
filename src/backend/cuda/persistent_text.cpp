#include "backend/cuda/persistent_text.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"

namespace gex::backend::cuda {

namespace {

constexpr std::string_view kHelpers = R"cuda(
#ifndef GEX_EMULATED
// Loads and stores of exchanged memory: each word is written once and carries its own flag, so they
// need no order.
GEX_FN uint4 load_exchanged(const char* p) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}
GEX_FN void store_word(char* p, u32 word) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(word) : "memory"); }
GEX_FN void store_word(char* p, u64 word) { asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(p), "l"(word) : "memory"); }
GEX_FN void add_release(u32* p) { asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(p) : "memory"); }
GEX_FN u32 load_acquire(const u32* p) {
  u32 v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
GEX_FN void poll_again() {}
// Reads 128 bytes into the cache of the multiprocessor.
GEX_FN void touch(const char* p) {
  u32 unused;
  asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(unused) : "l"(p));
}
#endif
// A wait of several seconds means that a block is missing: an error is better than a hang.
GEX_FN void count_wait(int& waits, int phase) {
  if (++waits < (1 << 24)) return poll_again();
  printf("gex: block %u of a persistent kernel waited too long in phase %d\n", blockIdx.x, phase);
  __trap();
}

template <class T> GEX_FN u64 bits_of(T value) {
  union { T value; u64 bits; } both;
  both.bits = 0;
  both.value = value;
  return both.bits;
}
// Elements of 2 bytes: 4 bytes with the flag above the value. Others: the flag above every 4 bytes.
template <class T> GEX_FN void store_exchanged(char* p, T value) {
  const u64 bits = bits_of(value);
  if (sizeof(T) == 2) return store_word(p, (u32)bits | 0x10000u);
  store_word(p, (bits & 0xffffffffull) | 0x100000000ull);
  if (sizeof(T) == 8) store_word(p + 8, bits >> 32 | 0x100000000ull);
}
template <class T> struct Exchanged {
  char* data;
  struct Element {
    char* at;
    GEX_METHOD void operator=(T value) const { store_exchanged(at, value); }
  };
  GEX_METHOD Element operator[](i64 i) const { return {data + i * (i64)(2 * sizeof(T))}; }
};
template <class T> GEX_FN Exchanged<T> exchanged_at(i64 word) { return {(char*)word}; }
template <class T, int width>
GEX_FN void put(const Exchanged<T>& to, i64 offset, const Vector<T, width>& from) {
#pragma unroll
  for (int i = 0; i < width; ++i) to[offset + i] = from.v[i];
}

// Copies exchanged memory to shared memory: 16 bytes with flags become 8 without.
template <int size, int count>
struct Staged {
  enum { pieces = count * size / 8, each = (pieces + 255) / 256 };
  uint4 v[each];
  static GEX_METHOD bool ready(const uint4& v) {
    return size == 2 ? ((v.x & v.y & v.z & v.w) & 0x10000u) != 0 : (v.y & v.w) != 0;
  }
  GEX_METHOD void request(const char* from) {
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int piece = (int)threadIdx.x + i * 256;
      if (piece < pieces) v[i] = load_exchanged(from + piece * 16);
    }
  }
  GEX_METHOD void finish(const char* from, char* to, int phase) {
    int waits = 0;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int piece = (int)threadIdx.x + i * 256;
      if (piece >= pieces) continue;
      while (!ready(v[i])) {
        count_wait(waits, phase);
        v[i] = load_exchanged(from + piece * 16);
      }
      const u32 low = size == 2 ? (v[i].x & 0xffffu) | v[i].y << 16 : v[i].x;
      const u32 high = size == 2 ? (v[i].z & 0xffffu) | v[i].w << 16 : v[i].z;
      *(u64*)(to + piece * 8) = low | (u64)high << 32;
    }
  }
};

GEX_FN void touch_bytes(i64 address, int bytes) {
  const int at = (int)threadIdx.x * 128;
  if (at < bytes) touch((const char*)address + at);
}
// Ends a phase for other blocks that wait for it: all that this block wrote so far is visible.
GEX_FN void end_phase(u32* counter) {
  __syncthreads();
  if (threadIdx.x == 0) add_release(counter);
}
GEX_FN void wait_for_phase(const u32* counter, int phase) {
  int waits = 0;
  if (threadIdx.x == 0)
    while (load_acquire(counter) < gridDim.x) count_wait(waits, phase);
  __syncthreads();
}
struct PhaseEntry { int kind, first_word, words, local_word, local_words, after, ends; };
GEX_FN i64 phase_word(const PhaseEntry& phase, const i64* words, int i) {
  if (i < phase.words) return words[phase.first_word + i];
  i -= phase.words;
  return i < phase.local_words ? words[phase.local_word + i] : 0;
}
)cuda";

std::int64_t rounded(std::int64_t bytes) { return (bytes + 127) / 128 * 128; }

class PersistentWriter {
 public:
  PersistentWriter(std::span<const Phase> phases, const DeviceLimits& limits)
      : phases_(phases), limits_(limits) {
    for (const Phase& phase : phases) {
      for (const PhasePart& part : phase.parts) add_locals(*part.text);
      for (const Phase::Local& local : phase.locals) add_locals(*local.part.text);
    }
    staging_ = rounded(staging_);
    all_bytes_ = staging_;
  }

  KernelText write() {
    std::string table, cases;
    for (std::size_t p = 0; p < phases_.size(); ++p) table += entry(p);
    for (std::size_t k = 0; k < kinds_.size(); ++k)
      cases += str("      case ", k, ": kind", k, "(phase, p, mine, counters, staging); break;\n");
    KernelText out;
    out.name = "gex_super_kernel";
    out.block = 256;
    out.grid = limits_.multiprocessors;
    out.shared_bytes = all_bytes_;
    out.source = str(prelude(), kHelpers, spaces_, functions_, "__constant__ PhaseEntry kPhases[",
                     phases_.size(), "] = {\n", table, "};\n", kernel(cases));
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
    // A phase does not wait for preceding kernels.
    if (added)
      spaces_ += str("namespace ", space, " {\nGEX_FN void wait_for_inputs() {}\n", text.part, "}\n");
    return space;
  }

  static int words_of(const PhasePart& part) { return part.text->words + 3; }
  static int first_word(const Phase& phase) { return phase.parts.front().first_word; }
  static int words_of(const Phase& phase) {
    return phase.parts.back().first_word + words_of(phase.parts.back()) - first_word(phase);
  }

  bool is_waited_for(std::size_t p) const {
    return std::any_of(phases_.begin(), phases_.end(), [&](const Phase& phase) {
      return phase.after == static_cast<int>(p);
    });
  }

  std::string entry(std::size_t p) {
    const Phase& phase = phases_[p];
    const std::string text = function(phase);
    const auto [found, added] = kinds_.emplace(text, static_cast<int>(kinds_.size()));
    if (added)
      functions_ += str("GEX_FN void kind", found->second,
                        "(const PhaseEntry& phase, int number, const i64* mine, u32* counters, "
                        "char* staging) {\n",
                        text, "}\n");
    const bool local = !phase.locals.empty();
    const int count = words_of(phase);
    const int local_count = local ? words_of(phase.locals.front().part) : 0;
    GEX_CHECK(count + local_count <= kMostPhaseWords, "words of a phase");
    return str("  {", found->second, ", ", first_word(phase), ", ", count, ", ",
               local ? phase.locals.front().part.first_word : 0, ", ", local_count, ", ",
               phase.after, ", ", is_waited_for(p) ? 1 : 0, "},\n");
  }

  // The statements of a phase, in terms of positions in its own words: phases of equal layers have
  // equal texts.
  std::string function(const Phase& phase) {
    std::string find, prepare, compute;
    std::int64_t total = 0;
    for (std::size_t i = 0; i < phase.parts.size(); ++i) {
      const PhasePart& part = phase.parts[i];
      const std::string space = space_of(*part.text);
      const std::string words = str("mine + ", part.first_word - first_word(phase));
      find += str("    if (part < 0) {\n      block.count = ", part.grid,
                  ";\n      if (block.index < ", part.grid, ") part = ", i,
                  ";\n      else block.index -= ", part.grid, ";\n    }\n");
      prepare += str("    if (part == ", i, ") {\n", touches(part, words));
      if (!phase.locals.empty()) prepare += touches(phase.locals.front().part, local_words(phase));
      if (part.text->prepares)
        prepare += str("      ", space, "::prepare(", words, ", block, requested);\n");
      prepare += "    }\n";
      compute += str("    if (part == ", i, ") {\n", run(phase, i, space, words), "    }\n");
      total += part.grid;
    }
    return str("  for (i64 at = blockIdx.x; at < ", total,
               "; at += gridDim.x) {\n    Blocks block = {at, 0};\n    int part = -1;\n", find,
               "    Requested requested;\n", prepare,
               "    if (at == blockIdx.x && phase.after >= 0) wait_for_phase(counters + phase.after, "
               "number);\n",
               compute, "    __syncthreads();\n  }\n");
  }

  static std::string local_words(const Phase& phase) { return str("mine + ", words_of(phase)); }

  static std::string touches(const PhasePart& part, const std::string& words) {
    std::string text;
    for (const auto& [buffer, bytes] : part.touched)
      text += str("      touch_bytes((", words, ")[", buffer, "], ", bytes, ");\n");
    return text;
  }

  // Requests what a launch reads from exchanged memory; `w` becomes its words.
  std::string request(const PhasePart& part, const std::string& w, const std::string& words) {
    std::string text = str("      i64 ", w, "[", part.text->words,
                           "];\n#pragma unroll\n      for (int i = 0; i < ", part.text->words,
                           "; ++i) ", w, "[i] = (", words, ")[i];\n");
    for (const PhasePart::Staged& staged : part.staged) {
      const std::string name = str(w, "_in", staged.buffers.front());
      text += str("      Staged<", staged.element_bytes, ", ", staged.elements, "> ", name,
                  ";\n      ", name, ".request((const char*)", w, "[", staged.buffers.front(),
                  "]);\n");
    }
    return text;
  }

  std::string finish(const PhasePart& part, const std::string& w, std::int64_t& at) {
    std::string text;
    for (const PhasePart::Staged& staged : part.staged) {
      const int first = staged.buffers.front();
      text += str("      ", w, "_in", first, ".finish((const char*)", w, "[", first,
                  "], staging + ", at, ", number);\n");
      for (int buffer : staged.buffers)
        text += str("      ", w, "[", buffer, "] = (i64)(staging + ", at, ");\n");
      at += rounded(staged.elements * staged.element_bytes);
    }
    return text;
  }

  std::string run(const Phase& phase, std::size_t number, const std::string& space,
                  const std::string& words) {
    const PhasePart& part = phase.parts[number];
    std::string text = request(part, "w", words);
    const Phase::Local* local =
        !phase.locals.empty() && !phase.locals.front().read_by[number].empty()
            ? &phase.locals.front()
            : nullptr;
    if (local != nullptr) text += request(local->part, "v", local_words(phase));
    std::int64_t at = 0;
    if (local != nullptr) text += finish(local->part, "v", at);
    text += finish(part, "w", at);
    if (at > 0) text += "      __syncthreads();\n";
    if (local != nullptr) {
      text += str("      v[", local->result, "] = (i64)(staging + ", at, ");\n      ",
                  space_of(*local->part.text), "::run(v, Blocks{0, 1});\n      __syncthreads();\n");
      for (int buffer : local->read_by[number])
        text += str("      w[", buffer, "] = v[", local->result, "];\n");
      at += rounded(local->result_bytes);
    }
    all_bytes_ = std::max(all_bytes_, staging_ + at);
    return text + str("      ", space, "::run(w, block", part.text->prepares ? ", requested" : "",
                      ");\n");
  }

  std::string kernel(const std::string& cases) const {
    return str("extern \"C\" __global__ void __launch_bounds__(256, 1) gex_super_kernel(const i64* "
               "words) {\n  GEX_DECLARE_LOCALS\n  char* const staging = (char*)gex_locals + ",
               staging_, ";\n  __shared__ i64 copied[2][", kMostPhaseWords, "];\n",
               R"(  u32* const counters = (u32*)words[-2];
  copied[0][threadIdx.x] = phase_word(kPhases[0], words, (int)threadIdx.x);
  __syncthreads();
#pragma unroll 1
  for (int p = 0; p < )",
               phases_.size(), R"(; ++p) {
    const PhaseEntry phase = kPhases[p];
    const i64* const mine = copied[p & 1];
    i64 next = 0;
    if (p + 1 < )",
               phases_.size(), R"() next = phase_word(kPhases[p + 1], words, (int)threadIdx.x);
    switch (phase.kind) {
)",
               cases, R"(    }
    copied[(p + 1) & 1][threadIdx.x] = next;
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
  std::string spaces_, functions_;
  std::int64_t staging_ = 0, all_bytes_ = 0;  // where staged values begin; shared memory
};

}  // namespace

KernelText persistent_kernel(std::span<const Phase> phases, const DeviceLimits& limits) {
  return PersistentWriter(phases, limits).write();
}

}  // namespace gex::backend::cuda
