#include <bit>
#include <cmath>
#include <limits>

#include "base/tensor.hpp"
#include "kernel_test.hpp"
#include "loop/builder.hpp"
#include "loop/scalar.hpp"

namespace gex::loop {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

class Builder : public testing::Test {
 protected:
  Scalar x(DType d = DType::f32) { return s.load(0, d, {}); }
  std::vector<Expr> exprs;
  ScalarBuilder s{exprs};
};

TEST_F(Builder, EqualExpressionsShareOneId) {
  Scalar a = s.add(x(), s.constant(DType::f32, 2));
  Scalar b = s.add(x(), s.constant(DType::f32, 2));
  EXPECT_EQ(a.id, b.id);
  EXPECT_NE(a.id, s.add(x(), s.constant(DType::f32, 3)).id);
}

TEST_F(Builder, GoesOnSharingInAnExistingStage) {
  Scalar a = s.mul(x(), x());
  ScalarBuilder again(exprs);
  EXPECT_EQ(again.mul(again.load(0, DType::f32, {}), again.load(0, DType::f32, {})).id, a.id);
}

TEST_F(Builder, ZeroAndMinusZeroAreTwoConstantsAndNaNIsOne) {
  EXPECT_NE(s.constant(DType::f32, 0.0).id, s.constant(DType::f32, -0.0).id);
  EXPECT_EQ(s.constant(DType::f32, NAN).id, s.constant(DType::f32, -NAN).id);
}

TEST_F(Builder, ConstantsAreRoundedToTheirDtype) {
  EXPECT_EQ(s.expr(s.constant(DType::f32, 0.1)).imm, double(0.1f));
  EXPECT_EQ(s.expr(s.constant(DType::f16, 2049)).imm, 2048);
  EXPECT_EQ(s.expr(s.constant_int(DType::i8, 200)).imm_int, -56);
  EXPECT_EQ(s.expr(s.constant(DType::i32, 2.9)).imm_int, 2);
}

TEST_F(Builder, FoldsExactPrimitivesButLeavesTranscendentalsToTheBackend) {
  Scalar three = s.add(s.constant(DType::f32, 1), s.constant(DType::f32, 2));
  EXPECT_EQ(s.expr(three).imm, 3);
  EXPECT_EQ(s.expr(s.unary(Prim::exp, three)).kind, Expr::Kind::prim);
  EXPECT_TRUE(
      s.is_true(s.binary(Prim::lt, s.constant_int(DType::i64, 1), s.constant_int(DType::i64, 2))));
}

TEST_F(Builder, AddingPositiveZeroStaysBecauseItChangesMinusZero) {
  EXPECT_NE(s.add(x(), s.constant(DType::f32, 0.0)).id, x().id);
  EXPECT_EQ(s.add(x(), s.constant(DType::f32, -0.0)).id, x().id);
  EXPECT_NE(s.mul(x(), s.constant(DType::f32, 0.0)).id, s.constant(DType::f32, 0.0).id);
}

TEST_F(Builder, OperandsOfDifferentDtypesAreAnError) {
  EXPECT_THROW(s.add(x(), s.constant(DType::f64, 1)), UserError);
  EXPECT_THROW(s.unary(Prim::sqrt, s.constant_int(DType::i64, 4)), UserError);
}

TEST_F(Builder, CastsThroughAWiderTypeDisappear) {
  Scalar half = s.load(0, DType::f16, {});
  EXPECT_EQ(s.cast(s.cast(half, DType::f32), DType::f16).id, half.id);
  Scalar f = x();
  EXPECT_NE(s.cast(s.cast(f, DType::f16), DType::f32).id, f.id);
  Scalar i = s.load(1, DType::i64, {});
  EXPECT_NE(s.cast(s.cast(i, DType::f64), DType::i64).id, i.id);  // 53 bits do not hold 63
}

TEST_F(Builder, IndexArithmeticStaysSymbolic) {
  Dim n = Dim::symbol("n");
  Dim i = Dim::index("i", n);
  Scalar four = s.constant_int(DType::i64, 4);
  Scalar e = s.add(s.mul(s.index(i), four), s.constant_int(DType::i64, 1));
  EXPECT_EQ(s.as_dim(e), i * 4 + 1);
  EXPECT_EQ(s.as_dim(s.constant_int(DType::i64, 7)), Dim(7));
}

TEST_F(Builder, LoadedIndicesBecomeValueSymbolsAndComeBack) {
  Scalar id = s.load(0, DType::i64, {});
  Dim d = s.as_dim(id, {0, 9});
  EXPECT_EQ(value_symbol_id(d), id.id);
  EXPECT_EQ(d.range(), (DimRange{0, 9}));
  EXPECT_EQ(s.as_dim(id), d);  // the first range counts
  EXPECT_EQ(s.index(d).id, id.id);
}

TEST_F(Builder, InBoundsIsConstantWhereProvable) {
  Dim n = Dim::symbol("n", {1, 100});
  Dim i = Dim::index("i", n);
  EXPECT_TRUE(s.is_true(s.in_bounds(i, 0, n)));
  EXPECT_FALSE(s.is_true(s.in_bounds(i + 1, 0, n)));
  Scalar never = s.in_bounds(i + n, 0, n);
  EXPECT_EQ(s.expr(never).kind, Expr::Kind::constant);
  EXPECT_FALSE(s.is_true(never));
}

TEST_F(Builder, LoadBehindAConstantPredicate) {
  Scalar fill = s.constant(DType::f32, 5);
  EXPECT_EQ(s.load(0, DType::f32, {}, s.constant_int(DType::boolean, 0), fill).id, fill.id);
  EXPECT_EQ(s.load(0, DType::f32, {}, s.constant_int(DType::boolean, 1), fill).id, x().id);
}

// Every rule of the builder against the plain primitive, on the values where rules go wrong.
std::vector<double> special_values(DType d) {
  if (d == DType::boolean) return {0, 1};
  if (!is_float(d)) return {0, 1, 2, 3, 127, -1, -2, -128, 255};
  return {0.0, -0.0, 1, -1, 2, 0.5, -2.5, kInf, -kInf, NAN};
}

class EveryPrimitive : public testing::TestWithParam<DType> {};

TEST_P(EveryPrimitive, SimplifiedFormHasTheBitsOfThePlainOne) {
  DType d = GetParam();
  int compared = 0;
  for (int p = 0; p <= static_cast<int>(Prim::philox); ++p) {
    auto prim = static_cast<Prim>(p);
    if (!accepts(prim, d) || arity_of(prim) == 3) continue;
    for (double xv : special_values(d))
      for (double cv : special_values(d))
        for (int form = 0; form < 4; ++form) {  // x?c, c?x, x?x, op(op(x, c), c)
          Kernel kernel;
          kernel.name = "k";
          DType out = *result_dtype(prim, std::vector<DType>(arity_of(prim), d));
          kernel.buffers = {{"x", Buffer::Role::in, d, {}, {}},
                            {"y", Buffer::Role::out, out, {}, {}}};
          auto& stage = kernel.stages.emplace_back();
          ScalarBuilder s(stage.exprs);
          Scalar x = s.load(0, d, {}), c = s.constant(d, cv);
          auto apply = [&](Scalar a, Scalar b) {
            return arity_of(prim) == 1 ? s.unary(prim, a) : s.binary(prim, a, b);
          };
          if (form == 3 && out != d) continue;
          Scalar result = form == 0   ? apply(x, c)
                          : form == 1 ? apply(c, x)
                          : form == 2 ? apply(x, x)
                                      : apply(apply(x, c), c);
          stage.stores.push_back({1, {}, result.id});
          verify(kernel);
          HostTensor in = HostTensor::scalar(d, xv), got(out, {});
          run(kernel, {in.data(), got.data()}, {});

          ScalarValue xs = load_scalar(d, in.data(), 0), cs = value_of(s.expr(c));
          auto plain = [&](ScalarValue a, ScalarValue b) {
            return normalise(out, prim_function(prim, d)(a, b, b));
          };
          ScalarValue want = form == 0   ? plain(xs, cs)
                             : form == 1 ? plain(cs, xs)
                             : form == 2 ? plain(xs, xs)
                                         : plain(plain(xs, cs), cs);
          ScalarValue value = load_scalar(out, got.data(), 0);
          bool both_nan = is_float(out) && std::isnan(value.f) && std::isnan(want.f);
          EXPECT_TRUE(both_nan || value.i == want.i)
              << name_of(prim) << " form " << form << " x=" << xv << " c=" << cv << "\n"
              << print(kernel);
          ++compared;
        }
  }
  EXPECT_GT(compared, 100);
}
INSTANTIATE_TEST_SUITE_P(AllDtypes, EveryPrimitive,
                         testing::Values(DType::f64, DType::f32, DType::f16, DType::bf16,
                                         DType::i64, DType::i32, DType::i16, DType::i8, DType::u8,
                                         DType::boolean),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Casts, SimplifiedChainsHaveTheBitsOfThePlainOnes) {
  for (int a = 0; a < kDTypeCount; ++a)
    for (int b = 0; b < kDTypeCount; ++b)
      for (int c = 0; c < kDTypeCount; ++c)
        for (double v : special_values(static_cast<DType>(a))) {
          auto da = static_cast<DType>(a), db = static_cast<DType>(b), dc = static_cast<DType>(c);
          Kernel kernel;
          kernel.name = "k";
          kernel.buffers = {{"x", Buffer::Role::in, da, {}, {}},
                            {"y", Buffer::Role::out, dc, {}, {}}};
          auto& stage = kernel.stages.emplace_back();
          ScalarBuilder s(stage.exprs);
          Scalar y = s.cast(s.cast(s.load(0, da, {}), db), dc);
          stage.stores.push_back({1, {}, y.id});
          HostTensor in = HostTensor::scalar(da, v), got(dc, {}), want(dc, {});
          run(kernel, {in.data(), got.data()}, {});
          store_scalar(dc, want.data(), 0,
                       convert(convert(load_scalar(da, in.data(), 0), da, db), db, dc));
          EXPECT_EQ(got, want) << da << "->" << db << "->" << dc << " of " << v;
        }
}

}  // namespace
}  // namespace gex::loop
