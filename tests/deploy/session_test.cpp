// gex::Session, as a user has it: through gex/session.hpp alone.

#include "gex/session.hpp"

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "gex/coroutine.hpp"
#include "harness.hpp"

namespace gex::test {
namespace {

class SessionTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    example_ = new Example;
    example_->save(path(), {"v2", "v3", "v4"});
  }
  static void TearDownTestSuite() {
    delete example_;
    delete folder_;
  }
  static std::string path() { return folder_->file("m.gexe"); }
  static std::vector<float> values(std::size_t rows) {
    std::vector<float> x(rows * 24);
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = 0.01f * static_cast<float>(k % 31);
    return x;
  }
  static float expected(const std::vector<float>& x, std::int64_t rows, std::int64_t at) {
    const HostTensor tensor = HostTensor::of({rows, 24}, x);
    return static_cast<float>(example_->expected(tensor)[0].get(at));
  }

  static Folder* folder_;
  static Example* example_;
};
Folder* SessionTest::folder_ = nullptr;
Example* SessionTest::example_ = nullptr;

const gex::LoadOptions kTrust{.trust = true};

TEST_F(SessionTest, RunsAndDescribesItsInputsAndOutputs) {
  gex::Session session = gex::Session::load(path(), kTrust);
  ASSERT_EQ(session.inputs().size(), 1u);
  EXPECT_EQ(session.inputs()[0].name, "x");
  EXPECT_EQ(session.inputs()[0].dtype, GEX_F32);
  EXPECT_EQ(session.inputs()[0].shape, (std::vector<std::int64_t>{-1, 24}));
  EXPECT_EQ(session.inputs()[0].sizes[0], "s0");
  EXPECT_EQ(session.outputs()[0].name, "t");
  EXPECT_EQ(session.model().name(), "example");
  EXPECT_EQ(session.model().code().substr(0, 12), "machine code");
  const std::vector<float> x = values(3);
  const std::vector<gex::Tensor> results = session.run({gex::Tensor::view({3, 24}, x.data())});
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].shape(), (std::vector<std::int64_t>{3, 16}));
  for (int k = 0; k < 48; ++k) EXPECT_NEAR(results[0].data<float>()[k], expected(x, 3, k), 1e-5);
}

TEST_F(SessionTest, BoundMemoryIsReadAndWrittenInPlace) {
  const gex::Model model = gex::Model::load(path(), kTrust);
  gex::Session session(model);
  std::vector<float> x = values(2), t(2 * 16, -1.0f);
  gex::Binding binding(model);
  binding.input("x", gex::Tensor::view({2, 24}, x.data()));
  binding.output("t", gex::Tensor::view({2, 16}, t.data()));
  session.run(binding);
  EXPECT_NEAR(t[5], expected(x, 2, 5), 1e-5);
  x[0] += 1;
  session.run(binding);
  EXPECT_NEAR(t[5], expected(x, 2, 5), 1e-5);
  EXPECT_THROW(binding.input("y", gex::Tensor()), gex::RunError);
}

TEST_F(SessionTest, MemoryServesAsWellAsAFile) {
  const std::string bytes = bytes_of(path());
  gex::Session session(gex::Model::from_memory(bytes.data(), bytes.size(), kTrust));
  const std::vector<float> x = values(1);
  EXPECT_NEAR(session.run({gex::Tensor::view({1, 24}, x.data())})[0].data<float>()[3],
              expected(x, 1, 3), 1e-5);
}

TEST_F(SessionTest, SessionsOfOneModelRunAtTheSameTime) {
  const gex::Model model = gex::Model::load(path(), kTrust);
  const std::vector<float> x = values(4);
  const float wanted = expected(x, 4, 9);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      gex::Session session(model, {.threads = 1});
      for (int k = 0; k < 50; ++k) {
        const auto results = session.run({gex::Tensor::view({4, 24}, x.data())});
        if (std::abs(results[0].data<float>()[9] - wanted) < 1e-5) ++right;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 200);
}

TEST_F(SessionTest, AsynchronousRunsReportResultsAndErrors) {
  gex::Session session = gex::Session::load(path(), kTrust);
  const std::vector<float> x = values(2);
  auto good = session.run_async({gex::Tensor::view({2, 24}, x.data())});
  auto bad = session.run_async({gex::Tensor::view({2, 12}, x.data())});
  EXPECT_NEAR(good.get()[0].data<float>()[1], expected(x, 2, 1), 1e-5);
  try {
    bad.get();
    FAIL() << "a wrong shape";
  } catch (const gex::RunError& error) {
    EXPECT_EQ(error.status(), GEX_SHAPE_MISMATCH) << error.what();
  }
}

// A coroutine that starts at once and is not waited for.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Detached run_both(const gex::Session& session, gex::Tensor right, gex::Tensor wrong,
                  std::promise<float>& result, std::promise<gex_status>& status) {
  // gcc 12 can't have a list of initial values in a coroutine.
  const std::vector<gex::Tensor> good(1, right), bad(1, wrong);
  result.set_value((co_await gex::run_later(session, good))[0].data<float>()[1]);
  try {
    co_await gex::run_later(session, bad);
    status.set_value(GEX_OK);
  } catch (const gex::RunError& error) {
    status.set_value(error.status());
  }
}

TEST_F(SessionTest, CoroutinesWaitForRuns) {
  gex::Session session = gex::Session::load(path(), kTrust);
  const std::vector<float> x = values(2);
  std::promise<float> result;
  std::promise<gex_status> status;
  run_both(session, gex::Tensor::view({2, 24}, x.data()), gex::Tensor::view({2, 12}, x.data()),
           result, status);
  EXPECT_NEAR(result.get_future().get(), expected(x, 2, 1), 1e-5);
  EXPECT_EQ(status.get_future().get(), GEX_SHAPE_MISMATCH);
}

TEST_F(SessionTest, TooManyWaitingRunsAreRefused) {
  gex::Session session = gex::Session::load(path(), kTrust, {.async_limit = 1});
  const std::vector<float> x = values(2);
  const gex::Tensor input = gex::Tensor::view({2, 24}, x.data());
  std::mutex gate;
  std::atomic<int> done{0};
  int accepted = 0, busy = 0;
  {
    const std::lock_guard closed(gate);
    for (int k = 0; k < 8; ++k) {
      try {
        session.run_async({input}, [&](std::vector<gex::Tensor>, const gex::RunError*) {
          const std::lock_guard wait(gate);
          ++done;
        });
        ++accepted;
      } catch (const gex::RunError& error) {
        EXPECT_EQ(error.status(), GEX_BUSY);
        ++busy;
      }
    }
  }
  EXPECT_GT(busy, 0);
  while (done < accepted) std::this_thread::yield();
}

TEST_F(SessionTest, CancelAndDeadlineStopRuns) {
  gex::Session session = gex::Session::load(path(), kTrust);
  const std::vector<float> x = values(2);
  gex::Cancel cancel;
  cancel.request();
  const auto status_with = [&](const gex::RunOptions& options) {
    try {
      session.run({gex::Tensor::view({2, 24}, x.data())}, options);
    } catch (const gex::RunError& error) {
      return error.status();
    }
    return gex_status{GEX_OK};
  };
  EXPECT_EQ(status_with({.cancel = &cancel}), GEX_CANCELLED);
  EXPECT_EQ(status_with({.timeout = std::chrono::nanoseconds(1)}), GEX_DEADLINE);
  EXPECT_EQ(status_with({}), GEX_OK);
}

TEST_F(SessionTest, LogMessagesGoToTheCallback) {
  std::vector<std::string> messages;
  gex::set_log_callback([&](int, const std::string& message) { messages.push_back(message); });
  gex_model_destroy(nullptr);
  gex_cancel* cancel = nullptr;
  ASSERT_EQ(gex_cancel_create(&cancel), GEX_OK);
  gex_cancel_destroy(cancel);
  gex_cancel_destroy(cancel);  // logs
  gex::set_log_callback({});
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_NE(messages[0].find("gex_cancel_destroy"), std::string::npos);
}

TEST_F(SessionTest, ErrorsNameTheFile) {
  try {
    gex::Model::load("/nowhere/m.gexe");
    FAIL();
  } catch (const gex::RunError& error) {
    EXPECT_EQ(error.status(), GEX_IO_ERROR);
    EXPECT_NE(std::string(error.what()).find("/nowhere/m.gexe"), std::string::npos);
  }
}

}  // namespace
}  // namespace gex::test
