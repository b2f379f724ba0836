// Conformance: constants in memory that is given to the Session once.

#include "harness.hpp"

namespace gex::runtime::testing {
namespace {

GEX_TEST_KERNEL(add_frozen, {
  ((float*)buffers[2])[point] =
      ((const float*)buffers[0])[point] + ((const float*)buffers[1])[point];
})

const char* const kBiased = R"(program "biased"
input 0 "x" f32 [3] -> %0
output 0 "y" fresh f32 [3] -> %2
buffer %0 "x" input 0 f32 [3] bytes [12]
buffer %1 "bias" constant f32 [3] bytes [12] frozen 0
buffer %2 "y" output 0 f32 [3] bytes [12]
code 0 "add_frozen"
main 0
segment 0 "main"
  launch "add_frozen" code 0 read %0 read %1 write %2 grid [3]
)";

std::shared_ptr<const void> memory_of(std::vector<float> values) {
  auto owner = std::make_shared<std::vector<float>>(std::move(values));
  return {owner, owner->data()};
}

CONFORMANCE(frozen_memory_is_read_without_being_an_input) {
  SessionOptions options{.driver = driver};
  options.frozen = {memory_of({10, 20, 30})};
  Session session(load_program(kBiased, driver), options);
  options.frozen.clear();  // the Session keeps it alive
  for (int call = 0; call < 3; ++call) {
    TestHost host(driver);
    const Tensor x = Tensor::f32(driver, {3}, {1, 2, 3});
    const InputArg inputs[] = {x.arg()};
    session.run(inputs, host);
    EXPECT_COMPUTED(host.f32(0), (std::vector<float>{11, 22, 33}));
  }
}

CONFORMANCE(missing_frozen_memory_is_named) {
  const std::string message =
      error_of([&] { Session session(load_program(kBiased, driver), {.driver = driver}); });
  EXPECT_HAS(message, "frozen memory 0 for \"bias\"");
}

}  // namespace
}  // namespace gex::runtime::testing
