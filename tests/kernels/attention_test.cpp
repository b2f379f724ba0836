#include "backend/cpu/kernels/attention.hpp"

#include "base/error.hpp"
#include "support.hpp"

namespace gex::test {
namespace {

using kernels::AttentionProblem;
using kernels::Causal;
using kernels::MaskKind;

struct Case {
  AttentionProblem problem;
  i64 batch = 1, heads = 1, kv_heads = 1, queries, keys, head_size = 16, value_size = 16;
  std::vector<int> q_order = {0, 1, 2, 3}, kv_order = {0, 1, 2, 3}, out_order = {0, 1, 2, 3};
  bool mask_per_head = true;   // else broadcast over batch and head
  bool mask_per_query = true;  // else broadcast over queries
};

struct Operands {
  HostTensor q, k, v, mask, out;
  std::vector<i64> qs, ks, vs, os, ms, dims;
  i64 grid, scratch;

  Operands(const Case& t, std::mt19937& rng) {
    const std::vector<i64> q_sizes = {t.batch, t.heads, t.queries, t.head_size};
    const std::vector<i64> k_sizes = {t.batch, t.kv_heads, t.keys, t.head_size};
    const std::vector<i64> v_sizes = {t.batch, t.kv_heads, t.keys, t.value_size};
    const std::vector<i64> o_sizes = {t.batch, t.heads, t.queries, t.value_size};
    const std::vector<i64> m_sizes = {t.batch, t.heads, t.queries, t.keys};
    qs = strides_in_order(q_sizes, t.q_order);
    ks = strides_in_order(k_sizes, t.kv_order);
    vs = strides_in_order(v_sizes, t.kv_order);
    os = strides_in_order(o_sizes, t.out_order);
    ms = strides_in_order(m_sizes, {0, 1, 2, 3});
    if (!t.mask_per_head) ms[0] = ms[1] = 0;
    if (!t.mask_per_query) ms[2] = 0;
    q = random_tensor(rng, t.problem.qkv, extent(q_sizes, qs));
    k = random_tensor(rng, t.problem.qkv, extent(k_sizes, ks));
    v = random_tensor(rng, t.problem.qkv, extent(v_sizes, vs));
    out = random_tensor(rng, t.problem.out, extent(o_sizes, os));
    dims = {t.batch, t.heads, t.kv_heads, t.queries, t.keys, t.head_size, t.value_size};
    for (auto* s : {&qs, &ks, &vs, &os}) dims.insert(dims.end(), s->begin(), s->end());
    if (t.problem.mask != MaskKind::none) {
      const i64 size = extent(m_sizes, ms);
      const bool boolean = t.problem.mask == MaskKind::boolean;
      mask = random_tensor(rng, boolean ? DType::boolean : t.problem.mask_dtype, size);
      for (i64 i = 0; i < size; ++i)
        if (rng() % 3 == 0)
          mask.set(i, boolean ? 0.0 : -INFINITY);
        else if (boolean)
          mask.set(i, 1);
      dims.insert(dims.end(), ms.begin(), ms.end());
    }
    grid = attention_grid(t.problem, t.batch, t.heads, t.kv_heads, t.queries).constant();
    scratch = attention_scratch_bytes(t.problem, t.head_size, t.value_size).constant();
  }

  std::vector<void*> buffers(const Case& t) {
    if (t.problem.mask == MaskKind::none) return {q.data(), k.data(), v.data(), out.data()};
    return {q.data(), k.data(), v.data(), mask.data(), out.data()};
  }
};

// The scores of one query after scaling and masking.
std::vector<double> scores(const Case& t, const Operands& o, i64 b, i64 h, i64 i) {
  const double scale = t.problem.scale.value_or(1 / std::sqrt(double(t.head_size)));
  const i64 kv = h / (t.heads / t.kv_heads);
  std::vector<double> s(t.keys);
  for (i64 j = 0; j < t.keys; ++j) {
    for (i64 d = 0; d < t.head_size; ++d)
      s[j] += o.q.get(b * o.qs[0] + h * o.qs[1] + i * o.qs[2] + d * o.qs[3]) *
              o.k.get(b * o.ks[0] + kv * o.ks[1] + j * o.ks[2] + d * o.ks[3]);
    s[j] *= scale;
    if (t.problem.mask != MaskKind::none) {
      const double m = o.mask.get(b * o.ms[0] + h * o.ms[1] + i * o.ms[2] + j * o.ms[3]);
      if (t.problem.mask == MaskKind::additive)
        s[j] += m;
      else if (m == 0)
        s[j] = -INFINITY;
    }
    if (t.problem.causal == Causal::top_left && j > i) s[j] = -INFINITY;
    if (t.problem.causal == Causal::bottom_right && j > i + t.keys - t.queries) s[j] = -INFINITY;
  }
  return s;
}

std::string describe(const Case& t) {
  return str(t.problem.qkv, " batch ", t.batch, " heads ", t.heads, "/", t.kv_heads, " queries ",
             t.queries, " keys ", t.keys, " sizes ", t.head_size, ",", t.value_size, " mask ",
             int(t.problem.mask), " causal ", int(t.problem.causal));
}

void check_against_reference(const Case& t, const Operands& o) {
  const double sums = t.problem.qkv == DType::f64 ? 1e-13 : 5e-6;
  const bool rounds_weights = t.problem.qkv == DType::bf16 && !t.problem.keep_subnormals;
  for (i64 b = 0; b < t.batch; ++b)
    for (i64 h = 0; h < t.heads; ++h)
      for (i64 i = 0; i < t.queries; ++i) {
        std::vector<double> s = scores(t, o, b, h, i);
        double top = -INFINITY, total = 0;
        for (const double x : s) top = std::max(top, x);
        for (double& x : s) total += x = top == -INFINITY ? 0 : std::exp(x - top);
        const i64 kv = h / (t.heads / t.kv_heads);
        for (i64 c = 0; c < t.value_size; ++c) {
          double want = 0, size = 0;
          for (i64 j = 0; j < t.keys; ++j) {
            const double v = o.v.get(b * o.vs[0] + kv * o.vs[1] + j * o.vs[2] + c * o.vs[3]);
            want += s[j] * v;
            size += s[j] * std::fabs(v);
          }
          if (total > 0) want /= total, size /= total;
          const double of_weights = rounds_weights ? size * unit_of(DType::bf16) : 0;
          ASSERT_NEAR(o.out.get(b * o.os[0] + h * o.os[1] + i * o.os[2] + c * o.os[3]), want,
                      sums + of_weights + std::fabs(want) * unit_of(t.problem.out))
              << describe(t) << " at " << b << "," << h << "," << i << "," << c;
        }
      }
}

class Attention : public testing::TestWithParam<const kernels::Variant*> {
 protected:
  std::mt19937 rng{13};

  void check(const Case& t) {
    Operands o(t, rng);
    const auto kernel = make_attention(t.problem, {}, GetParam());
    run_in_steps(kernel, o.buffers(t), o.dims, o.grid, o.scratch, std::max<i64>(o.grid, 1));
    check_against_reference(t, o);
    const HostTensor whole = o.out;
    run_in_steps(kernel, o.buffers(t), o.dims, o.grid, o.scratch, 1);
    ASSERT_EQ(whole, o.out) << describe(t) << " differs in steps of 1";
    for (kernels::OperandSet computed : {1, 2, 4, 8, 15}) check_computed(t, o, computed);
  }

  // Operands without memory of their own.
  void check_computed(Case t, Operands& o, kernels::OperandSet computed) {
    const bool masked = t.problem.mask != MaskKind::none;
    if (!masked) computed &= 7;
    const bool as_summed = t.problem.qkv == DType::f32 || t.problem.qkv == DType::f64;
    if (computed == 0 || !as_summed || o.qs[3] != 1 || o.ks[3] != 1 || o.vs[3] != 1) return;
    const bool mask_as_summed =
        t.problem.mask == MaskKind::boolean || t.problem.mask_dtype == t.problem.qkv;
    if (kernels::contains(computed, 3) && (!mask_as_summed || t.problem.qkv == DType::f64)) return;
    ++computed_cases;
    t.problem.computed = computed;
    kernels::Attached attached;
    std::vector<void*> buffers = o.buffers(t);
    for (int k = 0; k < 4; ++k) {
      if (!kernels::contains(computed, k)) continue;
      const DType dtype = k < 3 ? t.problem.qkv : o.mask.dtype();
      attached.prologues.push_back(read_from_memory(dtype, k, static_cast<int>(buffers.size())));
      buffers.push_back(std::exchange(buffers[k], nullptr));
    }
    const auto kernel = make_attention(t.problem, attached, GetParam());
    const i64 scratch = attention_scratch_bytes(t.problem, t.head_size, t.value_size).constant();
    run_in_steps(kernel, buffers, o.dims, o.grid, scratch, std::max<i64>(o.grid, 1));
    check_against_reference(t, o);
  }

  // Of bf16: prologues compute numbers as f32 that are already rounded.
  void check_computed_bf16(Case t) {
    Operands o(t, rng);
    t.problem.computed = 7;
    kernels::Attached attached;
    std::vector<void*> buffers = o.buffers(t);
    std::vector<HostTensor> wide;
    for (const HostTensor* from : {&o.q, &o.k, &o.v}) {
      wide.push_back(HostTensor(DType::f32, {from->numel()}));
      for (i64 i = 0; i < from->numel(); ++i) wide.back().set(i, from->get(i));
    }
    for (int k = 0; k < 3; ++k) {
      attached.prologues.push_back(
          read_from_memory(DType::f32, k, static_cast<int>(buffers.size())));
      buffers.push_back(wide[k].data());
      buffers[k] = nullptr;
    }
    const auto kernel = make_attention(t.problem, attached, GetParam());
    const i64 scratch = attention_scratch_bytes(t.problem, t.head_size, t.value_size).constant();
    run_in_steps(kernel, buffers, o.dims, o.grid, scratch, std::max<i64>(o.grid, 1));
    check_against_reference(t, o);
  }

  int computed_cases = 0;
};

TEST_P(Attention, edge_sizes) {
  for (const i64 queries : {0, 1, 3, 9, 97})
    for (const i64 keys : {0, 1, 17, 257})
      for (const i64 size : {1, 8, 33})
        check({.queries = queries, .keys = keys, .head_size = size, .value_size = size});
  EXPECT_GT(computed_cases, 100);
}

TEST_P(Attention, decode_shares_keys_between_grouped_heads) {
  for (const i64 group : {1, 2, 7, 8, 9})
    check({.batch = 2,
           .heads = 2 * group,
           .kv_heads = 2,
           .queries = 1,
           .keys = 300,
           .head_size = 64,
           .value_size = 40});
}

TEST_P(Attention, head_sizes_beyond_one_block) {
  check({.queries = 20, .keys = 300, .head_size = 300, .value_size = 270});
  check({.queries = 2, .keys = 300, .head_size = 300, .value_size = 270});
}

TEST_P(Attention, causal_by_both_alignments) {
  for (const Causal causal : {Causal::top_left, Causal::bottom_right})
    for (const i64 queries : {1, 5, 130})
      for (const i64 keys : {4, 130, 280})
        for (const i64 heads : {1, 2})
          check({.problem = {.causal = causal}, .heads = heads, .queries = queries, .keys = keys});
}

// More rows than share packed keys and values; units of 96 rows, the last ones not whole.
TEST_P(Attention, many_rows_in_blocks_of_units) {
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right})
    check({.problem = {.causal = causal}, .queries = 600, .keys = 300});
  check({.problem = {.causal = Causal::top_left},
         .heads = 4,
         .kv_heads = 2,
         .queries = 250,
         .keys = 270});
  check({.problem = {.mask = MaskKind::additive}, .queries = 500, .keys = 40});
}

// Panels of queries that are not whole, blocks of keys that are not whole, odd sizes.
TEST_P(Attention, all_remainders_in_each_dtype) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const i64 queries : {9, 16, 17, 31, 32, 33, 65, 129})
      for (const i64 keys : {1, 2, 3, 127, 128, 129, 257})
        check({.problem = {.qkv = dtype, .out = dtype},
               .queries = queries,
               .keys = keys,
               .head_size = pick(rng, {1, 13, 16, 40, 47, 72}),
               .value_size = pick(rng, {1, 11, 12, 25, 64, 81})});
}

TEST_P(Attention, bf16_with_subnormals_or_computed_operands) {
  for (const i64 size : {16, 80, 96, 256, 300}) {
    Case t{.problem = {.qkv = DType::bf16, .out = DType::bf16},
           .heads = 2,
           .queries = 40,
           .keys = 150,
           .head_size = size,
           .value_size = size + 1};
    check_computed_bf16(t);
    t.problem.keep_subnormals = true;
    check(t);
    check_computed_bf16(t);
  }
  check_computed_bf16({.problem = {.qkv = DType::bf16, .out = DType::f32},
                       .queries = 12,
                       .keys = 9,
                       .head_size = 9000,
                       .value_size = 5000});
}

// Blocks whose mask is the lowest finite number are left out unless a row has nothing else.
TEST_P(Attention, lowest_numbers_in_masks) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Causal causal : {Causal::none, Causal::top_left}) {
      Case t{.problem = {.qkv = dtype,
                         .out = dtype,
                         .mask = MaskKind::additive,
                         .mask_dtype = dtype,
                         .causal = causal},
             .heads = 2,
             .queries = 300,
             .keys = 300};
      Operands o(t, rng);
      const double lowest = dtype == DType::f32 ? std::numeric_limits<float>::lowest() : -3.38e38;
      for (i64 h = 0; h < 2; ++h)
        for (i64 i = 0; i < 300; ++i)
          for (i64 j = 0; j < 300; ++j) {
            // Rows 40 and 200 to 299 of the second head see nothing; the others earlier keys.
            const bool none = h == 1 && (i == 40 || i >= 200);
            o.mask.set((h * 300 + i) * 300 + j, none || j > i ? lowest : 0);
          }
      run_in_steps(make_attention(t.problem, {}, GetParam()), o.buffers(t), o.dims, o.grid,
                   o.scratch, 1);
      check_against_reference(t, o);
    }
}

TEST_P(Attention, nan_in_a_mask_stays_nan) {
  for (const i64 queries : {2, 40}) {
    Case t{.problem = {.mask = MaskKind::additive}, .queries = queries, .keys = 300};
    Operands o(t, rng);
    for (i64 j = 0; j < 300; ++j) o.mask.set(j, j < 128 ? -INFINITY : std::nan(""));
    for (i64 j = 0; j < 300; ++j) o.mask.set(300 + j, j == 200 ? std::nan("") : 0);
    run_in_steps(make_attention(t.problem, {}, GetParam()), o.buffers(t), o.dims, o.grid, o.scratch,
                 1);
    for (i64 c = 0; c < 32; ++c) EXPECT_TRUE(std::isnan(o.out.get(c)));
  }
}

TEST_P(Attention, masks_with_broadcast_strides) {
  for (const MaskKind kind : {MaskKind::additive, MaskKind::boolean})
    for (const bool per_head : {true, false})
      for (const bool per_query : {true, false})
        for (const i64 queries : {3, 40})
          check({.problem = {.mask = kind},
                 .batch = 2,
                 .heads = 4,
                 .kv_heads = 2,
                 .queries = queries,
                 .keys = 290,
                 .mask_per_head = per_head,
                 .mask_per_query = per_query});
}

TEST_P(Attention, random_layouts_and_dtypes) {
  const DType dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64};
  const std::vector<std::vector<int>> orders = {{0, 1, 2, 3}, {0, 2, 1, 3}, {0, 1, 3, 2}};
  for (int i = 0; i < 40; ++i) {
    const DType dtype = dtypes[rng() % 4];
    Case t{.problem = {.qkv = dtype, .out = dtype, .mask_dtype = dtype},
           .batch = pick(rng, {1, 2}),
           .heads = 4,
           .kv_heads = pick(rng, {1, 2, 4}),
           .queries = pick(rng, {1, 2, 30, 101}),
           .keys = pick(rng, {5, 64, 258}),
           .head_size = pick(rng, {7, 32, 64}),
           .value_size = pick(rng, {5, 32, 65})};
    t.problem.mask = MaskKind(rng() % 3);
    t.problem.causal = Causal(rng() % 3);
    if (rng() % 2) t.problem.scale = 0.5;
    t.q_order = orders[rng() % 3];
    t.kv_order = orders[rng() % 3];
    t.out_order = orders[rng() % 3];
    check(t);
  }
}

TEST_P(Attention, queries_that_see_nothing_give_zeros_and_nan_stays_nan) {
  for (const i64 queries : {2, 20}) {
    Case t{.problem = {.mask = MaskKind::boolean}, .queries = queries, .keys = 300};
    Operands o(t, rng);
    for (i64 j = 0; j < t.keys; ++j) {
      o.mask.set(j, 0);
      o.mask.set(t.keys + j, 1);
    }
    o.q.set(16 + 3, std::nan(""));
    run_in_steps(make_attention(t.problem, {}, GetParam()), o.buffers(t), o.dims, o.grid, o.scratch,
                 1);
    for (i64 c = 0; c < 16; ++c) {
      EXPECT_EQ(o.out.get(c), 0);
      EXPECT_TRUE(std::isnan(o.out.get(16 + c)));
    }
  }
}

TEST_P(Attention, queries_that_see_nothing_give_nan_on_request_but_zeros_without_keys) {
  for (const i64 keys : {300, 0}) {
    Case t{.problem = {.mask = MaskKind::boolean, .nan_if_fully_masked = true},
           .queries = 2,
           .keys = keys};
    Operands o(t, rng);
    for (i64 j = 0; j < keys; ++j) {
      o.mask.set(j, 0);
      o.mask.set(keys + j, 1);
    }
    run_in_steps(make_attention(t.problem, {}, GetParam()), o.buffers(t), o.dims, o.grid, o.scratch,
                 1);
    for (i64 c = 0; c < 16; ++c) {
      EXPECT_EQ(std::isnan(o.out.get(c)), keys > 0);
      EXPECT_FALSE(std::isnan(o.out.get(16 + c)));
    }
  }
}

TEST_P(Attention, large_scores_do_not_overflow) {
  Case t{.problem = {.scale = 1000.0}, .queries = 12, .keys = 270};
  Operands o(t, rng);
  run_in_steps(make_attention(t.problem, {}, GetParam()), o.buffers(t), o.dims, o.grid, o.scratch,
               1);
  for (i64 i = 0; i < o.out.numel(); ++i) ASSERT_LE(std::fabs(o.out.get(i)), 1.0001);
}

// out[i] = acc[i] + other[i] over the dense grid of the result.
void add_other(const void*, void* const* buffers, const i64*, i64 begin, i64 end, std::byte* own) {
  const auto* acc = static_cast<const float*>(buffers[0]);
  const auto* other = static_cast<const float*>(buffers[1]);
  auto* out = static_cast<float*>(buffers[2]);
  std::memset(own, 0x11, 64);  // the epilogue's own scratch follows the kernel's
  for (i64 i = begin; i < end; ++i) out[i] = acc[i] + other[i];
}

TEST_P(Attention, epilogue_sees_finished_rows_at_their_linear_index) {
  for (const bool masked : {false, true})
    for (const i64 queries : {1, 100}) {
      Case t{.batch = 2, .heads = 4, .kv_heads = 2, .queries = queries, .keys = 70};
      if (masked) t.problem.mask = MaskKind::additive;
      Operands o(t, rng);
      run_in_steps(make_attention(t.problem, {}, GetParam()), o.buffers(t), o.dims, o.grid,
                   o.scratch, o.grid);
      const HostTensor other = random_tensor(rng, DType::f32, o.out.numel());
      HostTensor sum(DType::f32, {o.out.numel()});
      std::vector<void*> buffers = o.buffers(t);
      buffers.pop_back();
      const int dims = static_cast<int>(o.dims.size());
      kernels::Attached attached(kernels::Epilogue{{&add_other, nullptr, nullptr}, 2, dims, 0});
      buffers.insert(buffers.end(), {const_cast<std::byte*>(other.data()), sum.data()});
      // With a computed operand there is more in front of the epilogue's scratch.
      for (const bool computed : {false, true}) {
        if (computed) {
          t.problem.computed = 1;
          attached.prologues.push_back(
              read_from_memory(DType::f32, 0, static_cast<int>(buffers.size())));
          buffers.push_back(std::exchange(buffers[0], nullptr));
        }
        const i64 scratch =
            attention_scratch_bytes(t.problem, t.head_size, t.value_size).constant() + 64;
        run_in_steps(make_attention(t.problem, attached, GetParam()), buffers, o.dims, o.grid,
                     scratch, 1);
        for (i64 i = 0; i < sum.numel(); ++i)
          ASSERT_EQ(sum.get(i), static_cast<float>(o.out.get(i) + other.get(i))) << describe(t);
      }
    }
}

GEX_FOR_EACH_VARIANT(Attention);

TEST(AttentionProblem, unsupported_dtypes_are_refused) {
  EXPECT_THROW(kernels::make_attention({.qkv = DType::i32}), UserError);
  EXPECT_THROW(kernels::make_attention({.mask = MaskKind::additive, .mask_dtype = DType::f64}),
               UserError);
}

}  // namespace
}  // namespace gex::test
