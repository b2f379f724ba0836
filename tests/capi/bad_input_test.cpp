// Bad input of every public function, as a table: each row is one misuse and part of its message.
// Nothing crashes, nothing leaks (SAN=address), no internal error, and no result is written.

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "misuse.hpp"

namespace gex::test {
namespace {

std::vector<Misuse> misuses() {
  std::vector<Misuse> all = misuses_of_graphs();
  for (Misuse& misuse : misuses_of_programs()) all.push_back(std::move(misuse));
  return all;
}

TEST(CApiBadInput, every_misuse_is_reported_with_a_message) {
  for (const Misuse& misuse : misuses()) {
    SCOPED_TRACE(std::string(misuse.function) + ": " + misuse.what);
    Valid valid;
    const std::string before = printed(valid.graph);
    const gex_status status = misuse.call(valid);
    EXPECT_NE(status, GEX_OK);
    EXPECT_NE(status, GEX_INTERNAL) << gex_last_error();
    EXPECT_TRUE(says(misuse.says));
    EXPECT_EQ(printed(valid.graph), before) << "a failed call changes nothing";
    EXPECT_EQ(valid.made, nullptr);
    EXPECT_EQ(valid.text, nullptr);
    EXPECT_EQ(valid.compiled_program, nullptr);
    EXPECT_EQ(valid.out.data, nullptr);
  }
}

TEST(CApiBadInput, every_function_that_can_fail_has_a_row) {
  std::ifstream file(GEX_TEST_DATA "/../../include/gex/gex.h");
  std::ostringstream header;
  header << file.rdbuf();
  const std::string text = header.str();
  std::set<std::string> tested;
  for (const Misuse& misuse : misuses()) tested.insert(misuse.function);
  const std::regex declaration("GEX_API gex_status (gex_[a-z_]+)\\(");
  int functions = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) {
    ++functions;
    EXPECT_TRUE(tested.contains((*at)[1].str()))
        << (*at)[1] << " needs a row in misuses_of_graphs.cpp or misuses_of_programs.cpp";
  }
  EXPECT_GT(functions, 20);
}

// Sizes that fit 64 bits but no machine are reported at once, before anything is allocated.
TEST(CApiBadInput, sizes_beyond_all_memory_are_reported_and_compile_fast) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{0, "s0"}});
  const std::vector<gex_size> shape = {{kBillion, nullptr}, {1000, nullptr}};
  gex_attr big = {"shape", GEX_ATTR_SIZES, 2, {}};
  big.value.sizes = shape.data();
  const gex_value filled = add(graph, "full", {}, {big});
  ProgramPtr program = compiled(graph, {add(graph, "cumsum", {filled}), x});
  const std::vector<std::int64_t> one = {1};
  float memory = 1;
  const gex_tensor in = tensor(GEX_F32, one, &memory);
  std::vector<gex_tensor> out(2, GEX_TENSOR_INIT);
  EXPECT_EQ(gex_program_run(program.get(), &in, 1, out.data(), 2), GEX_OUT_OF_MEMORY)
      << gex_last_error();
  EXPECT_EQ(out[0].data, nullptr);
  EXPECT_EQ(out[1].data, nullptr);
}

}  // namespace
}  // namespace gex::test
