#include "json.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace gex::tool {

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string json_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) items.push_back(json_text(text));
  return json_list(items);
}

namespace {

template <class T>
std::string number_text(T number) {
  if (std::isnan(number)) return "\"nan\"";
  if (std::isinf(number)) return number < 0 ? "\"-inf\"" : "\"inf\"";
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, number);
  return {text, end};
}

}  // namespace

std::string json_number(double number) { return number_text(number); }
std::string json_number(float number) { return number_text(number); }

std::string json_list(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) out += (out.size() > 1 ? ", " : "") + item;
  return out + "]";
}

std::string json_object(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out = "{";
  for (const auto& [name, value] : members)
    out += (out.size() > 1 ? ", " : "") + json_text(name) + ": " + value;
  return out + "}";
}

}  // namespace gex::tool
