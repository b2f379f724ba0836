// What the C++ compiler itself rejects: arguments of a wrong type.

#include <gtest/gtest.h>
#include <gex/es.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace gex::test {
namespace {

bool compiles(const std::string& statement) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("gex_snippet_" + std::to_string(std::rand()) + ".cpp");
  std::ofstream(path) << "#include <gex/es.hpp>\nusing namespace gex::es;\n"
                         "void f(EsGraphBuilder& builder, EsTensorHolder x) {\n"
                         "  (void)builder;\n  "
                      << statement << ";\n}\n";
  const std::string command = std::string(GEX_CXX) + " -std=c++20 -fsyntax-only -I" +
                              GEX_SOURCE_DIR + "/include -I" + GEX_BUILD_DIR + "/include " +
                              path.string() + " 2>/dev/null";
  const int status = std::system(command.c_str());
  std::filesystem::remove(path);
  return status == 0;
}

TEST(EsTypes, right_types_compile) {
  EXPECT_TRUE(
      compiles("Softmax(x, -1); Cat({x, 1.5, x}, 0); Reshape(x, {\"s0\", 4}); "
               "Where(x, 0, std::vector<float>{1}); Iota(builder, 4)"));
}

TEST(EsTypes, a_string_is_not_an_axis) { EXPECT_FALSE(compiles("Softmax(x, \"last\")")); }

// The same check in the compiler that builds this test: much faster.
template <class T>
concept IsOperand = requires(es::EsTensorHolder x, T t) { es::Add(x, t); };
template <class T>
concept IsDType = requires(es::EsTensorHolder x, T t) { es::Cast(x, t); };
template <class T>
concept IsAddend = requires(es::EsTensorHolder x, T t) { x + t; };

TEST(EsTypes, operands_are_tensors_numbers_and_vectors_of_them) {
  EXPECT_TRUE((IsOperand<es::EsTensorHolder> && IsOperand<int> && IsOperand<std::vector<float>>));
  EXPECT_TRUE((IsAddend<es::EsTensorHolder> && IsAddend<double> && IsAddend<std::vector<int>>));
  EXPECT_FALSE((IsOperand<const char*> || IsOperand<es::DType> || IsOperand<std::string>));
  EXPECT_FALSE((IsAddend<const char*> || IsAddend<es::DType> || IsAddend<std::string>));
}

TEST(EsTypes, attributes_have_their_own_types) {
  EXPECT_TRUE(IsDType<es::DType>);
  EXPECT_FALSE((IsDType<es::EsTensorHolder> || IsDType<int> || IsDType<const char*>));
}

}  // namespace
}  // namespace gex::test
