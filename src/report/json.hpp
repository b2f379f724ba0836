#pragma once
// Writes JSON: keys and values in the order of the calls, commas are added automatically.

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace gex::report {

class Json {
 public:
  Json& begin_object() { return open('{'); }
  Json& end_object() { return close('}'); }
  Json& begin_list() { return open('['); }
  Json& end_list() { return close(']'); }
  Json& key(std::string_view name);
  Json& value(std::string_view text);
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(const std::string& text) { return value(std::string_view(text)); }
  Json& value(bool yes) { return raw(yes ? "true" : "false"); }
  Json& value(double number);  // null if it is not finite
  template <std::integral T>
  Json& value(T number) {
    return raw(std::to_string(number));
  }
  Json& raw(std::string_view json);  // a value that is already JSON

  template <class T>
  Json& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }
  template <class List>
  Json& list(std::string_view name, const List& items) {
    key(name).begin_list();
    for (const auto& item : items) value(item);
    return end_list();
  }

  const std::string& text() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  Json& open(char bracket);
  Json& close(char bracket);
  void separate();
  void append_text(std::string_view text);

  std::string out_;
  bool comma_ = false;  // before the next key or value
};

}  // namespace gex::report
