// Canonical forms, decisions and text of Dims, case by case.
#include "base/dim/dim.hpp"

#include <gtest/gtest.h>

#include <map>

#include "base/error.hpp"

namespace gex {
namespace {

class DimTest : public testing::Test {
 protected:
  // Expressions over sizes s0.., a positive n, and indices i<A, j<B, k<C, c<6, d<4, e<64.
  Dim operator()(std::string_view text) const {
    return parse_dim(text, [&](std::string_view name) -> std::optional<Dim> {
      auto at = names_.find(std::string(name));
      return at == names_.end() ? std::nullopt : std::optional(at->second);
    });
  }
  void expect_same(std::string_view a, std::string_view b) const {
    EXPECT_EQ((*this)(a), (*this)(b)) << a << "  against  " << b;
  }
  void expect_text(std::string_view a, std::string_view text) const {
    EXPECT_EQ((*this)(a).text(), text);
  }
  std::map<std::string, Dim> names_ = [] {
    std::map<std::string, Dim> m;
    for (const char* s : {"s0", "s1", "s2", "A", "B", "C", "D"}) m[s] = Dim::symbol(s);
    m["n"] = Dim::symbol("n", {1, DimRange::kInf});
    m["n2"] = Dim::symbol("n2", {2, DimRange::kInf});
    m["z"] = Dim::symbol("z", {-DimRange::kInf, DimRange::kInf});
    m["small"] = Dim::symbol("small", {0, 7});
    m["i"] = Dim::index("i", m["A"]);
    m["j"] = Dim::index("j", m["B"]);
    m["k"] = Dim::index("k", m["C"]);
    m["c"] = Dim::index("c", 6);
    m["d"] = Dim::index("d", 4);
    m["e"] = Dim::index("e", 64);
    m["h"] = Dim::index("h", m["s0"] * 64);  // a product as extent
    m["tile"] = Dim::index("tile", ceildiv(m["s0"], 16));
    m["lane"] = Dim::index("lane", 16);
    m["t"] = Dim::index("t", m["s0"] + 1);  // a sum as extent
    return m;
  }();
};

TEST_F(DimTest, SumsAndProductsHaveOneForm) {
  expect_same("(s0 + s1) - s1", "s0");
  expect_same("2*(s0 + 1)", "s0*2 + 2");
  expect_same("s0*s1", "s1*s0");
  expect_same("(s0 + 1)*(s1 - 1)", "s0*s1 - s0 + s1 - 1");
  expect_same("B*(s0*s1) + s2*s1 + 5", "(B*s0 + s2)*s1 + 5");
  expect_same("s0 - s0", "0");
  expect_same("(s0 + 1)*(s0 + 1)", "s0*s0 + 2*s0 + 1");
  expect_same("-(-s0)", "s0");
}

TEST_F(DimTest, OperandsAreSummandsAndFactors) {
  Dim e = (*this)("3*s0*s1 + s0 + 7");
  ASSERT_EQ(e.kind(), Dim::Kind::add);
  ASSERT_EQ(e.operands().size(), 3u);
  EXPECT_EQ(e.operands()[0], Dim(7));
  Dim product = e.operands()[1];
  ASSERT_EQ(product.kind(), Dim::Kind::mul);
  ASSERT_EQ(product.operands().size(), 3u);
  EXPECT_EQ(product.operands()[0], Dim(3));
  EXPECT_EQ(product.operands()[1], (*this)("s0"));
}

TEST_F(DimTest, DivisionByNumbers) {
  expect_same("(e*64 + d)//16", "e*4");
  expect_same("(i*64 + e)//16", "i*4 + e//16");
  expect_same("(i*64 + e) % 16", "e % 16");
  expect_same("(5*s0 + 3) % 4", "(s0 + 3) % 4");
  expect_same("(s0 - 1)//8 + 1", "(s0 + 7)//8");
  expect_same("(6*s0)//4", "s0 + s0//2");
  expect_same("(2*s0 + 1)//4", "s0//2");
  expect_same("(2*s0 + 1) % 4", "2*(s0 % 2) + 1");
  expect_same("s0//-4", "(-s0)//4");
  expect_same("s0 % -4", "-((-s0) % 4)");
  expect_same("7//-2", "-4");
  expect_same("7 % -2", "-1");
  expect_same("e//64", "0");
  expect_same("e % 64", "e");
  expect_same("(e - 64)//64", "-1");
  expect_same("small//8", "0");
  expect_same("(tile*16 + lane)//16", "tile");
  expect_same("(tile*16 + lane) % 16", "lane");
}

TEST_F(DimTest, DivisionBySizes) {
  expect_same("s0//1", "s0");
  expect_same("s0 % 1", "0");
  expect_same("0//s0", "0");
  expect_same("n//n", "1");
  expect_same("n % n", "0");
  expect_same("(s0*s1*64)//(s1*16)", "s0*4");
  expect_same("(s0//4)//8", "s0//32");
  expect_same("(s0//n)//n2", "s0//(n*n2)");
  expect_same("(s0//4 + 3)//8", "(s0 + 12)//32");
  expect_same("((s0 % 32) % 8)", "s0 % 8");
  expect_same("(s0 % (8*n)) % n", "s0 % n");
  expect_same("(s0 % (8*n))//n", "(s0//n) % 8");
  expect_same("(-1)//n", "-1");
  expect_same("(-1) % n", "n - 1");
}

TEST_F(DimTest, LinearIndexIsDecomposed) {
  expect_same("(i*B + j)//B", "i");
  expect_same("(i*B + j) % B", "j");
  expect_same("(i*B*C + j*C + k) % C", "k");
  expect_same("((i*B*C + j*C + k)//C) % B", "j");
  expect_same("((i*B*C + j*C + k) % (B*C))//C", "j");
  expect_same("(i*B*C + j*C + k)//(B*C)", "i");
  expect_same("(j*C + k) % (B*C)", "j*C + k");
  expect_same("(i*B*4 + j*4 + d)//(2*B)", "i*2 + (j*4 + d)//(2*B)");
  expect_same("(i*C + k)//(4*C)", "i//4");
  expect_same("(i*C + k) % (4*C)", "(i % 4)*C + k");
  expect_same("(i*(s0*64) + h)//(s0*64)", "i");
  expect_same("(i*(s0*64) + h) % (s0*64)", "h");
  expect_same("(i*(s0 + 1) + t)//(s0 + 1)", "i");
  expect_same("(i*(s0 + 1) + t) % (s0 + 1)", "t");
  expect_same("(i*(s0 + 1)*C + t*C + k)//(C*(s0 + 1))", "i");
  expect_same("((i*(s0 + 1)*C + t*C + k)//C) % (s0 + 1)", "t");
  expect_same("((i*(s0 + 1)*C + t*C + k) % (C*(s0 + 1)))//C", "t");
  expect_same("(i*(s0 + 1)*C + t*C + k)//(4*C*(s0 + 1))", "i//4");
}

TEST_F(DimTest, DivisionAndRemainderRecombine) {
  expect_same("8*(s0//8) + s0 % 8", "s0");
  expect_same("3*((c*4 + d)//3) + (c*4 + d) % 3", "c*4 + d");
  expect_same("s1*(s0//s1)*5 + (s0 % s1)*5", "s0*5");
  expect_same("(s1 + 1)*(s0//(s1 + 1)) + s0 % (s1 + 1)", "s0");
  // Delinearised over three dims and back.
  expect_same("(z//(n*n2))*n*n2 + ((z//n2) % n)*n2 + z % n2", "z");
  expect_same("s0 - s0 % 8", "8*(s0//8)");
  expect_same("s0 - 8*(s0//8)", "s0 % 8");
  expect_same("5*n2*s0 - 5*n2*n*(s0//n)", "5*n2*(s0 % n)");
  expect_same("s0 - (s1 + 1)*(s0//(s1 + 1))", "s0 % (s1 + 1)");
  expect_same("8*((s0 + 7)//8) - s0", "7 - (s0 + 7) % 8");
  expect_same("s0//4 - 8*(s0//32)", "(s0//4) % 8");
  expect_same("s0//4 - (s0//4) % 8", "8*(s0//32)");
  expect_same("s0//n - n2*(s0//(n*n2))", "(s0//n) % n2");
  // Only where the factors agree.
  EXPECT_EQ((*this)("n*(5//n)").kind(), Dim::Kind::mul);
  EXPECT_NE((*this)("4*(s0//8) + s0 % 8"), (*this)("s0"));
}

TEST_F(DimTest, ReshapeToUnalignedFactorsAndBack) {
  Dim linear = (*this)("c*4 + d");  // [6, 4] -> [8, 3] -> [6, 4]
  Dim p = floordiv(linear, 3), q = mod(linear, 3);
  Dim back = p * 3 + q;
  EXPECT_EQ(floordiv(back, 4), (*this)("c"));
  EXPECT_EQ(mod(back, 4), (*this)("d"));
}

TEST_F(DimTest, MinAndMax) {
  expect_same("min(s0, s0)", "s0");
  expect_same("min(s0, s1)", "min(s1, s0)");
  expect_same("min(s0, min(s1, s2))", "min(min(s2, s0), s1)");
  expect_same("max(n2, 1)", "n2");
  expect_same("max(n2, 2)", "n2");
  expect_same("min(small, 7)", "small");
  expect_same("min(small, 8)", "small");
  expect_same("min(s0, max(s0, s1))", "s0");
  expect_same("max(s0, 0)", "s0");
  expect_same("min(s0, s0 + s1)", "s0");
  expect_same("max(z, z - 1)", "z");
  EXPECT_EQ((*this)("min(s0, 4)").kind(), Dim::Kind::min);
  EXPECT_EQ((*this)("max(s0, 1)").kind(), Dim::Kind::max);
}

struct Decision {
  const char* a;
  const char* b;
  std::optional<bool> lt, le, eq;
};

TEST_F(DimTest, Decisions) {
  std::optional<bool> yes = true, no = false, open;
  const Decision table[] = {
      {"s0", "s0", no, yes, yes},
      {"s0", "s0 + 1", yes, yes, no},
      {"s0", "s1", open, open, open},
      {"small", "8", yes, yes, no},
      {"small", "7", open, yes, open},
      {"8", "small", no, no, no},
      {"i", "A", yes, yes, no},
      {"i*B + j", "A*B", yes, yes, no},
      {"i*B*C + j*C + k", "A*B*C", yes, yes, no},
      {"i*B + j + 1", "A*B", open, yes, open},
      {"h + 63", "s0*64", open, open, open},
      {"t", "s0", open, yes, open},
      {"A - 1 - i", "A", yes, yes, no},
      {"0", "A - 1 - i", open, yes, open},
      {"s0", "n*s0", open, yes, open},
      {"s0 % n", "n", yes, yes, no},
      {"z % n", "n", yes, yes, no},
      {"(z % n)*A + i", "n*A", yes, yes, no},
      {"i//4", "(A + 3)//4", yes, yes, no},
      {"(i + 3)//4", "(A + 6)//4", yes, yes, no},
      {"i//n", "(A + n - 1)//n", yes, yes, no},
      {"tile*16 + lane", "s0", open, open, open},
      {"tile*16 + lane", "s0 + 15", yes, yes, no},
      {"tile*16", "s0", yes, yes, no},
      {"0", "s0 - tile*16", yes, yes, no},
      {"0", "min(16, s0 - tile*16)", yes, yes, no},
      {"tile*16 + lane", "16*((s0 + 15)//16)", yes, yes, no},
      {"h//16", "s0*4", yes, yes, no},
      {"8*(s0//8)", "s0", open, yes, open},
      {"s0", "8*((s0 + 7)//8)", open, yes, open},
      {"16*s0 - s0 % 16 - 15*s0", "16*(s0//16)", no, yes, yes},
      {"2*s0 - 16*(s0//16)", "s0 + s0 % 16", no, yes, yes},
      {"min(s0 + 1, 5)", "min(s0, 4) + 1", no, yes, yes},
      {"min(s0, s1)", "s1", open, yes, open},
      {"min(s0, 4)", "5", yes, yes, no},
      {"s0", "max(s0, s1)", open, yes, open},
      {"min(i, j)", "B", yes, yes, no},
      {"0", "n", yes, yes, no},
      {"0", "s0", open, yes, open},
      {"0", "(s0 + 1)*(s1 + 1)", yes, yes, no},
      {"s0*s1 + 1", "s0 + s1", open, open, open},
      {"n + n2", "n*n2 + 1", open, yes, open},
      {"z", "z*z", open, open, open},
  };
  for (const Decision& d : table) {
    Dim a = (*this)(d.a), b = (*this)(d.b);
    EXPECT_EQ(known_lt(a, b), d.lt) << d.a << " < " << d.b;
    EXPECT_EQ(known_le(a, b), d.le) << d.a << " <= " << d.b;
    EXPECT_EQ(known_eq(a, b), d.eq) << d.a << " == " << d.b;
  }
}

TEST_F(DimTest, RangesByIntervalArithmetic) {
  auto range = [&](const char* text) { return (*this)(text).range(); };
  EXPECT_EQ(range("small*2 + 1"), (DimRange{1, 15}));
  EXPECT_EQ(range("-small"), (DimRange{-7, 0}));
  EXPECT_EQ(range("small*small - 3"), (DimRange{-3, 46}));
  EXPECT_EQ(range("s0 % 8"), (DimRange{0, 7}));
  EXPECT_EQ(range("s0//8").lo, 0);
  EXPECT_EQ(range("(s0 + 16)//8").lo, 2);
  EXPECT_EQ(range("min(s0, 4)"), (DimRange{0, 4}));
  EXPECT_EQ(range("max(z, 4)"), (DimRange{4, DimRange::kInf}));
  EXPECT_EQ(range("s0*1000000000000").hi, DimRange::kInf);
  EXPECT_EQ(range("100//n"), (DimRange{0, 100}));
}

TEST_F(DimTest, TextIsReadable) {
  expect_text("8*s0 + 1", "s0*8 + 1");
  expect_text("(s0 + 7)//8", "(s0 + 7)//8");
  expect_text("min(4, s0)", "min(s0, 4)");
  expect_text("s0 % 8", "s0 % 8");
  expect_text("1 - s0", "-s0 + 1");
  expect_text("-(s0//8)", "-(s0//8)");
  expect_text("s1 - s0//8", "s1 - s0//8");
  expect_text("3*(s0//8)", "(s0//8)*3");
  expect_text("i*B + j", "B*i + j");
  expect_text("-s0*s1 - 2", "-s0*s1 - 2");
  expect_text("max(s2, max(s1, s0))", "max(s0, s1, s2)");
  expect_text("(s0 % 8)//3", "(s0 % 8)//3");
  expect_text("-9223372036854775808", "-9223372036854775808");
  EXPECT_EQ((Dim::symbol("s10") + Dim::symbol("s2")).text(), "s2 + s10");
}

TEST_F(DimTest, ParseErrorsNameTheToken) {
  auto message = [&](const char* text) -> std::string {
    try {
      (*this)(text);
    } catch (const UserError& e) {
      EXPECT_EQ(e.code(), ErrorCode::parse_error);
      return e.what();
    }
    return "no error";
  };
  EXPECT_NE(message("s0 + q7").find("'q7'"), std::string::npos);
  EXPECT_NE(message("s0 + ").find("the end"), std::string::npos);
  EXPECT_NE(message("(s0").find("')'"), std::string::npos);
  EXPECT_NE(message("s0 s1").find("'s1'"), std::string::npos);
  EXPECT_NE(message("99999999999999999999").find("64-bit"), std::string::npos);
  EXPECT_NE(message(std::string(5000, '(').c_str()).find("nested"), std::string::npos);
  EXPECT_NE(message(std::string(5000, '-').c_str()).find("the end"), std::string::npos);
}

TEST_F(DimTest, BadInputIsAUserError) {
  EXPECT_THROW(floordiv((*this)("s0"), 0), UserError);
  EXPECT_THROW(mod((*this)("s0"), 0), UserError);
  EXPECT_THROW(Dim::symbol("1x"), UserError);
  EXPECT_THROW(Dim::symbol("min"), UserError);
  EXPECT_THROW(Dim::symbol("x", {3, 2}), UserError);
  EXPECT_THROW(Dim(INT64_MAX) + 1, UserError);
  EXPECT_THROW(Dim(INT64_MAX) * (*this)("s0") * 2, UserError);
  EXPECT_THROW((void)(*this)("s0").constant(), InternalError);
  EXPECT_THROW((void)(*this)("s0*2").name(), InternalError);
}

TEST_F(DimTest, EvalChecksOverflowAndDivision) {
  auto at = [](std::int64_t v) { return [v](Dim) { return v; }; };
  EXPECT_EQ((*this)("(s0 + 7)//8*8").eval(at(13)), 16);
  EXPECT_EQ((*this)("z//4").eval(at(-1)), -1);
  EXPECT_EQ((*this)("z % 4").eval(at(-1)), 3);
  EXPECT_THROW((*this)("s0*s0").eval(at(INT64_MAX / 2)), UserError);
  EXPECT_THROW((*this)("s0 + 1").eval(at(INT64_MAX)), UserError);
  EXPECT_THROW((*this)("5//s0").eval(at(0)), UserError);
  EXPECT_THROW((*this)("5 % s0").eval(at(0)), UserError);
}

TEST_F(DimTest, SubstituteRebuildsCanonically) {
  Dim e = (*this)("(s0*s1 + s2)//s1 + min(s0, 8)");
  Dim s1 = (*this)("s1"), s2 = (*this)("s2"), s0 = (*this)("s0");
  EXPECT_EQ(e.substitute([&](Dim s) { return s == s2 ? std::optional(Dim(0)) : std::nullopt; }),
            s0 + min(s0, 8));
  EXPECT_EQ(e.substitute([&](Dim s) { return std::optional(Dim(s == s1 ? 2 : 3)); }),
            Dim(3 + 1 + 3));
  EXPECT_EQ(e.substitute([](Dim) { return std::nullopt; }), e);
}

TEST_F(DimTest, DependenceAndSymbols) {
  Dim e = (*this)("s1*(s0//3) + min(s2, s0)");
  EXPECT_TRUE(e.depends_on((*this)("s0")));
  EXPECT_FALSE(e.depends_on((*this)("A")));
  std::vector<Dim> symbols;
  e.collect_symbols(symbols);
  EXPECT_EQ(symbols.size(), 3u);
}

TEST_F(DimTest, AffineParts) {
  auto parts = affine_in((*this)("i*B*C + j*C + 3*i + k"), (*this)("i"));
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->coefficient, (*this)("B*C + 3"));
  EXPECT_EQ(parts->rest, (*this)("j*C + k"));
  EXPECT_EQ(affine_in((*this)("s0"), (*this)("i"))->coefficient, Dim(0));
  EXPECT_FALSE(affine_in((*this)("i*i"), (*this)("i")));
  EXPECT_FALSE(affine_in((*this)("i//3 + i"), (*this)("i")));
}

TEST_F(DimTest, SymbolsAreEqualIfNameAndBoundsAre) {
  EXPECT_EQ(Dim::symbol("q", {1, 5}), Dim::symbol("q", {1, 5}));
  EXPECT_NE(Dim::symbol("q", {1, 5}), Dim::symbol("q", {1, 6}));
  EXPECT_EQ(Dim::index("q", 5), Dim::index("q", 5));
  EXPECT_NE(Dim::index("q", 5), Dim::index("q", 6));
  EXPECT_NE(Dim::index("q", 5), Dim::symbol("q", {0, 4}));
  EXPECT_EQ(Dim::index("q", (*this)("s0")).extent(), (*this)("s0"));
}

TEST_F(DimTest, HashIsTheSameInEveryProcess) {
  // A fixed value: a change means that every cache keyed by it is stale.
  EXPECT_EQ((*this)("(s0 + 7)//8*s1 + 3").hash(), (*this)("3 + s1*((7 + s0)//8)").hash());
  EXPECT_EQ(hash_text("gex"), Hash{15616201700983921617u});
  EXPECT_EQ((*this)("(s0 + 7)//8*s1 + 3").hash(), Hash{18349132200898345818u});
}

}  // namespace
}  // namespace gex
