#include "serve/json.hpp"

#include <charconv>
#include <cmath>

#include "../json.hpp"
#include "base/error.hpp"

namespace gex::serve {
namespace {

constexpr int kDeepest = 64;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Json whole() {
    Json value = any(0);
    space();
    if (at_ != text_.size()) wrong("more after its end");
    return value;
  }

 private:
  [[noreturn]] void wrong(const char* what) const {
    fail(ErrorCode::parse_error, "JSON, byte ", at_, ": ", what);
  }
  void space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }
  char next() {
    space();
    if (at_ == text_.size()) wrong("it ends too early");
    return text_[at_];
  }
  bool take(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }
  void must(char c) {
    if (!take(c))
      wrong(c == ':'   ? "':' is missing"
            : c == '"' ? "'\"' is missing"
                       : "a ',' or an end is missing");
  }
  void word(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) wrong("an unknown word");
    at_ += expected.size();
  }

  Json any(int depth) {
    if (depth > kDeepest) wrong("it is nested too deeply");
    Json value;
    switch (next()) {
      case '{':
        object(value, depth);
        break;
      case '[':
        list(value, depth);
        break;
      case '"':
        value.kind = Json::Kind::text;
        value.text = string();
        break;
      case 't':
        word("true");
        value.kind = Json::Kind::boolean;
        value.boolean = true;
        break;
      case 'f':
        word("false");
        value.kind = Json::Kind::boolean;
        break;
      case 'n':
        word("null");
        break;
      default:
        number(value);
    }
    return value;
  }

  void object(Json& value, int depth) {
    value.kind = Json::Kind::object;
    must('{');
    if (take('}')) return;
    do {
      if (next() != '"') wrong("a name is missing");
      std::string name = string();
      must(':');
      value.members[std::move(name)] = any(depth + 1);
    } while (take(','));
    must('}');
  }

  void list(Json& value, int depth) {
    value.kind = Json::Kind::list;
    must('[');
    if (take(']')) return;
    do {
      add(value, any(depth + 1));
    } while (take(','));
    must(']');
  }

  // Numbers stay together as long as there is nothing else.
  static void add(Json& list, Json item) {
    if (item.is_number() && list.items.empty()) {
      if (item.kind == Json::Kind::integer && list.reals.empty()) {
        list.integers.push_back(item.integer);
        return;
      }
      for (std::int64_t integer : list.integers) list.reals.push_back(static_cast<double>(integer));
      list.integers.clear();
      list.reals.push_back(item.real);
      return;
    }
    for (std::int64_t integer : list.integers) list.items.push_back(of(integer));
    for (double real : list.reals) list.items.push_back(of(real));
    list.integers.clear();
    list.reals.clear();
    list.items.push_back(std::move(item));
  }
  static Json of(std::int64_t integer) {
    Json value;
    value.kind = Json::Kind::integer;
    value.integer = integer;
    value.real = static_cast<double>(integer);
    return value;
  }
  static Json of(double real) {
    Json value;
    value.kind = Json::Kind::real;
    value.real = real;
    return value;
  }

  void number(Json& value) {
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    const auto [whole, bad] = std::from_chars(begin, end, value.integer);
    const bool goes_on = whole < end && (*whole == '.' || *whole == 'e' || *whole == 'E');
    if (bad == std::errc() && !goes_on) {
      value.kind = Json::Kind::integer;
      value.real = static_cast<double>(value.integer);
      at_ += static_cast<std::size_t>(whole - begin);
      return;
    }
    if (*begin != '-' && (*begin < '0' || *begin > '9')) wrong("a value is missing");
    const auto [last, problem] = std::from_chars(begin, end, value.real);
    if (problem != std::errc()) wrong("a number that can't be read");
    value.kind = Json::Kind::real;
    at_ += static_cast<std::size_t>(last - begin);
  }

  unsigned code() {
    unsigned value = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, bad] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (bad != std::errc() || end != digits.data() + 4) wrong("an unknown escape");
    at_ += 4;
    return value;
  }

  static void append_utf8(std::string& out, unsigned point) {
    const auto tail = [&](int shift) { return static_cast<char>(0x80 | (point >> shift & 0x3f)); };
    if (point < 0x80) {
      out += static_cast<char>(point);
    } else if (point < 0x800) {
      out += static_cast<char>(0xc0 | point >> 6);
      out += tail(0);
    } else if (point < 0x10000) {
      out += static_cast<char>(0xe0 | point >> 12);
      out += tail(6);
      out += tail(0);
    } else {
      out += static_cast<char>(0xf0 | point >> 18);
      out += tail(12);
      out += tail(6);
      out += tail(0);
    }
  }

  void escape(std::string& out) {
    if (at_ == text_.size()) wrong("it ends too early");
    const char c = text_[at_++];
    switch (c) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'u': {
        unsigned point = code();
        if (point >= 0xd800 && point < 0xdc00 && text_.substr(at_, 2) == "\\u") {
          at_ += 2;
          point = 0x10000 + ((point & 0x3ff) << 10) + (code() & 0x3ff);
        }
        append_utf8(out, point);
        break;
      }
      case '"':
      case '\\':
      case '/':
        out += c;
        break;
      default:
        wrong("an unknown escape");
    }
  }

  std::string string() {
    must('"');
    std::string out;
    while (true) {
      if (at_ == text_.size()) wrong("it ends too early");
      const char c = text_[at_++];
      if (c == '"') return out;
      if (static_cast<unsigned char>(c) < 0x20) wrong("a control character in a string");
      if (c == '\\')
        escape(out);
      else
        out += c;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

const Json* Json::find(const std::string& name) const {
  const auto at = members.find(name);
  return at == members.end() ? nullptr : &at->second;
}

Json parse_json(std::string_view text) { return Parser(text).whole(); }

namespace {

template <class T>
void append_digits(std::string& out, T value) {
  if (!std::isfinite(value)) {  // JSON has no names for these; Python's parser accepts them
    out += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    return;
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

}  // namespace

void append_number(std::string& out, double value) { append_digits(out, value); }
void append_number(std::string& out, float value) { append_digits(out, value); }

std::string quoted(std::string_view text) { return tool::json_text(std::string(text)); }

}  // namespace gex::serve
