// GE's acceptance cases on running compiled graphs: whose memory, whose threads.

#include <gtest/gtest.h>
#include <unistd.h>
#include <gex/es.hpp>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <thread>

namespace gex::test {
namespace {

using namespace gex::es;

Tensor ones(std::vector<std::int64_t> shape) {
  return Tensor::Of<float>(shape, std::vector<float>(detail::CountOf(shape), 1));
}

// Two matmuls, so that there is a temporary between them.
std::unique_ptr<Graph> two_products() {
  EsGraphBuilder builder("two_products");
  auto x = builder.CreateInput(0, "x", DType::f32, {"s0", 64});
  auto w = builder.CreateInput(1, "w", DType::f32, {64, 64});
  return builder.BuildAndReset({Relu(Matmul(Relu(Matmul(x, w)), w))});
}

TEST(GeCase, N52_AnOutputIsWrittenWhereTheUserWantsIt) {
  const Program program = two_products()->Compile();
  std::vector<float> memory(8 * 64);
  std::vector<Tensor> outputs = {Tensor::Borrow(DType::f32, {8, 64}, memory.data())};
  program.Run({ones({8, 64}), ones({64, 64})}, outputs);
  EXPECT_EQ(outputs[0].data(), memory.data());
  EXPECT_EQ(memory.front(), 64 * 64);
  EXPECT_EQ(memory.back(), 64 * 64);
  EXPECT_EQ(program.Counters().bytes_copied, 0);
}

// Counts allocations and releases.
struct CountingAllocator {
  std::mutex mutex;
  std::map<void*, std::size_t> live;
  std::size_t given = 0;
  bool exhausted = false;

  gex_allocator c() {
    gex_allocator allocator = GEX_ALLOCATOR_INIT;
    allocator.user = this;
    allocator.allocate = [](void* user, std::size_t bytes, std::size_t alignment) -> void* {
      auto& self = *static_cast<CountingAllocator*>(user);
      const std::lock_guard lock(self.mutex);
      if (self.exhausted) return nullptr;
      void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
      self.live[memory] = bytes;
      self.given += bytes;
      return memory;
    };
    allocator.release = [](void* user, void* memory, std::size_t bytes) {
      auto& self = *static_cast<CountingAllocator*>(user);
      const std::lock_guard lock(self.mutex);
      const auto block = self.live.find(memory);
      ASSERT_NE(block, self.live.end());
      EXPECT_EQ(block->second, bytes);
      self.live.erase(block);
      std::free(memory);
    };
    return allocator;
  }
};

TEST(GeCase, N53_EveryByteOfARunComesFromTheUsersAllocatorAndGoesBack) {
  CountingAllocator counting;
  {
    const gex_allocator allocator = counting.c();
    CompileOptions options;
    options.allocator = &allocator;
    const Program program = two_products()->Compile(options);
    std::vector<Tensor> results;
    for (std::int64_t rows : {8, 32, 8, 8, 8, 8})
      results = program.Run({ones({rows, 64}), ones({64, 64})});
    EXPECT_EQ(results[0].ToVector<float>()[5], 64 * 64);
    // The result, and at least what the plan needs between the matmuls.
    EXPECT_EQ(counting.live.count(results[0].data()), 1u);
    EXPECT_GT(program.Counters().arena_bytes, 0);
    EXPECT_GE(counting.given, static_cast<std::size_t>(program.Counters().arena_bytes));
    EXPECT_GE(counting.live.size(), 2u);
  }
  EXPECT_TRUE(counting.live.empty());
}

TEST(GeCase, N53_AllocationFailureIsReportedAndNothingLeaks) {
  CountingAllocator counting;
  {
    const gex_allocator allocator = counting.c();
    CompileOptions options;
    options.allocator = &allocator;
    const Program program = two_products()->Compile(options);
    counting.exhausted = true;
    try {
      program.Run({ones({8, 64}), ones({64, 64})});
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), GEX_OUT_OF_MEMORY);
    }
    counting.exhausted = false;
    EXPECT_EQ(program.Run({ones({8, 64}), ones({64, 64})}).size(), 1u);
    gex_allocator half = counting.c();
    half.release = nullptr;
    options.allocator = &half;
    EXPECT_THROW(two_products()->Compile(options), Error);
  }
  EXPECT_TRUE(counting.live.empty());
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path_(testing::TempDir() + name + std::to_string(::getpid())) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

 private:
  std::string path_;
};

TEST(EsRun, a_saved_program_is_loaded_and_gives_the_same_bits_for_every_size) {
  const TemporaryFile file("gex_program_");
  EsGraphBuilder builder("saved");
  auto x = builder.CreateInput(0, "x", DType::f32, {"rows", 64});
  std::vector<float> weights(64 * 64);
  for (std::size_t k = 0; k < weights.size(); ++k) weights[k] = static_cast<float>(k % 13) - 6;
  auto w = builder.CreateConst(weights, {64, 64});
  const Program made = builder.BuildAndReset({Softmax(Gelu(Matmul(x, w)), -1)})->Compile();
  made.Save(file.path());
  CountingAllocator counting;
  {
    const gex_allocator allocator = counting.c();
    CompileOptions options;
    options.allocator = &allocator;
    const Program loaded = Program::Load(file.path(), options);
    EXPECT_EQ(loaded.Print(Level::program), made.Print(Level::program));
    EXPECT_EQ(loaded.Print(Level::graph), made.Print(Level::graph));
    for (std::int64_t rows : {1, 5, 0, 33}) {
      const Tensor input = ones({rows, 64});
      EXPECT_EQ(loaded.Run({input})[0].ToVector<float>(), made.Run({input})[0].ToVector<float>());
    }
    EXPECT_GT(counting.given, 0u);
    EXPECT_THROW(loaded.Run({ones({1, 63})}), Error);
  }
  EXPECT_TRUE(counting.live.empty());
}

TEST(EsRun, files_that_are_not_programs_are_rejected_with_a_message) {
  const TemporaryFile file("gex_damaged_");
  two_products()->Compile().Save(file.path());
  const std::string whole = file.bytes();
  const auto problem = [&](const std::string& bytes) -> std::string {
    file.write(bytes);
    try {
      Program::Load(file.path());
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(problem(whole), "nothing was thrown");
  for (std::size_t cut : {std::size_t{0}, std::size_t{7}, whole.size() / 2, whole.size() - 1})
    EXPECT_NE(problem(whole.substr(0, cut)).find("is not a compiled program"), std::string::npos);
  std::string flipped = whole;
  flipped[whole.size() / 3] ^= 4;
  EXPECT_NE(problem(flipped).find(file.path()), std::string::npos);
  EXPECT_NE(problem("graph g() -> () {}").find("is not a compiled program"), std::string::npos);
  const std::string folder = testing::TempDir();
  EXPECT_THROW(Program::Load(folder), Error);
  EXPECT_THROW(two_products()->Compile().Save(folder), Error);
}

TEST(EsRun, passes_are_switched_and_counted) {
  EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0, "x", DType::f32, {4});
  const auto graph = builder.BuildAndReset({Exp(x) + Exp(x)});
  const auto merged = [&](const CompileOptions& options) {
    return graph->Compile(options).Print(Level::passes).find("\"cse\": {\"match_times\": \"1\"") !=
           std::string::npos;
  };
  CompileOptions options;
  EXPECT_TRUE(merged(options));
  options.level = 0;
  EXPECT_FALSE(merged(options));
  options.enabled_passes = {"cse"};
  EXPECT_TRUE(merged(options));
  const TemporaryFile file("gex_switches_");
  file.write(R"({"cse": "off"})");
  options = {};
  options.switch_file = file.path();
  EXPECT_FALSE(merged(options));
  options.enabled_passes = {"csee"};
  EXPECT_THROW(graph->Compile(options), Error);
}

TEST(EsRun, loops_run_on_the_users_threads_with_the_same_bits) {
  std::atomic<int> loops{0};
  gex_thread_pool pool = GEX_THREAD_POOL_INIT;
  pool.threads = 3;
  pool.user = &loops;
  pool.run = [](void* user, std::int64_t count, void (*task)(void*, std::int64_t), void* context) {
    ++*static_cast<std::atomic<int>*>(user);
    std::vector<std::thread> threads;
    for (std::int64_t k = 1; k < count; ++k) threads.emplace_back(task, context, k);
    task(context, 0);
    for (std::thread& thread : threads) thread.join();
  };
  CompileOptions options;
  options.thread_pool = &pool;
  const Program mine = two_products()->Compile(options), plain = two_products()->Compile();
  std::vector<float> values(512 * 64);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k % 17) - 8;
  const std::vector<Tensor> inputs = {
      Tensor::Of<float>({512, 64}, values),
      Tensor::Of<float>({64, 64}, {values.begin(), values.begin() + 64 * 64})};
  EXPECT_EQ(mine.Run(inputs)[0].ToVector<float>(), plain.Run(inputs)[0].ToVector<float>());
  EXPECT_GT(loops.load(), 0);
  pool.threads = 0;
  EXPECT_THROW(two_products()->Compile(options), Error);
}

TEST(EsRun, asynchronous_runs_call_back_in_order) {
  std::vector<float> first;
  std::promise<std::string> failure;
  {
    const Program program = two_products()->Compile();
    for (std::int64_t rows : {1, 2, 3})
      program.RunAsync({ones({rows, 64}), ones({64, 64})},
                       [&, rows](std::vector<Tensor> results, std::exception_ptr error) {
                         ASSERT_FALSE(error);
                         EXPECT_EQ(results[0].shape()[0], rows);
                         first.push_back(results[0].ToVector<float>()[0]);
                       });
    program.RunAsync({ones({1, 63}), ones({64, 64})},
                     [&](std::vector<Tensor> results, std::exception_ptr error) {
                       EXPECT_TRUE(results.empty());
                       try {
                         std::rethrow_exception(error);
                       } catch (const Error& e) {
                         failure.set_value(e.what());
                       }
                     });
    // The program waits for its calls when it is destroyed.
  }
  EXPECT_EQ(first, std::vector<float>(3, 64 * 64));
  EXPECT_NE(failure.get_future().get().find("f32[1, 63]"), std::string::npos);
}

}  // namespace
}  // namespace gex::test
