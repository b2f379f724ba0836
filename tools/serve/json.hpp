#pragma once
// JSON in and out for the server. Lists of numbers are kept as numbers, so that tensors of many
// elements stay small.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gex::serve {

struct Json {
  enum class Kind { null, boolean, integer, real, text, list, object } kind = Kind::null;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;  // also of integers
  std::string text;
  std::vector<Json> items;
  // Of a list that holds nothing else: its integers, or its numbers where one is not an integer.
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
  std::map<std::string, Json> members;

  const Json* find(const std::string& name) const;  // null if it is absent or this is not an object
  bool is_number() const { return kind == Kind::integer || kind == Kind::real; }
  std::size_t length() const { return items.size() + integers.size() + reals.size(); }
};

Json parse_json(std::string_view text);  // UserError(parse_error) with the position
void append_number(std::string& out, double value);
void append_number(std::string& out, float value);  // the shortest digits that parse back exactly
std::string quoted(std::string_view text);

}  // namespace gex::serve
