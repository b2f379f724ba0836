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
RandomProgram random_program(unsigned seed, int launches) {
  std::mt19937 random(seed);
  RandomProgram out;
  std::string buffers, steps;
  std::vector<int> sizes, buffer_of;
  std::vector<bool> alive;
  const auto size_text = [](int size) { return std::to_string(size); };
  const auto add_buffer = [&](const std::string& kind, int size, const std::string& tail) {
    const int id = static_cast<int>(std::count(buffers.begin(), buffers.end(), '\n'));
    buffers += "buffer %" + std::to_string(id) + " \"b\" " + kind + " f32 [" + size_text(size) +
               "] bytes [" + size_text(size * 4) + "]" + tail + "\n";
    return id;
  };
  std::string inputs;
  for (int i = 0; i < 2; ++i) {
    const int size = 1 + static_cast<int>(random() % 50);
    buffer_of.push_back(add_buffer("input " + std::to_string(i), size, ""));
    inputs += "input " + std::to_string(i) + " \"x\" f32 [" + size_text(size) + "] -> %" +
              std::to_string(i) + "\n";
    sizes.push_back(size);
    alive.push_back(true);
    out.values.emplace_back(static_cast<std::size_t>(size));
    for (float& v : out.values.back()) v = static_cast<float>(random() % 7);
  }
  for (int i = 0; i < launches; ++i) {
    const auto pick = [&] {
      // Mostly recent values, sometimes an old one, never one that was overwritten.
      while (true) {
        const std::size_t at =
            random() % 4 == 0
                ? random() % sizes.size()
                : sizes.size() - 1 - random() % std::min<std::size_t>(4, sizes.size());
        if (alive[at]) return at;
      }
    };
    const std::size_t a = pick(), b = pick();
    const bool in_place = random() % 4 == 0 && a != b && a >= 2;
    const int size = in_place ? sizes[a] : 1 + static_cast<int>(random() % 200);
    const std::string alias = in_place ? " alias %" + std::to_string(buffer_of[a]) : "";
    const int id = add_buffer("temp", size, alias);
    if (random() % 6 == 0 && !in_place) {
      const int through = add_buffer("temp", size, "");
      steps += "  launch \"triple_and_add\" code 0 read %" + std::to_string(buffer_of[a]) +
               " read %" + std::to_string(buffer_of[b]) + " write %" + std::to_string(through) +
               " dims [" + size_text(sizes[a]) + ", " + size_text(sizes[b]) + "] grid [" +
               size_text(size) + "]\n  copy %" + std::to_string(id) + " from %" +
               std::to_string(through) + " bytes [" + size_text(size * 4) + "]\n";
    } else {
      steps += "  launch \"triple_and_add\" code 0 read %" + std::to_string(buffer_of[a]) +
               " read %" + std::to_string(buffer_of[b]) + " write %" + std::to_string(id) +
               " dims [" + size_text(sizes[a]) + ", " + size_text(sizes[b]) + "] grid [" +
               size_text(size) + "] work [" + (random() % 2 == 0 ? "100000" : "10") + "]\n";
    }
    std::vector<float> result(static_cast<std::size_t>(size));
    for (std::size_t p = 0; p < result.size(); ++p) {
      // Kept small so that every float is exact.
      result[p] =
          out.values[a][p % out.values[a].size()] * 3 + out.values[b][p % out.values[b].size()];
    }
    if (in_place) alive[a] = false;
    out.values.push_back(std::move(result));
    sizes.push_back(size);
    buffer_of.push_back(id);
    alive.push_back(true);
  }
  out.last = out.values.size() - 1;
  const int output = add_buffer("output 0", sizes.back(), "");
  steps += "  copy %" + std::to_string(output) + " from %" + std::to_string(buffer_of.back()) +
           " bytes [" + size_text(sizes.back() * 4) + "]\n";
  out.text = "program \"random\"\n" + inputs + "output 0 \"y\" fresh f32 [" +
             size_text(sizes.back()) + "] -> %" + std::to_string(output) + "\n" + buffers +
             "code 0 \"triple_and_add\"\nmain 0\nsegment 0 \"main\"\n" + steps;
  return out;
}

CONFORMANCE(random_programs_give_what_they_give_without_reuse_of_memory) {
  std::int64_t arena = 0, bound = 0;
  const unsigned seeds = driver.rfind("cuda", 0) == 0 ? 10 : 120;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    const RandomProgram random = random_program(seed, 3 + static_cast<int>(seed % 14));
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
