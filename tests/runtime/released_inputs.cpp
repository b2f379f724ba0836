// Conformance: inputs that the host releases at their last use.

#include "harness.hpp"

namespace gex::runtime::testing {
namespace {

GEX_TEST_KERNEL(double_it, { ((float*)buffers[1])[point] = ((const float*)buffers[0])[point] * 2; })
GEX_TEST_KERNEL(sum_up, {
  ((float*)buffers[2])[point] =
      ((const float*)buffers[0])[point] + ((const float*)buffers[1])[point];
})

// z = 2 * x + y; w = 2 * z. x is needed by the first launch, y by the second, k is kept.
const char* const kText = R"(program "released"
symbol s0 in [0, 10000000]
input 0 "x" f32 [s0] -> %0 released
input 1 "y" f32 [s0] -> %1 released
input 2 "k" f32 [s0] -> %2
output 0 "w" fresh f32 [s0] -> %3
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" input 1 f32 [s0] bytes [s0*4]
buffer %2 "k" input 2 f32 [s0] bytes [s0*4]
buffer %3 "w" output 0 f32 [s0] bytes [s0*4]
buffer %4 "t" temp f32 [s0] bytes [s0*4]
buffer %5 "z" temp f32 [s0] bytes [s0*4]
code 0 "double_it"
code 1 "sum_up"
main 0
segment 0 "main"
  launch "double_it" code 0 read %0 write %4 grid [s0] work [s0]
  launch "sum_up" code 1 read %4 read %1 write %5 grid [s0] work [s0]
  launch "sum_up" code 1 read %5 read %2 write %4 grid [s0] work [s0]
  launch "double_it" code 0 read %4 write %3 grid [s0] work [s0]
)";

// Overwrites inputs that are reported as no longer needed.
class ForgetfulHost : public TestHost {
 public:
  ForgetfulHost(const std::string& driver, std::vector<Tensor*> inputs)
      : TestHost(driver), inputs_(std::move(inputs)) {}
  std::vector<int> let_go;
  void release_input(int input) override {
    let_go.push_back(input);
    DeviceArray& memory = inputs_[static_cast<std::size_t>(input)]->memory;
    memory.upload(std::vector<std::byte>(memory.bytes(), std::byte{0xff}).data());
  }

 private:
  std::vector<Tensor*> inputs_;
};

CONFORMANCE(large_inputs_are_let_go_between_launches) {
  Session session(load_program(kText, driver), {.driver = driver});
  const std::int64_t size = 1 << 19;  // 2 MiB each
  const std::vector<float> ones(static_cast<std::size_t>(size), 1);
  for (int call = 0; call < 2; ++call) {
    Tensor x = Tensor::f32(driver, {size}, ones), y = Tensor::f32(driver, {size}, ones);
    Tensor k = Tensor::f32(driver, {size}, ones);
    ForgetfulHost host(driver, {&x, &y, &k});
    session.run(std::vector<InputArg>{x.arg(), y.arg(), k.arg()}, host);
    EXPECT_COMPUTED(host.f32(0), std::vector<float>(static_cast<std::size_t>(size), 8));
    if (driver == "cpu") {
      EXPECT_EQ(host.let_go, (std::vector<int>{0, 1}));
    }
  }
  EXPECT_EQ(session.counters().inputs_released, driver == "cpu" ? 4 : 0);
}

CONFORMANCE(small_inputs_do_not_interrupt_a_batch) {
  Session session(load_program(kText, driver), {.driver = driver});
  Tensor x = Tensor::f32(driver, {2}, {1, 2}), y = x, k = x;
  ForgetfulHost host(driver, {&x, &y, &k});
  session.run(std::vector<InputArg>{x.arg(), y.arg(), k.arg()}, host);
  EXPECT_COMPUTED(host.f32(0), (std::vector<float>{8, 16}));
  EXPECT_EQ(host.let_go, std::vector<int>{});
}

CONFORMANCE(an_input_that_is_only_read_tells_the_strides_it_needs) {
  Session session(load_program(kText, driver), {.driver = driver});
  Tensor x = Tensor::f32(driver, {2}, {1, 2}), y = x, k = x;
  y.strides = {2};
  TestHost host(driver);
  try {
    session.run(std::vector<InputArg>{x.arg(), y.arg(), k.arg()}, host);
    FAIL() << "strides are not checked";
  } catch (const LayoutMismatch& mismatch) {
    EXPECT_EQ(mismatch.input, 1);
    EXPECT_EQ(mismatch.strides, (std::vector<std::int64_t>{1}));
    EXPECT_HAS(mismatch.what(), "stride 0 should be 1");
  }
}

TEST(ReleasedInputs, an_input_that_an_output_views_is_rejected) {
  std::string text = kText;
  const std::string fresh = "output 0 \"w\" fresh f32 [s0] -> %3";
  text.replace(text.find(fresh), fresh.size(), fresh + "\noutput 1 \"v\" view_of_input 0 f32 [s0]");
  EXPECT_HAS(error_of([&] { Session session(load_program(text, "cpu"), {}); }),
             "released at its last use");
}

}  // namespace
}  // namespace gex::runtime::testing
