// The passes that backends switch for their targets.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/backend.hpp"
#include "passes/pipeline.hpp"

namespace gex::test {
namespace {

TEST(PassSwitches, NameBuiltInPasses) {
  const backend::PassSwitches switches = backend::backend_for(Target::Kind::cuda).pass_switches();
  EXPECT_FALSE(switches.disabled.empty());
  EXPECT_FALSE(switches.enabled.empty());
  for (const auto* names : {&switches.disabled, &switches.enabled})
    for (const std::string& name : *names)
      EXPECT_EQ(std::ranges::count(passes::builtin_passes(), name, &passes::Pass::name), 1) << name;
}

}  // namespace
}  // namespace gex::test
