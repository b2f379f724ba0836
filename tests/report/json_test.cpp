#include "report/json.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace gex::report {
namespace {

TEST(Json, puts_commas_between_fields_and_items) {
  Json json;
  json.begin_object().field("a", 1).key("b").begin_list().value(2).value(true).end_list();
  json.key("c").begin_object().end_object().field("d", 0.5).end_object();
  EXPECT_EQ(json.text(), R"({"a":1,"b":[2,true],"c":{},"d":0.5})");
}

TEST(Json, escapes_what_would_end_a_text_or_a_script) {
  Json json;
  json.value(std::string("a\"b\\\n\x01</script>\x7f"));
  EXPECT_EQ(json.text(), "\"a\\\"b\\\\\\n\\u0001\\u003c/script>\\u007f\"");
}

TEST(Json, keeps_utf8_and_replaces_what_is_none) {
  Json json;
  json.value(std::string("\xc3\xa4 \xff \xe2\x82"));
  EXPECT_EQ(json.text(), "\"\xc3\xa4 \\ufffd \\ufffd\\ufffd\"");
}

TEST(Json, has_no_numbers_that_json_lacks) {
  Json json;
  json.begin_list().value(std::numeric_limits<double>::infinity()).value(1e300).end_list();
  EXPECT_EQ(json.text(), "[null,1e+300]");
}

}  // namespace
}  // namespace gex::report
