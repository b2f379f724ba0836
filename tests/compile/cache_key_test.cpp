// What a cached program depends on, and what not: of frozen inputs only which ones they are.

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "cache_fixture.hpp"
#include "compile/options.hpp"
#include "passes/engine/user_passes.hpp"

namespace gex::test {
namespace {

using CacheKey = Cache;

// A value that the option does not have by default, and that a compile takes.
OptionValue another_value(const OptionRow& row) {
  if (const bool* on = std::get_if<bool>(&row.default_value)) return !*on;
  if (const auto* number = std::get_if<std::int64_t>(&row.default_value)) return *number + 1;
  if (std::holds_alternative<std::string>(row.default_value)) return std::string("other");
  return std::vector<std::string>{"cse"};
}

TEST_F(CacheKey, OptionsAreInTheKeyAsTheirTableSays) {
  compiled();
  int in_key = 0, not_in_key = 0;
  for (const OptionRow& row : option_table()) {
    if (row.part != OptionRow::Part::compile || row.about.key == OptionAbout::Key::apart) continue;
    const bool kept = was_kept(compiled(graph_text(), [&row](CompileOptions& options) {
      UserOptions changed;
      changed.compile = options;
      row.set(changed, another_value(row));
      options = changed.compile;
    }));
    EXPECT_EQ(kept, row.about.key == OptionAbout::Key::none) << row.name;
    ++(kept ? not_in_key : in_key);
  }
  EXPECT_GT(in_key, 10);
  EXPECT_GT(not_in_key, 1);
  EXPECT_TRUE(was_kept(compiled()));
}

TEST_F(CacheKey, WhateverChangesTheGraphChangesTheKey) {
  compiled();
  std::string other = graph_text();
  other.replace(other.find("0.125"), 5, "0.250");
  EXPECT_FALSE(was_kept(compiled(other)));
  EXPECT_TRUE(was_kept(compiled()));
}

// A scale that only the compiler computes, a matmul that packs its weights, weights that are read
// in place, and a convolution.
const char* const kFrozenGraph =
    R"(graph main(%x: f32[40, 24], %w: f32[24, 36], %s: f32[36], %k: f32[4, 1, 3, 3]) -> (f32[40, 4, 6, 6]) {
  %e = exp(%s) : f32[36]
  %f = mul(%e, %e) : f32[36]
  %p = matmul(%x, %w) : f32[40, 36]
  %q = mul(%p, %f) : f32[40, 36]
  %i = reshape(%q) {shape = [40, 1, 6, 6]} : f32[40, 1, 6, 6]
  %y = conv2d(%i, %k) {padding = [1, 1]} : f32[40, 4, 6, 6]
  return %y
})";

std::vector<HostTensor> frozen_graph_inputs(unsigned seed) {
  std::mt19937 random(seed);
  return {random_tensor(DType::f32, {40, 24}, random), random_tensor(DType::f32, {24, 36}, random),
          random_tensor(DType::f32, {36}, random), random_tensor(DType::f32, {4, 1, 3, 3}, random)};
}

// All but the first are frozen.
std::function<void(CompileOptions&)> with_frozen(const std::vector<HostTensor>& inputs,
                                                 bool contents = true) {
  return [&inputs, contents](CompileOptions& options) {
    for (std::size_t k = 1; k < inputs.size(); ++k)
      options.frozen.push_back(
          {static_cast<int>(k), {std::shared_ptr<const void>(), inputs[k].data()}, contents});
  };
}

std::vector<HostTensor> results_with_frozen(const Compiled& compiled, const HostTensor& x) {
  runtime::SessionOptions options;
  options.frozen = compiled.frozen;
  runtime::Session session(compiled.executable, options, compiled.specialiser);
  std::vector<HostTensor> given = {x};
  return execute(session, given);
}

TEST_F(CacheKey, CachedProgramIsBoundToTheCurrentFrozenContents) {
  const std::vector<HostTensor> first = frozen_graph_inputs(1), second = frozen_graph_inputs(2);
  const Compiled made = compiled(kFrozenGraph, with_frozen(first));
  EXPECT_FALSE(was_kept(made));
  const Compiled kept = compiled(kFrozenGraph, with_frozen(second));
  EXPECT_TRUE(was_kept(kept));
  EXPECT_EQ(program::print(*made.program), program::print(*kept.program));
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(kept.report.counts, [&](const auto& c) { return c.first == name; });
  };
  EXPECT_TRUE(has("folded_with_frozen"));
  EXPECT_TRUE(has("packed_bytes"));
  const std::vector<HostTensor> got = results_with_frozen(kept, second[0]);
  const Compiled alone = compile(parse_graph(kFrozenGraph), [&] {
    CompileOptions options;
    with_frozen(second)(options);
    return options;
  }());
  EXPECT_EQ(got, results_with_frozen(alone, second[0]));
  EXPECT_NE(got, results_with_frozen(made, second[0]));
}

TEST_F(CacheKey, WhichInputsAreFrozenIsPartOfTheKey) {
  const std::vector<HostTensor> inputs = frozen_graph_inputs(1);
  compiled(kFrozenGraph, with_frozen(inputs));
  EXPECT_FALSE(was_kept(compiled(kFrozenGraph)));
  EXPECT_FALSE(was_kept(compiled(kFrozenGraph, with_frozen(inputs, /*contents=*/false))));
  EXPECT_FALSE(was_kept(compiled(kFrozenGraph, [&](CompileOptions& options) {
    with_frozen(inputs)(options);
    options.frozen.pop_back();
  })));
  EXPECT_TRUE(was_kept(compiled(kFrozenGraph, with_frozen(inputs))));
}

// While the pass is registered.
class PassFromOutside {
 public:
  explicit PassFromOutside(const std::string& version, int level = 1) {
    passes::Pass pass;
    pass.name = "from-outside";
    pass.run = [](Graph&, passes::PassContext&) { return false; };
    pass.version = version;
    pass.level = level;
    passes::register_user_pass(pass);
  }
  ~PassFromOutside() { passes::unregister_user_pass("from-outside"); }
};

TEST_F(CacheKey, ResultsOfPassesWithoutAVersionAreNotCached) {
  {
    const PassFromOutside pass("");
    compiled();
    EXPECT_TRUE(of_kind("program").empty());
  }
  compiled();
  EXPECT_EQ(of_kind("program").size(), 1U);
}

TEST_F(CacheKey, ResultsOfAPassAreCachedByItsVersion) {
  compiled();
  for (const char* version : {"1", "2"}) {
    const PassFromOutside pass(version);
    EXPECT_FALSE(was_kept(compiled()));
    EXPECT_TRUE(was_kept(compiled()));
  }
  const PassFromOutside pass("1", 2);
  EXPECT_FALSE(was_kept(compiled()));
}

TEST_F(CacheKey, TheTextOfTheSwitchFileIsPartOfTheKey) {
  const std::string path = folder_ + "/switches.json";
  const auto write = [&](const char* text) { std::ofstream(path) << text; };
  compiled();
  write(R"({"Switch": {"GraphFusion": {"cse": "off"}}})");
  ::setenv("GEX_PASS_FILE", path.c_str(), 1);
  EXPECT_FALSE(was_kept(compiled()));
  EXPECT_TRUE(was_kept(compiled()));
  write(R"({"Switch": {"GraphFusion": {"cse": "off", "dce": "off"}}})");
  EXPECT_FALSE(was_kept(compiled()));
  ::unsetenv("GEX_PASS_FILE");
}

}  // namespace
}  // namespace gex::test
