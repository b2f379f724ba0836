#include <algorithm>

#include "backend/cuda/kernel_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace {

std::string kernel_head(const KernelText& text) {
  return str("extern \"C\" __global__ void __launch_bounds__(", text.block, ", ", text.min_blocks,
             ") ", text.cluster > 1 ? str("__cluster_dims__(", text.cluster, ", 1, 1) ") : "",
             text.name, "(const i64* words) {\n");
}

}  // namespace

void finish_source(KernelText& text) {
  text.source = str(prelude(), "\nnamespace ", text.name, "_parts {\n", text.part, "}\n",
                    kernel_head(text), "  const Blocks block = {blockIdx.x, gridDim.x};\n  ",
                    text.name, "_parts::run(words, block);\n}\n");
}

KernelText merge(std::span<const MergedPart> parts) {
  KernelText out;
  out.name = "gex_merged";
  out.block = parts.front().text->block;
  out.min_blocks = parts.front().text->min_blocks;
  std::vector<const KernelText*> distinct;
  std::string declarations, body = "  i64 block = blockIdx.x;\n";
  for (const MergedPart& part : parts) {
    const KernelText& text = *part.text;
    GEX_CHECK(text.block == out.block && text.cluster == 1, "launches that can't be merged");
    out.min_blocks = std::min(out.min_blocks, text.min_blocks);
    out.grid += part.grid;
    out.shared_bytes = max(out.shared_bytes, text.shared_bytes);
    auto found = std::find_if(distinct.begin(), distinct.end(),
                              [&](const KernelText* other) { return other->part == text.part; });
    const auto number = found - distinct.begin();
    if (found == distinct.end()) {
      distinct.push_back(&text);
      declarations += str("namespace ", out.name, "_part", number, " {\n", text.part, "}\n");
    }
    const std::string count = part.grid.is_const()
                                  ? str(part.grid.constant(), "ll")
                                  : str("words[", part.first_word + part.grid_word, "]");
    body += str("  {\n    const Blocks own = {block, ", count, "};\n    if (block < own.count)\n",
                "      return ", out.name, "_part", number, "::run(words + ", part.first_word,
                ", own);\n    block -= own.count;\n  }\n");
  }
  out.waits = parts.front().text->waits;
  // Also where no part has a block: the next kernel must not begin before those before this one
  // end.
  if (out.waits) body += "  wait_for_inputs();\n";
  out.source = str(prelude(), "\n", declarations, kernel_head(out), body, "}\n");
  return out;
}

}  // namespace gex::backend::cuda
