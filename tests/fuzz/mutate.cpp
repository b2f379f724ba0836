#include "mutate.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace gex::test {
namespace {

constexpr const char* kNumbers[] = {"0",
                                    "-1",
                                    "1",
                                    "2",
                                    "7",
                                    "2147483648",
                                    "1000000000",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "99999999999999999999",
                                    "nan",
                                    "inf",
                                    "1e309",
                                    "0x7fc00001"};
constexpr const char* kPieces[] = {
    "(",     ")",      "[",         "]",   "{",   "}",           ",",     ":",
    "->",    "=",      "%",         "%0",  "\"",  "\\",          "//",    "@",
    "none",  "graph",  "return",    "f32", "i64", "bool",        "token", "s0",
    "s0*s0", "splat(", "base64(\"", "\n",  " ",   "ties(0 -> 0)"};

// Words of letters, digits, '_', '.' and '%': begin and end.
std::vector<std::pair<std::size_t, std::size_t>> words_of(const std::string& text) {
  const auto part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '%';
  };
  std::vector<std::pair<std::size_t, std::size_t>> words;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && part(text[end])) ++end;
    if (end > at) words.push_back({at, end});
    at = std::max(end, at + 1);
  }
  return words;
}

}  // namespace

void Mutator::change_number(std::string& text) {
  auto words = words_of(text);
  std::erase_if(words, [&](const auto& word) {
    return !std::isdigit(static_cast<unsigned char>(text[word.first]));
  });
  if (words.empty()) return;
  const auto [begin, end] = words[below(words.size())];
  text.replace(begin, end - begin, kNumbers[below(std::size(kNumbers))]);
}

void Mutator::swap_words(std::string& text) {
  const auto words = words_of(text);
  if (words.size() < 2) return;
  auto a = words[below(words.size())], b = words[below(words.size())];
  if (a.first > b.first) std::swap(a, b);
  if (a == b) return;
  const std::string first = text.substr(a.first, a.second - a.first);
  const std::string second = text.substr(b.first, b.second - b.first);
  text.replace(b.first, second.size(), first);
  text.replace(a.first, first.size(), second);
}

// Recursive readers must not run out of stack.
void Mutator::nest(std::string& text) {
  const char* openers[] = {"(", "[", "min(", "{", "-", "graph g() -> () { %0 = if() regions("};
  const char* opener = openers[below(std::size(openers))];
  std::string deep;
  for (std::size_t k = 0, depth = std::size_t{1} << below(15); k < depth; ++k) deep += opener;
  text.insert(below(text.size() + 1), deep);
}

void Mutator::change(std::string& text) {
  const std::size_t at = below(text.size() + 1);
  const std::size_t some = std::min(text.size() - at, 1 + below(20));
  switch (below(12)) {
    case 0:
      if (!text.empty()) text[below(text.size())] = static_cast<char>(random_());
      break;
    case 1:
      text.erase(at, some);
      break;
    case 2:
      text.insert(below(text.size() + 1), text.substr(at, some));
      break;
    case 3:
    case 4:
      change_number(text);
      break;
    case 5:
    case 6:
      swap_words(text);
      break;
    case 7:
      text.insert(at, kPieces[below(std::size(kPieces))]);
      break;
    case 8:
      text.resize(at);
      break;
    case 9: {
      const std::string& other = corpus_[below(corpus_.size())];
      text = text.substr(0, at) + other.substr(below(other.size() + 1));
      break;
    }
    case 10: {
      const std::size_t line = text.find('\n', at);
      if (line == std::string::npos) break;
      const std::size_t end = std::min(text.find('\n', line + 1), text.size());
      if (below(2) == 0) {
        text.erase(line, end - line);
      } else {
        text.insert(end, text.substr(line, end - line));
      }
      break;
    }
    default:
      if (below(4) == 0) nest(text);
  }
}

std::string Mutator::text(std::uint64_t seed) {
  random_.seed(seed);
  std::string text = corpus_[below(corpus_.size())];
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(text);
  return text;
}

}  // namespace gex::test
