#pragma once
// Ops whose body is the text of a loop kernel, for users: they fuse with their neighbours and run
// on every target like the ops of src/ops.
//
//   symbols n, m
//   kernel scaled(x: in f32[n, m], s: in f32[m], y: out f32[n, m]) grid(i < n, j < m) {
//     stage {
//       v0 = load x[i, j] : f32
//       v1 = load s[j] : f32
//       v2 = mul v0, v1 : f32
//       store y[i, j] = v2
//     }
//   }
//
// Parameters `in` are the inputs, `out` the results. There is one stage without a reduction; each
// result is stored once, at the indices of the grid; loads must provably lie inside their buffers.

#include <string>
#include <string_view>

namespace gex::ops {

// UserError: the text is not such a kernel, or there is an op of this name.
void register_loop_text_op(const std::string& name, const std::string& doc, std::string_view text);

}  // namespace gex::ops
