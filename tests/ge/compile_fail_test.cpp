// What the C++ compiler itself refuses: arguments of a wrong type.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

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

TEST(EsTypes, a_text_is_no_axis) { EXPECT_FALSE(compiles("Softmax(x, \"last\")")); }
TEST(EsTypes, a_text_is_no_tensor) { EXPECT_FALSE(compiles("Add(x, \"y\")")); }
TEST(EsTypes, a_tensor_is_no_attribute) { EXPECT_FALSE(compiles("Cast(x, x)")); }

}  // namespace
}  // namespace gex::test
