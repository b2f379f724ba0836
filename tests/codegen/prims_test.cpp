// Every primitive on every dtype it takes, and every cast, against the reference.

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "harness.hpp"
#include "loop/scalar.hpp"

namespace gex::codegen {
namespace {

using loop::Prim;

constexpr DType kAll[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64,
                          DType::i32, DType::i16, DType::i8,  DType::u8,   DType::boolean};

constexpr Prim kPrims[] = {
#define GEX_PRIM(name, ...) Prim::name,
#include "loop/math.def"
};

// Small and large, special and ordinary values, each against each when `columns` differ in phase.
void fill_widely(HostTensor& t, int phase) {
  std::mt19937_64 random(static_cast<unsigned>(phase) + 11);
  const double reals[] = {0,   -0.0,     1,         -1,  0.5,  -2.5, 3,  1e3, -7,
                          1e6, INFINITY, -INFINITY, NAN, 1e-3, 63,   64, 2,   -3};
  const std::int64_t ints[] = {0,
                               1,
                               -1,
                               2,
                               -3,
                               7,
                               63,
                               64,
                               65,
                               8,
                               31,
                               32,
                               127,
                               -128,
                               200,
                               std::numeric_limits<std::int64_t>::min(),
                               std::numeric_limits<std::int64_t>::max()};
  std::uniform_real_distribution<double> draw(-4, 4);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    std::int64_t k = phase == 0 ? i : i / 19;  // every pair of values meets
    if (is_float(t.dtype()))
      t.set(i, i % 3 == 2 ? draw(random) : reals[k % 18]);
    else
      t.set_int(i, i % 3 == 2 ? static_cast<std::int64_t>(random()) : ints[k % 17]);
  }
}

std::string kernel_text(const std::string& parameters, const std::string& body) {
  return "kernel f(" + parameters + ") grid(i < n) {\nstage {\n" + body + "} }";
}

Case prim_case(Prim prim, DType dtype, std::int64_t n) {
  int arity = loop::arity_of(prim);
  std::string parameters, body, args;
  std::vector<DType> operands;
  for (int a = 0; a < arity; ++a) {
    DType d = prim == Prim::select && a == 0 ? DType::boolean : dtype;
    operands.push_back(d);
    std::string k = std::to_string(a);
    parameters += str("a", k, ": in ", d, "[n], ");
    body += "x" + k + " = load a" + k + "[i]\n";
    args += (a ? ", x" : " x") + k;
  }
  DType result = *loop::result_dtype(prim, operands);
  body += str("r = ", loop::name_of(prim), args, "\nstore y[i] = r\n");
  Case c = random_case(
      loop::parse_kernel(kernel_text(str(parameters, "y: out ", result, "[n]"), body)), {n});
  for (int a = 0; a < arity; ++a) fill_widely(c.buffers[static_cast<std::size_t>(a)], a);
  return c;
}

TEST(Prims, EachOnEachDtype) {
  for (Prim prim : kPrims)
    for (DType dtype : kAll) {
      if (!loop::accepts(prim, dtype)) continue;
      SCOPED_TRACE(str(loop::name_of(prim), " on ", dtype));
      // What is exact has the reference's bits; the rest is a few ulp off, or one after rounding to
      // a low float.
      check(prim_case(prim, dtype, 700), loop::is_exact(prim) ? 0 : 5);
    }
}

TEST(Prims, CastsBetweenAllDtypes) {
  for (DType from : kAll)
    for (DType to : kAll) {
      SCOPED_TRACE(str(from, " to ", to));
      Case c = random_case(loop::parse_kernel(kernel_text(
                               str("a: in ", from, "[n], y: out ", to, "[n]"),
                               str("x = load a[i]\nr = cast x : ", to, "\nstore y[i] = r\n"))),
                           {333});
      fill_widely(c.buffers[0], 0);
      // Both sides of what each integer holds.
      const double limits[] = {0x1p7,  0x1p8,  0x1p15, 0x1p16, 0x1p31, 0x1p31 + 7,
                               0x1p32, 0x1p33, 0x1p62, 0x1p63, 0x1p64, 0x1p31 - 0.5};
      for (int i = 0; is_float(from) && i < 48; ++i)
        c.buffers[0].set(i, (i % 2 == 0 ? 1 : -1) * limits[i % 12] + i / 24);
      check(c, 0);
    }
}

// LLVM computes with constants itself, and as it likes where a conversion to integers is undefined.
TEST(Prims, OfConstants) {
  for (const char* value : {"nan", "inf", "-inf", "1e30", "-0.0"})
    for (DType from : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      std::string parameters = str("y: out ", from, "[n]");
      std::string body = str("x = const ", value, " : ", from, "\nstore y[i] = x\n");
      for (Prim prim : kPrims) {
        if (loop::arity_of(prim) != 1 || !loop::accepts(prim, from)) continue;
        const std::string_view name = loop::name_of(prim);
        parameters += str(", p_", name, ": out ", *loop::result_dtype(prim, {{from}}), "[n]");
        body += str("r_", name, " = ", name, " x\nstore p_", name, "[i] = r_", name, "\n");
      }
      for (DType to : kAll) {
        if (to == from) continue;
        parameters += str(", c_", to, ": out ", to, "[n]");
        body += str("c", to, " = cast x : ", to, "\nstore c_", to, "[i] = c", to, "\n");
      }
      SCOPED_TRACE(str(value, " of ", from));
      check(random_case(loop::parse_kernel(kernel_text(parameters, body)), {37}), 5);
    }
}

TEST(Prims, OfConstantIntegers) {
  const std::int64_t values[] = {0, -1, 2, 40, 64, std::numeric_limits<std::int64_t>::min()};
  for (std::int64_t left : values)
    for (DType dtype : {DType::i64, DType::i32, DType::i8}) {
      const std::int64_t bits = dtype == DType::i64 ? 64 : dtype == DType::i32 ? 32 : 8;
      const std::int64_t smallest = values[5] >> (64 - bits);
      std::string parameters = str("y: out ", dtype, "[n]"), body;
      for (int v = 0; v < 6; ++v)
        body += str("v", v, " = const ", v == 5 ? smallest : values[v], " : ", dtype, "\n");
      body += str("x = const ", left == values[5] ? smallest : left, " : ", dtype,
                  "\nstore y[i] = x\n");
      for (Prim prim : kPrims) {
        if (loop::arity_of(prim) != 2 || !loop::accepts(prim, dtype)) continue;
        const std::string_view name = loop::name_of(prim);
        for (int v = 0; v < 6; ++v) {
          const std::string id = str(name, v);
          parameters +=
              str(", p_", id, ": out ", *loop::result_dtype(prim, {{dtype, dtype}}), "[n]");
          body += str("r_", id, " = ", name, " x, v", v, "\nstore p_", id, "[i] = r_", id, "\n");
        }
      }
      SCOPED_TRACE(str(left, " of ", dtype));
      check(random_case(loop::parse_kernel(kernel_text(parameters, body)), {37}), 0);
    }
}

TEST(Prims, LowFloatsAreRoundedAfterEachStep) {
  for (DType d : {DType::f16, DType::bf16}) {
    // (a + b) - a loses the bits of b that the dtype can't keep.
    Case c = random_case(
        loop::parse_kernel(kernel_text(str("a: in ", d, "[n], b: in ", d, "[n], y: out ", d, "[n]"),
                                       "x = load a[i]\nz = load b[i]\ns = add x, z\nr = sub s, x\n"
                                       "store y[i] = r\n")),
        {100});
    fill(c.buffers[0], 1, 100, 300);
    check(c, 0);
    auto code = generator().compile({&c.kernel, 1}, {})[0];
    EXPECT_NE(run(c, code)[2], c.buffers[1]) << "no rounding happened";
  }
}

TEST(Prims, DenormalsAreKept) {
  Case c = random_case(loop::parse_kernel(kernel_text(
                           "a: in f32[n], y: out f32[n]",
                           "x = load a[i]\nh = const 0.5 : f32\nr = mul x, h\nstore y[i] = r\n")),
                       {40});
  for (int i = 0; i < 40; ++i) c.buffers[0].as<float>()[i] = std::ldexp(1.25f, -120 - i);
  auto code = generator().compile({&c.kernel, 1}, {})[0];
  auto got = run(c, code);
  for (int i = 0; i < 40; ++i)
    EXPECT_EQ(got[1].as<float>()[i], c.buffers[0].as<float>()[i] * 0.5f) << i;
}

}  // namespace
}  // namespace gex::codegen
