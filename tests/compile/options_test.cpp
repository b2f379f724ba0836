// The table of options: what it says is complete, and names and texts are checked against it.

#include "compile/options.hpp"

#include <gtest/gtest.h>

#include <set>

namespace gex::test {
namespace {

std::string error_of(std::string_view name, std::string_view text) {
  UserOptions options;
  try {
    set_option(options, name, text);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Options, EachHasANameAHelpAndAPlaceInTheKey) {
  std::set<std::string_view> names;
  for (const OptionRow& row : option_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " stands twice";
    EXPECT_FALSE(row.help.empty()) << row.name;
    if (row.about.key != OptionAbout::Key::value) {
      EXPECT_FALSE(row.about.key_reason.empty()) << row.name << ": no reason";
    }
    if (row.part != OptionRow::Part::compile) {
      EXPECT_EQ(row.about.key, OptionAbout::Key::none) << row.name << " is no part of a Program";
    }
  }
  EXPECT_GE(names.size(), 20U);
}

TEST(Options, DefaultsAreThoseOfTheStructs) {
  const UserOptions defaults;
  for (const OptionRow& row : option_table()) EXPECT_EQ(row.get(defaults), row.default_value);
}

TEST(Options, TextsOfValuesAreReadBack) {
  for (const OptionRow& row : option_table()) {
    UserOptions options;
    const OptionValue value =
        row.is_switch() ? OptionValue(!std::get<bool>(row.default_value)) : row.default_value;
    set_option(options, row.name, text_of(value));
    EXPECT_EQ(row.get(options), value) << row.name;
  }
  UserOptions options;
  set_option(options, "disabled_passes", "cse,dce");
  EXPECT_EQ(options.compile.disabled_passes, (std::vector<std::string>{"cse", "dce"}));
  set_option(options, "target", "cuda:1");
  EXPECT_EQ(options.compile.target, "cuda:1");
}

TEST(Options, UnknownNamesAreErrorsWithTheNearestOne) {
  const std::string error = error_of("autotne", "true");
  EXPECT_NE(error.find("there is no option 'autotne'; did you mean 'autotune'?"), std::string::npos)
      << error;
  EXPECT_NE(error.find("capture_limit"), std::string::npos) << error;
  EXPECT_NE(error_of("qqqqqqqqqq", "1").find("'qqqqqqqqqq'. Options are: "), std::string::npos);
}

TEST(Options, WrongValuesAreErrorsThatSayWhatIsWanted) {
  EXPECT_EQ(error_of("fuse", "maybe"), "option 'fuse' takes true or false, got 'maybe'");
  EXPECT_EQ(error_of("level", "4"), "option 'level' takes a whole number from 0 to 3, got '4'");
  EXPECT_EQ(error_of("level", "two"), "option 'level' takes a whole number from 0 to 3, got 'two'");
  EXPECT_EQ(error_of("capture_limit", "-1"),
            "option 'capture_limit' takes a whole number of at least 0, got '-1'");
  EXPECT_EQ(error_of("level", "99999999999999999999"),
            "option 'level' takes a whole number from 0 to 3, got '99999999999999999999'");
}

// Another value would be set by a flag that two options share.
TEST(Options, FlagsThatAreSharedAreSwitchesOfOneDefault) {
  std::map<std::string, const OptionRow*> flags;
  for (const OptionRow& row : option_table()) {
    EXPECT_TRUE(row.flag().starts_with("--")) << row.name;
    const auto [at, is_new] = flags.emplace(row.flag(), &row);
    if (is_new) continue;
    EXPECT_TRUE(row.is_switch()) << row.flag();
    EXPECT_EQ(row.default_value, at->second->default_value) << row.flag();
  }
}

}  // namespace
}  // namespace gex::test
