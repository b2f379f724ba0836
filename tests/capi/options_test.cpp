// Options by name through gex.h, and as fields of es::CompileOptions.

#include <gex/gex.h>
#include <gtest/gtest.h>
#include <cstddef>
#include <gex/es.hpp>

#include <filesystem>

#include "compile/options.hpp"

namespace gex::test {
namespace {

std::unique_ptr<es::Graph> small_graph() {
  es::EsGraphBuilder builder("small");
  auto x = builder.CreateInput(0, "x", es::DType::f32, {"rows", 3});
  return builder.BuildAndReset({es::Exp(es::Relu(x)) + 1.0});
}

std::vector<float> result_of(const es::Program& program) {
  const std::vector<es::Tensor> inputs = {es::Tensor::Of<float>({1, 3}, {-1, 0, 0})};
  return program.Run(inputs)[0].ToVector<float>();
}

gex_status compile_with(std::vector<gex_option> named, es::Program* program = nullptr) {
  const auto graph = small_graph();
  gex_compile_options options = GEX_COMPILE_OPTIONS_INIT;
  options.options = named.data();
  options.option_count = named.size();
  gex_program* made = nullptr;
  const gex_status status = gex_compile(graph->handle(), &options, &made);
  es::Program owned(made);
  if (program != nullptr) *program = std::move(owned);
  return status;
}

// Another value than the default that this machine can do.
std::string another_value(const OptionRow& row, const std::string& folder) {
  if (const bool* on = std::get_if<bool>(&row.default_value)) return *on ? "false" : "true";
  if (const auto* number = std::get_if<std::int64_t>(&row.default_value))
    return std::to_string(*number + 1);
  if (row.name == "target") return "cpu";
  if (row.name == "switch_file") return "";
  return row.name == "dump_dir" ? folder : "cse";
}

TEST(OptionsByName, EveryOptionIsReachedFromC) {
  const std::string folder = testing::TempDir() + "gex_option_dump";
  for (const OptionRow& row : option_table()) {
    const std::string name(row.name), value = another_value(row, folder);
    es::Program program(nullptr);
    ASSERT_EQ(compile_with({{name.c_str(), value.c_str()}}, &program), GEX_OK)
        << name << ": " << gex_last_error();
    EXPECT_EQ(result_of(program), (std::vector<float>{2, 2, 2})) << name;
  }
  EXPECT_TRUE(std::filesystem::exists(folder + "/program.txt"));
  std::filesystem::remove_all(folder);
}

TEST(OptionsByName, NamesAndValuesAreChecked) {
  EXPECT_EQ(compile_with({{"fuze", "false"}}), GEX_INVALID_ARGUMENT);
  EXPECT_NE(std::string(gex_last_error()).find("did you mean 'fuse'?"), std::string::npos);
  EXPECT_EQ(compile_with({{"fuse", "2"}}), GEX_INVALID_ARGUMENT);
  EXPECT_STREQ(gex_last_error(), "option 'fuse' takes true or false, got '2'");
  EXPECT_EQ(compile_with({{nullptr, "2"}}), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(compile_with({{"fuse", nullptr}}), GEX_INVALID_ARGUMENT);
  EXPECT_EQ(compile_with({{"target", "gpu"}}), GEX_INVALID_ARGUMENT);
  EXPECT_STREQ(gex_last_error(), "unknown target 'gpu': use \"cpu\" or \"cuda:N\"");
}

TEST(OptionsByName, NamesGoBeforeFieldsAndLaterOnesBeforeEarlierOnes) {
  const auto graph = small_graph();
  gex_compile_options options = GEX_COMPILE_OPTIONS_INIT;
  options.level = 0;
  const gex_option named[] = {{"level", "7"}, {"level", "3"}};
  options.options = named;
  options.option_count = 2;
  gex_program* program = nullptr;
  EXPECT_EQ(gex_compile(graph->handle(), &options, &program), GEX_INVALID_ARGUMENT);  // the first
  options.options = named + 1;
  options.option_count = 1;
  ASSERT_EQ(gex_compile(graph->handle(), &options, &program), GEX_OK) << gex_last_error();
  gex_program_destroy(program);
}

// A caller who was built when the struct ended before the list.
TEST(OptionsByName, OlderCallersHaveNone) {
  const auto graph = small_graph();
  gex_compile_options options = GEX_COMPILE_OPTIONS_INIT;
  options.struct_size = offsetof(gex_compile_options, options);
  options.option_count = 3;
  gex_program* program = nullptr;
  ASSERT_EQ(gex_compile(graph->handle(), &options, &program), GEX_OK) << gex_last_error();
  gex_program_destroy(program);
}

TEST(OptionsByName, TheListHasAllOptions) {
  char* text = nullptr;
  ASSERT_EQ(gex_list_options(&text), GEX_OK);
  const std::string lines = es::detail::Take(text);
  for (const OptionRow& row : option_table())
    EXPECT_NE(lines.find(std::string(row.name) + ": "), std::string::npos) << row.name;
  EXPECT_NE(lines.find("(environment: GEX_PASS_FILE)"), std::string::npos);
}

TEST(OptionsByName, FieldsOfCppArriveUnderTheirNames) {
  es::CompileOptions options;
#define GEX_OPTION(part, name, type, value, help, about) \
  EXPECT_TRUE((std::is_same_v<decltype(options.name), type>)) << #name;
#include "gex/options.def"
  options.fuse = false;
  options.disabled_passes = {"cse", "dce"};
  options.named = {{"level", "3"}};
  const es::detail::OptionsForC c(options);
  ASSERT_EQ(c.get()->option_count, 3U);  // defaults are left out
  EXPECT_STREQ(c.get()->options[0].name, "disabled_passes");
  EXPECT_STREQ(c.get()->options[0].value, "cse,dce");
  EXPECT_STREQ(c.get()->options[1].name, "fuse");
  EXPECT_STREQ(c.get()->options[1].value, "false");
  EXPECT_STREQ(c.get()->options[2].name, "level");
  EXPECT_EQ(result_of(small_graph()->Compile(options)), (std::vector<float>{2, 2, 2}));
  options.target = "tpu";
  EXPECT_THROW(small_graph()->Compile(options), es::Error);
}

}  // namespace
}  // namespace gex::test
