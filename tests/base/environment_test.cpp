#include "base/environment.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.hpp"

namespace gex::test {
namespace {

TEST(Environment, SwitchesAreZeroOneOrUnset) {
  constexpr const char* kName = "GEX_TEST_SWITCH";
  ::unsetenv(kName);
  EXPECT_EQ(switch_in_environment(kName), std::nullopt);
  ::setenv(kName, "", 1);
  EXPECT_EQ(switch_in_environment(kName), std::nullopt);
  ::setenv(kName, "0", 1);
  EXPECT_EQ(switch_in_environment(kName), false);
  ::setenv(kName, "1", 1);
  EXPECT_EQ(switch_in_environment(kName), true);
  ::setenv(kName, "yes", 1);
  EXPECT_THROW(switch_in_environment(kName), UserError);
  ::unsetenv(kName);
}

}  // namespace
}  // namespace gex::test
