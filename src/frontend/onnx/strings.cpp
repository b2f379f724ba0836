#include "frontend/onnx/strings.hpp"

#include <deque>
#include <mutex>
#include <unordered_map>

#include "base/error.hpp"

namespace gex::onnx {
namespace {

struct Table {
  std::mutex mutex;
  std::deque<std::string> texts{
      ""};  // number 0 is the empty string, so zeroed memory is valid; addresses stay valid
  std::unordered_map<std::string_view, std::int64_t> numbers{{texts[0], 0}};
};

Table& table() {
  static Table the_table;
  return the_table;
}

}  // namespace

std::int64_t string_number(std::string_view text) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  if (const auto found = t.numbers.find(text); found != t.numbers.end()) return found->second;
  const auto number = static_cast<std::int64_t>(t.texts.size());
  t.numbers.emplace(t.texts.emplace_back(text), number);
  return number;
}

const std::string& string_of(std::int64_t number) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  if (number < 0 || number >= static_cast<std::int64_t>(t.texts.size()))
    fail(ErrorCode::invalid_argument, "there is no string number ", number);
  return t.texts[static_cast<std::size_t>(number)];
}

}  // namespace gex::onnx
