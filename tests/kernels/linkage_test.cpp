// Code compiled for AVX-512 must not be able to replace functions that the rest of the program
// calls on machines without it.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace {

TEST(Linkage, variants_share_no_weak_symbols) {
  const std::filesystem::path objects =
      GEX_BUILD_DIR "/CMakeFiles/gex_layer_kernels.dir/src/backend/cpu/kernels";
  int checked = 0;
  for (const char* variant : {"baseline", "avx2", "avx512"}) {
    const auto object = objects / (std::string("variant_") + variant + ".cpp.o");
    if (!std::filesystem::exists(object)) continue;
    FILE* pipe = popen(("nm --defined-only " + object.string() + " 2>/dev/null").c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    char line[4096];
    bool found_variant = false;
    while (std::fgets(line, sizeof line, pipe)) {
      char kind = 0;
      char name[4096] = {};
      if (std::sscanf(line, "%*s %c %4095s", &kind, name) != 2) continue;
      // A pointer to the language's own function; compilers make it where destructors must run.
      if (std::string(name).starts_with("DW.ref.")) continue;
      EXPECT_EQ(std::string("WwVvu").find(kind), std::string::npos) << variant << ": " << name;
      found_variant |= std::string(name).ends_with("7variantE");
    }
    if (pclose(pipe) != 0) GTEST_SKIP() << "no nm to look with";
    EXPECT_TRUE(found_variant) << variant;
    ++checked;
  }
  EXPECT_GT(checked, 0) << "no object files at " << objects;
}

}  // namespace
