// Random programs: the arena's reuse of memory against a plain evaluation without reuse. The null
// driver runs the same programs and tracks the owner of each byte.

#include <random>

#include "harness.hpp"

namespace gex::runtime::testing {
namespace {

GEX_TEST_KERNEL(triple_and_add, {
  ((float*)buffers[2])[point] =
      ((const float*)buffers[0])[point % dims[0]] * 3 + ((const float*)buffers[1])[point % dims[1]];
})

struct RandomProgram {
  std::string text;
  std::vector<std::vector<float>> values;  // by value; the first two are inputs
  std::size_t last = 0;
};

// A chain of launches over random earlier values; sizes differ, some results overwrite an operand
// of the same size in place, some go through a copy.
class RandomChain {
 public:
  explicit RandomChain(unsigned seed) : random_(seed) {}

  RandomProgram make(int launches) {
    for (int i = 0; i < 2; ++i) add_input(i);
    for (int i = 0; i < launches; ++i) add_result();
    const int last = sizes_.back();
    const int output = add_buffer("output 0", last, "");
    steps_ += copy(output, buffer_of_.back(), last);
    out_.last = out_.values.size() - 1;
    out_.text = "program \"random\"\n" + inputs_ + "output 0 \"y\" fresh f32 [" + text(last) +
                "] -> %" + text(output) + "\n" + buffers_ +
                "code 0 \"triple_and_add\"\nmain 0\nsegment 0 \"main\"\n" + steps_;
    return std::move(out_);
  }

 private:
  static std::string text(int number) { return std::to_string(number); }

  int add_buffer(const std::string& kind, int size, const std::string& tail) {
    const int id = static_cast<int>(std::count(buffers_.begin(), buffers_.end(), '\n'));
    buffers_ += "buffer %" + text(id) + " \"b\" " + kind + " f32 [" + text(size) + "] bytes [" +
                text(size * 4) + "]" + tail + "\n";
    return id;
  }
  void add_value(std::vector<float> values, int buffer) {
    sizes_.push_back(static_cast<int>(values.size()));
    buffer_of_.push_back(buffer);
    alive_.push_back(true);
    out_.values.push_back(std::move(values));
  }
  void add_input(int i) {
    const int size = 1 + static_cast<int>(random_() % 50);
    const int id = add_buffer("input " + text(i), size, "");
    inputs_ += "input " + text(i) + " \"x\" f32 [" + text(size) + "] -> %" + text(i) + "\n";
    std::vector<float> values(static_cast<std::size_t>(size));
    for (float& v : values) v = static_cast<float>(random_() % 7);
    add_value(std::move(values), id);
  }

  // Mostly recent values, sometimes an old one, never one that was overwritten.
  std::size_t pick() {
    while (true) {
      const std::size_t at =
          random_() % 4 == 0
              ? random_() % sizes_.size()
              : sizes_.size() - 1 - random_() % std::min<std::size_t>(4, sizes_.size());
      if (alive_[at]) return at;
    }
  }
  std::string launch(std::size_t a, std::size_t b, int to, int size) const {
    return "  launch \"triple_and_add\" code 0 read %" + text(buffer_of_[a]) + " read %" +
           text(buffer_of_[b]) + " write %" + text(to) + " dims [" + text(sizes_[a]) + ", " +
           text(sizes_[b]) + "] grid [" + text(size) + "]";
  }
  static std::string copy(int to, int from, int size) {
    return "  copy %" + text(to) + " from %" + text(from) + " bytes [" + text(size * 4) + "]\n";
  }
  void add_result() {
    const std::size_t a = pick(), b = pick();
    const bool in_place = random_() % 4 == 0 && a != b && a >= 2;
    const int size = in_place ? sizes_[a] : 1 + static_cast<int>(random_() % 200);
    const int id = add_buffer("temp", size, in_place ? " alias %" + text(buffer_of_[a]) : "");
    if (random_() % 6 == 0 && !in_place) {
      const int through = add_buffer("temp", size, "");
      steps_ += launch(a, b, through, size) + "\n" + copy(id, through, size);
    } else {
      steps_ += launch(a, b, id, size) + " work [" + (random_() % 2 == 0 ? "100000" : "10") + "]\n";
    }
    // Kept small so that every float is exact.
    const std::vector<float>&x = out_.values[a], &y = out_.values[b];
    std::vector<float> result(static_cast<std::size_t>(size));
    for (std::size_t p = 0; p < result.size(); ++p)
      result[p] = x[p % x.size()] * 3 + y[p % y.size()];
    if (in_place) alive_[a] = false;
    add_value(std::move(result), id);
  }

  std::mt19937 random_;
  RandomProgram out_;
  std::string inputs_, buffers_, steps_;
  // By value.
  std::vector<int> sizes_, buffer_of_;
  std::vector<bool> alive_;
};

CONFORMANCE(random_programs_give_what_they_give_without_reuse_of_memory) {
  std::int64_t arena = 0, bound = 0;
  const unsigned seeds = driver.rfind("cuda", 0) == 0 ? 10 : 120;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    const RandomProgram random = RandomChain(seed).make(3 + static_cast<int>(seed % 14));
    Session session(load_program(random.text, driver), {.driver = driver});
    const Tensor x =
        Tensor::f32(driver, {static_cast<std::int64_t>(random.values[0].size())}, random.values[0]);
    const Tensor y =
        Tensor::f32(driver, {static_cast<std::int64_t>(random.values[1].size())}, random.values[1]);
    TestHost host(driver);
    for (int turn = 0; turn < 2; ++turn) session.run(std::vector<InputArg>{x.arg(), y.arg()}, host);
    EXPECT_COMPUTED(host.f32(0), random.values[random.last]);
    arena += session.counters().arena_bytes;
    bound += session.counters().arena_lower_bound;
  }
  EXPECT_LE(static_cast<double>(arena), 1.05 * static_cast<double>(bound));
}

}  // namespace
}  // namespace gex::runtime::testing
