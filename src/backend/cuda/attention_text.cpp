// Attention with an online softmax: a block processes some queries of one head and loops over tiles
// of keys and values in shared memory.

#include <algorithm>
#include <cmath>
#include <ios>
#include <sstream>

#include "backend/cuda/mma_attention_text.hpp"
#include "backend/cuda/problem_text.hpp"
#include "backend/cuda/slice_attention_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace attention_dim = problems::attention_dims;

namespace {

constexpr int kThreads = 128, kSliceThreads = 256;

constexpr std::string_view kDeclarations = R"cuda(
struct Sizes {
  i64 batch, heads, kv_heads, queries, keys, head, value;
  i64 q[4], k[4], v[4], out[4], mask[4];  // strides
  GEX_METHOD void bind(const i64* dims) {
    batch = dims[0]; heads = dims[1]; kv_heads = dims[2]; queries = dims[3]; keys = dims[4];
    head = dims[5]; value = dims[6];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      q[i] = dims[7 + i]; k[i] = dims[11 + i]; v[i] = dims[15 + i]; out[i] = dims[19 + i];
      mask[i] = kMask != 0 ? dims[23 + i] : 0;
    }
  }
  // Number of keys that a query attends to, before the mask is applied.
  GEX_METHOD i64 visible(i64 query) const {
    if (kCausal == 0) return keys;
    const i64 end = kCausal == 1 ? query + 1 : query + 1 + keys - queries;
    return int_max(int_min(end, keys), 0);
  }
};
)cuda";

constexpr std::string_view kBind = R"cuda(
  Sizes s;
  s.bind(dims);
  Query load_q; Key load_k; Value load_v; Mask load_mask; Finish done;
  load_q.bind(words); load_k.bind(words); load_v.bind(words); load_mask.bind(words); done.bind(words);
  GEX_DECLARE_LOCALS
)cuda";

constexpr std::string_view kAttentionBody = R"cuda(
  const int D = (int)s.head, DV = (int)s.value, thread = (int)threadIdx.x;
  Acc* const q = (Acc*)gex_locals;                 // [kQueries][D]
  Acc* const k = q + kQueries * D;                 // [kKeys][D + 1]
  Acc* const v = k + kKeys * (D + 1);              // [kKeys][DV]
  Acc* const scores = v + kKeys * DV;              // [kQueries][kKeys + 1]
  Acc* const sums = scores + kQueries * (kKeys + 1);  // [kQueries][DV]
  Acc* const largest = sums + kQueries * DV;       // [kQueries], as the next two
  Acc* const total = largest + kQueries;
  Acc* const factor = total + kQueries;
  const Acc infinity = (Acc)f32_of_bits(0x7f800000u);
  const Acc scale = kHasScale ? (Acc)scale_value() : (Acc)1 / sqrt_of((Acc)s.head);
  const i64 blocks = (s.queries + kQueries - 1) / kQueries;
  for (i64 at = block.index; at < s.batch * s.heads * blocks; at += block.count) {
    const i64 b = at / (s.heads * blocks), h = at / blocks % s.heads, first = at % blocks * kQueries;
    const i64 kv = h / (s.heads / s.kv_heads);
    const int count = (int)int_min(kQueries, s.queries - first);
    for (int e = thread; e < count * D; e += kThreads)
      q[e] = load_q(b * s.q[0] + h * s.q[1] + (first + e / D) * s.q[2] + e % D * s.q[3]);
    for (int e = thread; e < (int)kQueries * DV; e += kThreads) sums[e] = (Acc)0;
    if (thread < kQueries) {
      largest[thread] = -infinity;
      total[thread] = (Acc)0;
    }
    const i64 key_end = s.visible(first + count - 1);
    for (i64 key = 0; key < key_end; key += kKeys) {
      const int keys = (int)int_min(kKeys, key_end - key);
      for (int e = thread; e < keys * D; e += kThreads)
        k[e / D * (D + 1) + e % D] = load_k(b * s.k[0] + kv * s.k[1] + (key + e / D) * s.k[2] + e % D * s.k[3]);
      for (int e = thread; e < keys * DV; e += kThreads)
        v[e] = load_v(b * s.v[0] + kv * s.v[1] + (key + e / DV) * s.v[2] + e % DV * s.v[3]);
      __syncthreads();
      for (int e = thread; e < count * (int)kKeys; e += kThreads) {
        const int r = e / (int)kKeys, j = e % (int)kKeys;
        Acc score = -infinity;
        if (j < keys && key + j < s.visible(first + r)) {
          Acc sum = (Acc)0;
          for (int d = 0; d < D; ++d) sum = mul_add(q[r * D + d], k[j * (D + 1) + d], sum);
          score = sum * scale;
          if (kMask != 0) {
            const Acc m = load_mask(b * s.mask[0] + h * s.mask[1] + (first + r) * s.mask[2] + (key + j) * s.mask[3]);
            if (kMask == 1) score += m;
            if (kMask == 2 && m == (Acc)0) score = -infinity;
          }
        }
        scores[r * (kKeys + 1) + j] = score;
      }
      __syncthreads();
      if (thread < count) {
        Acc* const row = scores + thread * (kKeys + 1);
        const Acc before = largest[thread];
        Acc top = before, sum = (Acc)0;
        for (int j = 0; j < kKeys; ++j) top = row[j] > top ? row[j] : top;
        for (int j = 0; j < kKeys; ++j) {
          const Acc p = row[j] == -infinity ? (Acc)0 : exp_of(row[j] - (top == -infinity ? (Acc)0 : top));
          row[j] = p;
          sum += p;
        }
        const Acc f = before == -infinity ? (Acc)0 : exp_of(before - top);
        factor[thread] = before == top ? (Acc)1 : f;
        total[thread] = total[thread] * factor[thread] + sum;
        largest[thread] = top;
      }
      __syncthreads();
      for (int e = thread; e < count * DV; e += kThreads) {
        const int r = e / DV, d = e % DV;
        Acc sum = sums[e] * factor[r];
        for (int j = 0; j < keys; ++j) sum = mul_add(scores[r * (kKeys + 1) + j], v[j * DV + d], sum);
        sums[e] = sum;
      }
      __syncthreads();
    }
    __syncthreads();
    for (int e = thread; e < count * DV; e += kThreads) {
      const int r = e / DV, d = e % DV;
      const bool hidden = total[r] == (Acc)0 && !(kNanIfMasked && s.keys > 0);
      const i64 query = first + r;
      done(((b * s.heads + h) * s.queries + query) * s.value + d,
           b * s.out[0] + h * s.out[1] + query * s.out[2] + d * s.out[3],
           hidden ? (Acc)0 : sums[e] * ((Acc)1 / total[r]));
    }
    __syncthreads();
  }
)cuda";

// One result for each thread, in a persistent kernel, whose code must stay small.
constexpr std::string_view kPlainAttentionBody = R"cuda(
  const Acc infinity = (Acc)f32_of_bits(0x7f800000u);
  const Acc scale = kHasScale ? (Acc)scale_value() : (Acc)1 / sqrt_of((Acc)s.head);
#pragma unroll 1
  for (i64 at = block.index * kThreads + threadIdx.x; at < s.batch * s.heads * s.queries * s.value; at += block.count * kThreads) {
    const i64 d = at % s.value, query = at / s.value % s.queries, h = at / (s.value * s.queries) % s.heads;
    const i64 b = at / (s.value * s.queries * s.heads), kv = h / (s.heads / s.kv_heads);
    Acc top = -infinity, total = (Acc)0, sum = (Acc)0;
#pragma unroll 1
    for (i64 key = 0; key < s.visible(query); ++key) {
      Acc score = (Acc)0;
#pragma unroll 1
      for (i64 e = 0; e < s.head; ++e)
        score = mul_add(load_q(b * s.q[0] + h * s.q[1] + query * s.q[2] + e * s.q[3]),
                        load_k(b * s.k[0] + kv * s.k[1] + key * s.k[2] + e * s.k[3]), score);
      score *= scale;
      if (kMask != 0) {
        const Acc m = load_mask(b * s.mask[0] + h * s.mask[1] + query * s.mask[2] + key * s.mask[3]);
        if (kMask == 1) score += m;
        if (kMask == 2 && m == (Acc)0) score = -infinity;
      }
      if (score == -infinity) continue;
      const Acc higher = score > top ? score : top, factor = exp_of(top - higher), p = exp_of(score - higher);
      total = total * factor + p;
      sum = sum * factor + p * load_v(b * s.v[0] + kv * s.v[1] + key * s.v[2] + d * s.v[3]);
      top = higher;
    }
    const bool hidden = total == (Acc)0 && !(kNanIfMasked && s.keys > 0);
    done(at, b * s.out[0] + h * s.out[1] + query * s.out[2] + d * s.out[3], hidden ? (Acc)0 : sum / total);
  }
)cuda";

// Which tensor-core kernels support all possible sizes.
struct AttentionPlan {
  bool decode = false, few_rows = false, prefill = false;  // forms that the sizes may need
  std::int64_t head = 0, value = 0;
  int stages = 2, splits = 1;

  static constexpr std::int64_t kDecodeRows = 16;
  bool any() const { return decode || few_rows || prefill; }
  std::int64_t shared_bytes() const {
    return mma_attention_bytes(head, value, stages, decode, few_rows || prefill);
  }

  std::string body() const {
    std::string text = "  if (s.queries > 0 && aligned_operands(s, load_q, load_k, load_v)) {\n";
    const auto attend = [](const char* form) {
      return str("attend<", form,
                 ">(s, load_q, load_k, load_v, load_mask, done, block, (char*)gex_locals);\n");
    };
    text += "    const i64 rows = s.heads / s.kv_heads * s.queries;\n";
    std::string before;
    if (decode) {
      if (few_rows || prefill) before = str("if (rows <= ", kDecodeRows, ") ");
      text += "    " + before + attend("kDecode");
    }
    if (few_rows) {
      const std::string when =
          prefill ? "if (2 * s.batch * s.kv_heads * ((rows + kBlockRows - 1) / kBlockRows) <= "
                    "kMultiprocessors) "
                  : "";
      text += str("    ", before.empty() ? "" : "else ", when, attend("kFewRows"));
      before = when;
    }
    if (prefill) text += str("    ", before.empty() ? "" : "else ", attend("kPrefill"));
    return text + "    return;\n  }\n";
  }
};

AttentionPlan mma_plan(const problems::AttentionProblem& p, std::span<const Dim> dims,
                       const DeviceLimits& limits) {
  AttentionPlan plan;
  const auto head = dims[attention_dim::head_size].as_const(),
             value = dims[attention_dim::value_size].as_const();
  const auto fits = [](const std::optional<std::int64_t>& size) {
    return size && *size > 0 && *size % 16 == 0 && *size <= 256;
  };
  if (!is_low_float(p.qkv) || !fits(head) || !fits(value)) return plan;
  for (int k = 0; k < 3; ++k)
    if (!(dims[static_cast<std::size_t>(attention_dim::q_strides + 4 * k + 3)] == Dim(1)))
      return plan;
  plan.head = *head;
  plan.value = *value;
  const Dim rows = floordiv(dims[attention_dim::heads], dims[attention_dim::kv_heads]) *
                   dims[attention_dim::queries];
  plan.decode = rows.range().lo <= AttentionPlan::kDecodeRows;
  if (rows.range().hi > AttentionPlan::kDecodeRows) {
    const std::int64_t block_rows = prefill_rows(*value, plan.decode);
    const DimRange blocks =
        (dims[attention_dim::batch] * dims[attention_dim::kv_heads] * ceildiv(rows, block_rows))
            .range();
    plan.few_rows = 2 * std::min<std::int64_t>(blocks.lo, 1 << 30) <= limits.multiprocessors;
    plan.prefill = 2 * std::min<std::int64_t>(blocks.hi, 1 << 30) > limits.multiprocessors;
  }
  // Two blocks fit on a multiprocessor, so that all clusters of a decode run at once.
  plan.stages = *head > 128 || *value > 128 || !plan.decode ? 2 : 3;
  // Kernels that have other forms, too, are not launched in clusters: most of their blocks would
  // have no work, and those cost time.
  if (limits.form) {
    plan.splits = limits.form->split;
  } else if (plan.decode && !plan.few_rows && !plan.prefill) {
    const Dim units = dims[attention_dim::batch] * dims[attention_dim::kv_heads];
    const std::int64_t tiles =
        (std::min<std::int64_t>(dims[attention_dim::keys].range().hi, 1 << 30) + 63) / 64;
    // Joining the blocks of a cluster takes as long as a few tiles.
    constexpr std::int64_t kTilesEach = 4;
    while (limits.clusters && plan.splits < 8 && kTilesEach * plan.splits <= tiles &&
           units.range().lo * plan.splits < limits.multiprocessors)
      plan.splits *= 2;
  }
  if (plan.shared_bytes() > limits.shared_bytes) plan.stages = 2;
  return plan.shared_bytes() <= limits.shared_bytes ? plan : AttentionPlan{};
}

void declare_mma(ProblemText& out, const problems::AttentionProblem& p, const AttentionPlan& plan) {
  out.constant("kBf16", p.qkv == DType::bf16 ? 1 : 0);
  out.constant("kHead", plan.head);
  out.constant("kValue", plan.value);
  out.constant("kStages", plan.stages);
  out.constant("kSplits", plan.splits);
  out.constant("kPrefillOnly", plan.decode ? 0 : 1);
  out.constant("kDecodeOnly", plan.few_rows || plan.prefill ? 0 : 1);
  out.constant("kMultiprocessors", out.limits.multiprocessors);
  out.constant("kQueryComputed", problems::contains(p.computed, 0) ? 1 : 0);
  out.constant("kKeyComputed", problems::contains(p.computed, 1) ? 1 : 0);
  out.constant("kValueComputed", problems::contains(p.computed, 2) ? 1 : 0);
  out.text += mma_attention_tiles_text();
  out.text += mma_attention_text();
}

// Blocks of slices_of() elements of each result (slice_attention_text.hpp). More keys than this are
// worth sharing between blocks.
bool can_slice(const problems::AttentionProblem& p, std::span<const Dim> dims) {
  constexpr std::int64_t kMostKeys = 1024;
  const auto head = dims[attention_dim::head_size].as_const(),
             value = dims[attention_dim::value_size].as_const();
  const Dim rows = floordiv(dims[attention_dim::heads], dims[attention_dim::kv_heads]) *
                   dims[attention_dim::queries];
  return is_low_float(p.qkv) && head && value && *head > 0 && *head % 32 == 0 && *head <= 256 &&
         *value > 0 && *value % 8 == 0 && rows.range().lo >= 1 &&
         rows.range().hi <= AttentionPlan::kDecodeRows &&
         dims[attention_dim::keys].range().hi <= kMostKeys &&
         dims[attention_dim::keys].range().lo >= 1 && !problems::contains(p.computed, 1) &&
         !problems::contains(p.computed, 2) && dims[attention_dim::q_strides + 3] == Dim(1) &&
         dims[attention_dim::k_strides + 3] == Dim(1);
}

// The elements of each result that a block computes, or 0 if other forms are better.
std::int64_t slice_size(const problems::AttentionProblem& p, std::span<const Dim> dims,
                        const DeviceLimits& limits) {
  if (limits.form) return limits.form->slice;
  const auto units = (dims[attention_dim::batch] * dims[attention_dim::kv_heads]).as_const();
  if (!units || !can_slice(p, dims)) return 0;
  const std::int64_t value = dims[attention_dim::value_size].constant();
  std::int64_t slice = 8;
  while (slice < 32 && value % (slice * 2) == 0 &&
         *units * (value / slice) > limits.multiprocessors)
    slice *= 2;
  return *units * (value / slice) <= 4 * limits.multiprocessors ? slice : 0;
}

KernelText sliced(ProblemText& out, const problems::AttentionProblem& p, std::span<const Dim> dims,
                  const DeviceLimits& limits, std::int64_t slice, Dim shared) {
  const std::int64_t head = dims[attention_dim::head_size].constant();
  const std::int64_t value = dims[attention_dim::value_size].constant();
  out.constant("kBf16", p.qkv == DType::bf16 ? 1 : 0);
  out.constant("kHead", head);
  out.constant("kValue", value);
  out.constant("kSlice", slice);
  out.constant("kQueryComputed", problems::contains(p.computed, 0) ? 1 : 0);
  out.text += slice_attention_text();
  const std::string body =
      "  if (aligned_slices(s, load_q, load_k))\n"
      "    return attend_slices(s, load_q, load_k, load_v, load_mask, done, block, "
      "(char*)gex_locals);\n";
  const Dim units = dims[attention_dim::batch] * dims[attention_dim::kv_heads] * Dim(value / slice);
  const Dim own = slice_attention_bytes(head, slice);
  KernelText text = out.done(
      str(kBind, body, limits.persistent ? kPlainAttentionBody : kAttentionBody), kSliceThreads,
      capped_grid(units, limits, 2), limits.persistent ? own : max(shared, own), 0);
  text.phase = std::all_of(dims.begin(), dims.end(), [](Dim dim) { return dim.is_const(); });
  std::vector<bool> operands = {true, false, false};
  if (p.mask != problems::MaskKind::none) operands.push_back(p.mask != problems::MaskKind::boolean);
  text.exchangeable = out.exchangeable(std::move(operands));
  return text;
}

struct Block {
  std::int64_t queries, keys;
};

Dim shared_bytes(const Block& block, Dim head, Dim value, std::int64_t element) {
  return (Dim(block.queries) * head + Dim(block.keys) * (head + 1) + Dim(block.keys) * value +
          Dim(block.queries) * (Dim(block.keys + 1) + value + 3)) *
         Dim(element);
}

// The largest block whose tiles fit into shared memory for every possible head size.
Block choose_block(Dim head, Dim value, std::int64_t element, std::int64_t limit) {
  for (const Block block : {Block{16, 32}, Block{8, 16}, Block{4, 4}})
    if (shared_bytes(block, head, value, element).range().hi <= limit) return block;
  return {1, 1};
}

}  // namespace

KernelText attention_text(const problems::AttentionProblem& p, const AttachedKernels& attached,
                          std::span<const Dim> dims, const DeviceLimits& limits) {
  const bool has_mask = p.mask != problems::MaskKind::none;
  ProblemText out("gex_attention", attached, has_mask ? 4 : 3, 1, false, dims, limits);
  const std::int64_t element = p.qkv == DType::f64 ? 8 : 4;
  const Dim head = dims[attention_dim::head_size], value = dims[attention_dim::value_size];
  const Block block = choose_block(head, value, element, limits.shared_bytes);
  const Dim shared = shared_bytes(block, head, value, element);
  if (shared.is_const() && shared.constant() > limits.shared_bytes)
    fail(ErrorCode::unsupported, "CUDA: attention with heads of ", head, " and ", value,
         " elements does not fit into shared memory");
  out.accumulator(p.qkv);
  out.operand("Query", 0, p.qkv);
  out.operand("Key", 1, p.qkv);
  out.operand("Value", 2, p.qkv);
  if (has_mask)
    out.operand("Mask", 3, p.mask == problems::MaskKind::boolean ? DType::boolean : p.mask_dtype);
  else
    out.text +=
        "struct Mask {\n  GEX_METHOD void bind(const i64*) {}\n"
        "  GEX_METHOD Acc operator()(i64) const { return (Acc)0; }\n};\n";
  out.finish(p.out);
  const std::int64_t slice = slice_size(p, dims, limits);
  out.constant("kThreads", slice > 0 ? kSliceThreads : kThreads);
  out.constant("kQueries", block.queries);
  out.constant("kKeys", block.keys);
  out.constant("kMask", static_cast<int>(p.mask));
  out.constant("kCausal", static_cast<int>(p.causal));
  out.constant("kNanIfMasked", p.nan_if_fully_masked ? 1 : 0);
  out.constant("kHasScale", p.scale ? 1 : 0);
  std::ostringstream scale;
  scale << std::hexfloat << p.scale.value_or(0.0);
  out.text += "GEX_FN double scale_value() { return " + scale.str() + "; }\n";
  out.text += kDeclarations;
  const Dim work = dims[attention_dim::batch] * dims[attention_dim::heads] *
                   ceildiv(dims[attention_dim::queries], Dim(block.queries));
  if (slice > 0) return sliced(out, p, dims, limits, slice, shared);
  std::string body(kBind);
  const AttentionPlan plan = mma_plan(p, dims, limits);
  if (!plan.any())
    return out.done(body + std::string(kAttentionBody), kThreads, capped_grid(work, limits, 8),
                    shared, 0);
  declare_mma(out, p, plan);
  body += plan.body();
  // The grid is a multiple of the cluster size.
  const Dim clusters = min(work, Dim(limits.multiprocessors * 2 / plan.splits));
  return out.done(body + std::string(kAttentionBody), kThreads, clusters * Dim(plan.splits),
                  max(shared, Dim(plan.shared_bytes())), 0, 1, plan.splits);
}

// Few queries: a block of each head, several that share its keys, or slices of its results.
std::vector<Form> attention_forms(const problems::AttentionProblem& p, std::span<const Dim> dims,
                                  const DeviceLimits& limits) {
  const AttentionPlan plan = mma_plan(p, dims, limits);
  if (!plan.decode || plan.few_rows || plan.prefill || p.computed != 0) return {};
  const auto at = [&](int i) {
    return static_cast<double>(dims[static_cast<std::size_t>(i)].constant());
  };
  const double units = at(attention_dim::batch) * at(attention_dim::kv_heads);
  const double keys = at(attention_dim::keys), value = at(attention_dim::value_size);
  // Cycles: loads of keys and values, waves of blocks, joins of the blocks of a cluster.
  const auto cycles = [&](double blocks, double own_keys, double own_values, double join) {
    const double loads = own_keys * (at(attention_dim::head_size) + own_values) * 2 / 20;
    return (std::ceil(units * blocks / limits.multiprocessors) * (loads + 1500) + join) /
           kCyclesPerMicrosecond;
  };
  const auto split_form = [&](int split) {
    return Form{0, 0, split, 0, cycles(split, keys / split, value, split > 1 ? 1500 : 0)};
  };
  const auto slice_form = [&](int slice) {
    return Form{0, 0, 1, slice, cycles(value / slice, keys, slice, 0)};
  };
  std::vector<Form> forms;
  for (int split = 1; split <= (limits.clusters ? 8 : 1); split *= 2)
    forms.push_back(split_form(split));
  for (int slice = 8; slice <= 32 && can_slice(p, dims); slice *= 2)
    if (dims[attention_dim::value_size].constant() % slice == 0) forms.push_back(slice_form(slice));
  const auto slice = static_cast<int>(slice_size(p, dims, limits));
  return worth_trying(slice > 0 ? slice_form(slice) : split_form(plan.splits), std::move(forms));
}

}  // namespace gex::backend::cuda
