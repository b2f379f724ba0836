// Runs every conformance case over every driver that can be opened here.

#include "harness.hpp"
#include "runtime/device.hpp"

namespace gex::runtime::testing {
namespace {

class Conformance : public ::testing::TestWithParam<std::tuple<std::string, std::size_t>> {};

TEST_P(Conformance, holds) {
  const auto& [driver, number] = GetParam();
  conformance_cases()[number].body(driver);
}

std::vector<std::size_t> numbers() {
  std::vector<std::size_t> out(conformance_cases().size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = i;
  return out;
}

INSTANTIATE_TEST_SUITE_P(drivers, Conformance,
                         ::testing::Combine(::testing::ValuesIn(available_drivers()),
                                            ::testing::ValuesIn(numbers())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  conformance_cases()[std::get<1>(info.param)].name;
                         });

TEST(Conformance, null_and_cpu_are_always_available) {
  const std::vector<std::string> drivers = available_drivers();
  EXPECT_EQ(std::count(drivers.begin(), drivers.end(), "null"), 1);
  EXPECT_EQ(std::count(drivers.begin(), drivers.end(), "cpu"), 1);
}

}  // namespace
}  // namespace gex::runtime::testing
