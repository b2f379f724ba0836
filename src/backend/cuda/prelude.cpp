#include "backend/cuda/kernel_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace {

constexpr std::string_view kArithmetic = R"cuda(
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
#define GEX_FN static __device__ __forceinline__
#define GEX_METHOD __device__ __forceinline__

// The current block's index in its part of the launch, and the number of blocks of that part.
struct Blocks { i64 index, count; };
// What a kernel has loaded before it waits for other kernels.
struct Requested { uint4 pieces[16]; };

GEX_FN i64 floor_div(i64 a, i64 b) {
  i64 q = a / b;
  return q - (((a % b) != 0 && ((a < 0) != (b < 0))) ? 1 : 0);
}
GEX_FN i64 floor_mod(i64 a, i64 b) {
  i64 m = a % b;
  return m + ((m != 0 && ((m < 0) != (b < 0))) ? b : 0);
}
GEX_FN i64 int_min(i64 a, i64 b) { return b < a ? b : a; }
GEX_FN i64 int_max(i64 a, i64 b) { return b > a ? b : a; }
GEX_FN float mul_add(float a, float b, float c) { return fmaf(a, b, c); }
GEX_FN double mul_add(double a, double b, double c) { return fma(a, b, c); }
GEX_FN int mul_add(int a, int b, int c) { return (int)((u32)a * (u32)b + (u32)c); }
GEX_FN float exp_of(float a) { return expf(a); }
GEX_FN double exp_of(double a) { return exp(a); }
GEX_FN float sqrt_of(float a) { return sqrtf(a); }
GEX_FN double sqrt_of(double a) { return sqrt(a); }
GEX_FN i64 int_truncdiv(i64 a, i64 b) { return b == 0 ? 0 : (b == -1 ? (i64)(-(u64)a) : a / b); }
GEX_FN i64 int_fmod(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : a % b; }
GEX_FN i64 int_mod(i64 a, i64 b) {
  i64 m = int_fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
GEX_FN i64 int_floordiv(i64 a, i64 b) {
  i64 m = int_fmod(a, b);
  return int_truncdiv(a, b) - (m != 0 && (b < 0) != (m < 0) ? 1 : 0);
}
GEX_FN i64 int_pow(i64 a, i64 b) {
  if (b < 0) return a == 1 ? 1 : (a == -1 ? (b % 2 != 0 ? -1 : 1) : 0);
  u64 result = 1, base = (u64)a;
  for (; b != 0; b >>= 1, base *= base)
    if (b & 1) result *= base;
  return (i64)result;
}
GEX_FN i64 int_shl(i64 a, i64 b) { return b < 0 || b >= 64 ? 0 : (i64)((u64)a << b); }
GEX_FN i64 int_shr(i64 a, i64 b) { return a >> (b < 0 || b >= 64 ? 63 : b); }

GEX_FN float f32_of_bits(u32 bits) {
  union { u32 u; float f; } both;
  both.u = bits;
  return both.f;
}
GEX_FN u32 bits_of_f32(float value) {
  union { u32 u; float f; } both;
  both.f = value;
  return both.u;
}
GEX_FN u64 bits_of_f64(double value) {
  union { u64 u; double f; } both;
  both.f = value;
  return both.u;
}
GEX_FN double f64_of_bits(u64 bits) {
  union { u64 u; double f; } both;
  both.u = bits;
  return both.f;
}
GEX_FN double min_f64(double a, double b) { return a != a ? a : (b != b ? b : (b < a ? b : a)); }
GEX_FN double max_f64(double a, double b) { return a != a ? a : (b != b ? b : (b > a ? b : a)); }
)cuda";

// Wrappers of hardware instructions; tests that run the sources on the host define their own.
constexpr std::string_view kInstructions = R"cuda(
#ifndef GEX_EMULATED  // tests run these sources on the host
#define GEX_DECLARE_LOCALS extern __shared__ __align__(128) unsigned char gex_locals[];
GEX_FN float of_f16(unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
GEX_FN unsigned short to_f16(float f) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}

// Products of 16x16 and 16x8 fragments of 16-bit floats, summed in f32.
template <bool bf16>
GEX_FN void mma_16816(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if (bf16)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GEX_FN u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
// Four 8x8 matrices of 16-bit elements from shared memory; lanes 8i..8i+7 give the rows of matrix i.
GEX_FN void load_matrices(u32 (&r)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}
GEX_FN void load_matrices_transposed(u32 (&r)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}
// Asynchronous copy of 16 bytes to shared memory; writes zeros if not valid.
GEX_FN void copy_async(u32 to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
GEX_FN void store_shared(u32 to, const uint4& v) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" :: "r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
GEX_FN void store_shared(u32 to, unsigned short v) {
  asm volatile("st.shared.u16 [%0], %1;" :: "r"(to), "h"(v) : "memory");
}
template <bool bf16>
GEX_FN u32 to_halves(float low, float high) {
  u32 both;
  if (bf16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
GEX_FN unsigned short to_bf16(float f) {
  unsigned short h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
GEX_FN float min_f32(float a, float b) {
  float m;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
  return m;
}
GEX_FN float max_f32(float a, float b) {
  float m;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
  return m;
}
GEX_FN float fast_exp2(float a) {
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(a));
  return e;
}
GEX_FN void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
GEX_FN void wait_all_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
template <int groups>  // waits until all but the last groups are complete
GEX_FN void wait_copies() { asm volatile("cp.async.wait_group %0;" :: "n"(groups) : "memory"); }
// Clusters: the rank of the block, a barrier of all its blocks, and a load from another block's
// shared memory.
GEX_FN u32 cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
GEX_FN void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
GEX_FN float cluster_float(const float* p, u32 rank) {
  float v;
  asm volatile("{\n\t.reg .u32 there;\n\tmapa.shared::cluster.u32 there, %1, %2;\n\t"
               "ld.shared::cluster.f32 %0, [there];\n\t}" : "=f"(v) : "r"(shared_address(p)), "r"(rank));
  return v;
}
// Prefetches the words of a launch before the wait: they do not change while kernels run.
GEX_FN void touch_words(const i64* words, int count) {
  if ((int)threadIdx.x * 4 < count) {
    i64 unused;
    asm volatile("ld.global.ca.s64 %0, [%1];" : "=l"(unused) : "l"(words + threadIdx.x * 4));
  }
}
// A kernel that may begin before the one before it has ended waits here, before it reads what others
// write. The next kernel may begin from here on, not earlier: its blocks would take the room of
// kernels that still run, and be spread unevenly over the multiprocessors.
GEX_FN void wait_for_inputs() {
  asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
}
// 16 bytes that nobody writes while the kernel runs and that are read once.
GEX_FN uint4 load_once(const void* p) {
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
#endif
GEX_FN float of_bf16(unsigned short b) { return f32_of_bits((u32)b << 16); }

// Neighbouring elements, moved with loads and stores of up to 16 bytes.
template <class T, int width>
struct __align__((sizeof(T) * width < 16 ? sizeof(T) * width : 16)) Vector {
  T v[width];
};
// Shuffles of every register type.
template <class T>
GEX_FN T from_lane(T value, int lane) { return (T)__shfl_sync(0xffffffffu, value, lane); }
template <class T>
GEX_FN T from_lane_below(T value, int lanes) { return (T)__shfl_down_sync(0xffffffffu, value, lanes); }

// The same helpers for float and double: T, and the suffix of the C functions.
#define GEX_FLOAT_HELPERS(T, S)                                                        \
  GEX_FN T sign_##S(T a) { return a != a ? a : (a > 0 ? (T)1 : (a < 0 ? (T)-1 : (T)0)); } \
  GEX_FN i64 to_i64_##S(T a) {                                                         \
    return a >= (T)-9223372036854775808.0 && a < (T)9223372036854775808.0              \
               ? (i64)a                                                                \
               : (i64)0x8000000000000000ull;                                           \
  }                                                                                    \
  GEX_FN i64 to_i32_##S(T a) {                                                         \
    return (double)a > -2147483649.0 && a < (T)2147483648.0 ? (i64)a : -2147483648ll;  \
  }
GEX_FLOAT_HELPERS(float, f32)
GEX_FLOAT_HELPERS(double, f64)
#define GEX_DIVISION(T, S, FMOD, FLOOR, COPYSIGN)                 \
  GEX_FN T mod_##S(T a, T b) {                                    \
    T m = FMOD(a, b);                                             \
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;              \
  }                                                               \
  GEX_FN T floordiv_##S(T a, T b) {                               \
    if (b == 0) return a / b;                                     \
    T m = FMOD(a, b);                                             \
    T q = (a - m) / b;                                            \
    if (m != 0 && (b < 0) != (m < 0)) q -= 1;                     \
    if (q == 0) return COPYSIGN((T)0, a / b);                     \
    T f = FLOOR(q);                                               \
    return q - f > (T)0.5 ? f + 1 : f;                            \
  }
GEX_DIVISION(float, f32, fmodf, floorf, copysignf)
GEX_DIVISION(double, f64, fmod, floor, copysign)

GEX_FN i64 philox(i64 key, i64 counter, i64 word) {
  u32 c0 = (u32)counter, c1 = (u32)((u64)counter >> 32), c2 = 0, c3 = 0;
  u32 k0 = (u32)key, k1 = (u32)((u64)key >> 32);
  for (int round = 0; round < 10; ++round) {
    u64 a = (u64)0xD2511F53u * c0, b = (u64)0xCD9E8D57u * c2;
    u32 n0 = (u32)(b >> 32) ^ c1 ^ k0, n2 = (u32)(a >> 32) ^ c3 ^ k1;
    c0 = n0; c1 = (u32)b; c2 = n2; c3 = (u32)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  switch ((u64)word & 3u) {
    case 0: return c0;
    case 1: return c1;
    case 2: return c2;
    default: return c3;
  }
}
)cuda";

}  // namespace

std::string_view prelude() {
  static const std::string text = str(kArithmetic, kInstructions);
  return text;
}

}  // namespace gex::backend::cuda
