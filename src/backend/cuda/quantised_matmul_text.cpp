// Products with quantised weights for few rows. Rows of A are in shared memory as floats; each warp
// computes one column and reads its weights in pieces of 16 bytes.

#include "backend/cuda/problem_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace {

namespace at_dim = problems::quantised_dims;

constexpr int kQuantisedThreads = 256;
constexpr std::int64_t kRows = 4;             // that share what is read of the weights
constexpr std::int64_t kStagedBytes = 98304;  // at most, of shared memory

// Sizes, operands, and single weights.
constexpr std::string_view kOperands = R"cuda(
struct Quantised {
  Left a;
  const unsigned char* q;
  Scales scales;
  Offsets offsets;
  Finish done;
  i64 rows, cols, depth, as[2], qs[2], ss[2], os[2], cs[2];
  GEX_METHOD void bind(const i64* words, const i64* dims) {
    a.bind(words); scales.bind(words); offsets.bind(words); done.bind(words);
    q = (const unsigned char*)words[1];
    rows = dims[0]; cols = dims[1]; depth = dims[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      as[i] = dims[3 + i], qs[i] = dims[5 + i], ss[i] = dims[7 + i], os[i] = dims[9 + i], cs[i] = dims[11 + i];
  }
  GEX_METHOD i64 groups() const { return kGroup == 0 ? 1 : (depth + kGroup - 1) / kGroup; }
  GEX_METHOD float scale(i64 col, i64 group) const {
    return kHasScale ? scales(col * ss[0] + group * ss[1]) : 1.0f;
  }
  GEX_METHOD float offset(i64 col, i64 group) const {
    return kHasOffset ? offsets(col * os[0] + group * os[1]) : 0.0f;
  }
  // One number of a column, minus the zero point.
  GEX_METHOD float number(i64 col, i64 k) const {
    if (kBits == 4) return (float)(int)((q[col * qs[0] + k / 2] >> (k % 2 * 4) & 15) - kZero);
    const unsigned char byte = q[col * qs[0] + k * qs[1]];
    return (float)((kSigned ? (int)(signed char)byte : (int)byte) - (int)kZero);
  }
  GEX_METHOD void finish(i64 row, i64 col, float sum) const {
    done(row * cols + col, row * cs[0] + col * cs[1], sum);
  }
};
)cuda";

// A piece is 16 bytes of a column. Staged rows have the floats of a piece in steps of 32 lanes, so
// that lanes read neighbouring memory.
constexpr std::string_view kPieces = R"cuda(
static const int kPiece = kBits == 4 ? 32 : 16;  // numbers
GEX_FN int staged_at(int k) {
  const int piece = k / kPiece, part = k % kPiece / 4;
  return ((piece / 32 * (kPiece / 4) + part) * 32 + piece % 32) * 4 + k % 4;
}
// Number i of a word of the weights, minus the zero point.
GEX_FN float number_of(unsigned word, int i) {
  if (kBits == 4) return (float)((int)(word >> (4 * i) & 15u) - (int)kZero);
  const unsigned byte = word >> (8 * i) & 255u;
  return (float)((kSigned ? (int)(signed char)(unsigned char)byte : (int)byte) - (int)kZero);
}
GEX_FN void by_pieces(const Quantised& task, Blocks block, float* x) {
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  const int pieces = (int)task.depth / kPiece, staged = (pieces + 31) / 32 * 32 * kPiece;
  const i64 units = (task.cols + 7) / 8;
  for (i64 row = 0; row < task.rows; row += kRows) {
    const int height = task.rows - row < kRows ? (int)(task.rows - row) : (int)kRows;
    __syncthreads();
    for (int r = 0; r < height; ++r)
      for (int k = (int)threadIdx.x; k < (int)task.depth; k += 256)
        x[r * staged + staged_at(k)] = task.a((row + r) * task.as[0] + k * task.as[1]);
    __syncthreads();
    for (i64 unit = block.index; unit < units; unit += block.count) {
      const i64 col = unit * 8 + warp;
      if (col >= task.cols) continue;
      float sum[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) sum[r] = 0.0f;
      const uint4* const weights = (const uint4*)(task.q + col * task.qs[0]);
#pragma unroll 2
      for (int piece = lane; piece < pieces; piece += 32) {
        const uint4 loaded = weights[piece];
        const unsigned words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
        const i64 group = kGroup == 0 ? 0 : (i64)piece * kPiece / kGroup;
        const float scale = task.scale(col, group), offset = task.offset(col, group);
        const float* const left = x + piece / 32 * (kPiece * 32) + piece % 32 * 4;
        float part[kRows];
        float all[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) part[r] = all[r] = 0.0f;
#pragma unroll
        for (int i = 0; i < kPiece / 4; ++i) {
          const unsigned word = words[i * 4 / (kPiece / 4)];
          const int first = kBits == 4 ? i % 2 * 4 : 0;
          const float w0 = number_of(word, first), w1 = number_of(word, first + 1);
          const float w2 = number_of(word, first + 2), w3 = number_of(word, first + 3);
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            if (r >= height) break;
            const float4 v = *(const float4*)(left + r * staged + i * 128);
            part[r] = mul_add(v.w, w3, mul_add(v.z, w2, mul_add(v.y, w1, mul_add(v.x, w0, part[r]))));
            if (kHasOffset) all[r] += v.x + v.y + v.z + v.w;
          }
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          sum[r] = mul_add(part[r], scale, mul_add(all[r], offset, sum[r]));
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float all = sum[r];
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) all += __shfl_xor_sync(0xffffffffu, all, lanes);
        if (lane == r && r < height) task.finish(row + r, col, all);
      }
    }
  }
}
// Any sizes and layouts: one by one.
GEX_FN void one_by_one(const Quantised& task, Blocks block) {
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  for (i64 unit = block.index; unit < (task.rows * task.cols + 7) / 8; unit += block.count) {
    const i64 point = unit * 8 + warp;
    if (point >= task.rows * task.cols) continue;
    const i64 row = point / task.cols, col = point % task.cols;
    float sum = 0.0f;
    for (i64 k = lane; k < task.depth; k += 32) {
      const i64 group = kGroup == 0 ? 0 : k / kGroup;
      const float w = mul_add(task.number(col, k), task.scale(col, group), task.offset(col, group));
      sum = mul_add(task.a(row * task.as[0] + k * task.as[1]), w, sum);
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (lane == 0) task.finish(row, col, sum);
  }
}
)cuda";

void declare_parameters(ProblemText& out, const char* name, bool present, int number, DType dtype) {
  if (present) return out.operand(name, number, dtype);
  out.text += str("struct ", name,
                  " {\n  GEX_METHOD void bind(const i64*) {}\n"
                  "  GEX_METHOD Acc operator()(i64) const { return 0; }\n};\n");
}

}  // namespace

KernelText quantised_text(const problems::QuantisedMatmulProblem& p,
                          const AttachedKernels& attached, std::span<const Dim> dims,
                          const DeviceLimits& limits) {
  ProblemText out("gex_quantised_matmul", attached, p.operands(), 1, false, dims, limits);
  out.accumulator(DType::f32);
  out.constant("kBits", p.bits);
  out.constant("kGroup", p.group);
  out.constant("kZero", p.zero);
  out.constant("kSigned", p.q == DType::i8 ? 1 : 0);
  out.constant("kHasScale", p.has_scale ? 1 : 0);
  out.constant("kHasOffset", p.has_offset ? 1 : 0);
  out.constant("kRows", kRows);
  out.operand("Left", 0, p.a);
  declare_parameters(out, "Scales", p.has_scale, 2, p.scale);
  declare_parameters(out, "Offsets", p.has_offset, p.operands() - 1, DType::f32);
  out.finish(p.c);
  out.text += kOperands;
  out.text += kPieces;
  const std::int64_t piece = p.bits == 4 ? 32 : 16;
  const Dim padded = ceildiv(dims[at_dim::k], piece * 32) * Dim(piece * 32);
  const Dim staged = padded * Dim(kRows * 4);
  std::string body = str(
      "  Quantised task;\n  task.bind(words, dims);\n  GEX_DECLARE_LOCALS\n"
      "  const i64 piece = ",
      piece,
      ";\n"
      "  const bool whole = task.qs[1] == 1 && task.qs[0] % 16 == 0 && (i64)task.q % 16 == 0 &&\n"
      "      task.depth % piece == 0 && kGroup % piece == 0;\n"
      "  const i64 staged = (task.depth + piece * 32 - 1) / (piece * 32) * (piece * 32) * ",
      kRows * 4, ";\n  if (whole && staged <= ", kStagedBytes,
      ") by_pieces(task, block, (float*)gex_locals);\n  else one_by_one(task, block);\n");
  const Dim units = ceildiv(dims[at_dim::m] * dims[at_dim::n], 8);
  return out.done(body, kQuantisedThreads, capped_grid(units, limits, 4),
                  min(staged, Dim(kStagedBytes)), 0);
}

}  // namespace gex::backend::cuda
