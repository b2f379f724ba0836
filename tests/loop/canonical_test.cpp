#include "kernel_test.hpp"

namespace gex::loop {
namespace {

const char* kAdd = R"(symbols %1 in [2, 64], %2
kernel %n(%a: in f32[%1, %2], %b: out f32[%1, %2]) grid(%i < %1) {
  stage %n domain(%j < %2) { v = load %a[%i, %j]  w = mul(v, %c)  store %b[%i, %j] = w } })";

std::string with(std::vector<std::pair<std::string, std::string>> names) {
  std::string text = kAdd;
  for (const auto& [from, to] : names)
    for (std::size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
  return text;
}

Kernel first() {
  return parse_kernel(with({{"%1", "s3"},
                            {"%2", "s0"},
                            {"%n", "layer1"},
                            {"%a", "x"},
                            {"%b", "y"},
                            {"%i", "row"},
                            {"%j", "col"},
                            {"%c", "2"}}));
}
Kernel second(const std::string& factor = "2") {
  return parse_kernel(with({{"%1", "batch"},
                            {"%2", "width"},
                            {"%n", "other"},
                            {"%a", "in"},
                            {"%b", "result"},
                            {"%i", "a"},
                            {"%j", "b"},
                            {"%c", factor}}));
}

TEST(Canonical, NamesDoNotMatter) {
  std::vector<Dim> a, b;
  EXPECT_NE(first(), second());
  EXPECT_EQ(canonical(first(), a), canonical(second(), b));
  EXPECT_EQ(structural_hash(first()), structural_hash(second()));
  ASSERT_EQ(a.size(), 2u);
  EXPECT_EQ(a[0].name(), "s3");
  EXPECT_EQ(a[1].name(), "s0");
  EXPECT_EQ(b[0].name(), "batch");
}

TEST(Canonical, ConstantsShapesAndRangesMatter) {
  EXPECT_NE(structural_hash(first()), structural_hash(second("3")));
  Kernel k = first();
  k.buffers[0].strides = {1, k.buffers[0].shape[0]};
  EXPECT_NE(structural_hash(first()), structural_hash(k));
}

TEST(Canonical, SwappedSymbolsAreRenamedTogether) {
  Kernel k = parse_kernel(R"(
kernel k(x: in f32[s1, s0], y: out f32[s0, s1]) grid(i < s0, j < s1) {
  stage { v = load x[j, i]  store y[i, j] = v } })");
  std::vector<Dim> symbols;
  Kernel c = canonical(k, symbols);
  EXPECT_EQ(symbols[0].name(), "s1");
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, y(6), z(6);
  run(k, {x.data(), y.data()}, {2, 3});
  run(c, {x.data(), z.data()}, {2, 3});
  EXPECT_EQ(y, z);
  EXPECT_EQ(y, (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(Canonical, OfACanonicalKernelIsItself) {
  std::vector<Dim> symbols;
  Kernel once = canonical(first(), symbols);
  EXPECT_EQ(canonical(once, symbols), once);
}

}  // namespace
}  // namespace gex::loop
