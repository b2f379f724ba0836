#include <algorithm>

#include "backend/cuda/kernel_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace {

std::string kernel_head(const KernelText& text) {
  return str("extern \"C\" __global__ void __launch_bounds__(", text.block,
             text.min_blocks > 0 ? str(", ", text.min_blocks) : "", ") ",
             text.cluster > 1 ? str("__cluster_dims__(", text.cluster, ", 1, 1) ") : "", text.name,
             "(const i64* words) {\n",
             text.waits ? str("  touch_words(words, ", text.words, ");\n") : "");
}

std::string prepared(const KernelText& text, const std::string& space, const std::string& words) {
  return text.prepares ? str("      ", space, "::prepare(", words, ", block, requested);\n") : "";
}

std::string run(const KernelText& text, const std::string& space, const std::string& words) {
  return str("      ", space, "::run(", words, ", block", text.prepares ? ", requested" : "",
             ");\n");
}

// The condition that the block belongs to a part that reads the result of part `number`.
std::string readers_of(std::span<const MergedPart> parts, std::size_t number) {
  std::string text;
  for (std::size_t p = 0; p < parts.size(); ++p)
    for (const auto& [position, which] : parts[p].repeated)
      if (which == number) {
        text += str(text.empty() ? "" : " || ", "part == ", p);
        break;
      }
  return text;
}

std::string copied_words(const MergedPart& part, const std::string& name) {
  return str("      i64 ", name, "[", part.text->words,
             "];\n#pragma unroll\n      for (int i = 0; i < ", part.text->words, "; ++i) ", name,
             "[i] = words[", part.first_word, " + i];\n");
}

// Runs the part in the blocks that read its result.
std::string repeat(const MergedPart& part, std::size_t number, const std::string& space,
                   const std::string& readers) {
  return str("    __shared__ __align__(16) unsigned char repeated", number, "[", part.result_bytes,
             "];\n    if (", readers, ") {\n", copied_words(part, "own"), "      own[", part.result,
             "] = (i64)repeated", number, ";\n      ", space,
             "::run(own, Blocks{0, 1});\n      __syncthreads();\n    }\n");
}

// The words of a part with the places of repeated results.
std::string patched(const MergedPart& part) {
  if (part.repeated.empty()) return {};
  std::string text = copied_words(part, "patched");
  for (const auto& [position, which] : part.repeated)
    text += str("      patched[", position, "] = (i64)repeated", which, ";\n");
  return text;
}

// Writes the parts of a merged kernel, each distinct text once, in a namespace of its own.
class Merging {
 public:
  explicit Merging(KernelText& out) : out_(out) {}

  std::string space_of(const KernelText& text) {
    auto found = std::find_if(distinct_.begin(), distinct_.end(),
                              [&](const KernelText* other) { return other->part == text.part; });
    const auto number = found - distinct_.begin();
    const std::string space = str(out_.name, "_part", number);
    if (found == distinct_.end()) {
      distinct_.push_back(&text);
      declarations += str("namespace ", space, " {\n", text.part, "}\n");
    }
    return space;
  }

  std::string declarations;

 private:
  KernelText& out_;
  std::vector<const KernelText*> distinct_;
};

void add_limits(KernelText& out, const MergedPart& part) {
  const KernelText& text = *part.text;
  GEX_CHECK(text.block == out.block && text.cluster == 1, "launches that can't be merged");
  if (text.min_blocks > 0)
    out.min_blocks =
        out.min_blocks == 0 ? text.min_blocks : std::min(out.min_blocks, text.min_blocks);
  out.shared_bytes = max(out.shared_bytes, text.shared_bytes);
  out.words = part.first_word + part.grid_word + 1;
  out.grid += part.grid;
}

}  // namespace

void finish_source(KernelText& text) {
  const std::string space = text.name + "_parts";
  text.source = str(prelude(), "\nnamespace ", space, " {\n", text.part, "}\n", kernel_head(text),
                    "  const Blocks block = {blockIdx.x, gridDim.x};\n",
                    text.prepares ? "  Requested requested;\n" : "", prepared(text, space, "words"),
                    run(text, space, "words"), "}\n");
}

// A block first finds the part it belongs to, then requests loads of memory that no kernel writes.
KernelText merge(std::span<const MergedPart> parts) {
  KernelText out;
  out.name = "gex_merged";
  out.block = parts.front().text->block;
  out.min_blocks = 0;
  out.waits = parts.front().text->waits;
  Merging merging(out);
  std::string find, prepare, compute;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const MergedPart& part = parts[p];
    const std::string space = merging.space_of(*part.text);
    if (part.result >= 0) {
      compute += repeat(part, p, space, readers_of(parts, p));
      continue;
    }
    const std::string words = str("words + ", part.first_word);
    const std::string count = part.grid.is_const()
                                  ? str(part.grid.constant(), "ll")
                                  : str("words[", part.first_word + part.grid_word, "]");
    find += str("  if (part < 0) {\n    block.count = ", count,
                ";\n    if (block.index < block.count) part = ", p,
                ";\n    else block.index -= block.count;\n  }\n");
    if (part.text->prepares)
      prepare += str("    if (part == ", p, ") {\n", prepared(*part.text, space, words), "    }\n");
    compute += str("    if (part == ", p, ") {\n", patched(part),
                   run(*part.text, space, part.repeated.empty() ? words : "patched"), "    }\n");
  }
  for (const MergedPart& part : parts) add_limits(out, part);
  std::string body = "  Blocks block = {blockIdx.x, 0};\n  int part = -1;\n" + find;
  if (!prepare.empty()) body += "  Requested requested;\n" + prepare;
  body += compute;
  // Also if the block belongs to no part: the next kernel must not begin before the predecessors of
  // this one have finished.
  if (out.waits) body += "  if (part < 0) wait_for_inputs();\n";
  out.source = str(prelude(), "\n", merging.declarations, kernel_head(out), body, "}\n");
  return out;
}

}  // namespace gex::backend::cuda
