// Runs, without GoogleTest, the conformance suite over the CUDA drivers (and null and cpu beside
// them) and every test whose suite's name begins with Cuda. Exit code 1 if anything failed or there
// is no GPU. An argument is a regular expression: of the cases (driver/case) and tests (Suite.test)
// those run in whose names it is found.

#include <algorithm>
#include <chrono>
#include <regex>

#include "../../runtime/harness.hpp"
#include "runtime/device.hpp"

namespace {

struct Count {
  int passed = 0, failed = 0, skipped = 0;
};

void run(const std::string& name, const std::function<void()>& body, Count& count) {
  ::testing::failures = 0;
  ::testing::skipped = false;
  const auto start = std::chrono::steady_clock::now();
  try {
    body();
  } catch (const std::exception& error) {
    ::testing::Failure(__FILE__, __LINE__) << "exception: " << error.what();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const bool bad = ::testing::failures > 0;
  const bool skipped = ::testing::skipped;
  ++(bad ? count.failed : skipped ? count.skipped : count.passed);
  std::cout << (bad       ? "FAILED  "
                : skipped ? "skipped "
                          : "ok      ")
            << name << " (" << static_cast<int>(took.count() * 1000) << " ms)" << std::endl;
}

}  // namespace

int main(int count_of_arguments, char** arguments) {
  using gex::runtime::available_drivers;
  using gex::runtime::open_device;
  Count total;
  const std::regex chosen(count_of_arguments > 1 ? arguments[1] : "");
  const auto is_chosen = [&](const std::string& name) { return std::regex_search(name, chosen); };
  const std::vector<std::string> drivers = available_drivers();
  for (const std::string& driver : drivers) {
    Count count;
    for (const auto& one : gex::runtime::testing::conformance_cases())
      if (is_chosen(driver + "/" + one.name))
        run(driver + "/" + one.name, [&] { one.body(driver); }, count);
    std::cout << "conformance over " << driver << ": " << count.passed << " passed, "
              << count.failed << " failed" << std::endl;
    total.passed += count.passed;
    total.failed += count.failed;
    total.skipped += count.skipped;
  }
  for (const auto& test : ::testing::registered())
    if (test.suite.rfind("Cuda", 0) == 0 && is_chosen(test.suite + "." + test.name))
      run(test.suite + "." + test.name, test.body, total);
  const bool gpu = std::count(drivers.begin(), drivers.end(), "cuda_graph") == 1;
  if (!gpu) {
    ++total.failed;
    try {
      open_device("cuda_graph");
    } catch (const gex::UserError& error) {
      std::cout << "NO GPU: " << error.what() << std::endl;
    }
  }
  std::cout << total.passed << " passed, " << total.failed << " failed, " << total.skipped
            << " skipped" << std::endl;
  return total.failed == 0 ? 0 : 1;
}
