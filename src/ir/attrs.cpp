#include "ir/attrs.hpp"

#include <algorithm>
#include <bit>

#include "ir/text/text.hpp"

namespace gex {
namespace {

bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same(a[i], b[i])) return false;
  return true;
}
bool same(const TensorPtr& a, const TensorPtr& b) { return a == b || (a && b && *a == *b); }
template <class T>
bool same(const T& a, const T& b) {
  return a == b;
}

struct HashOf {
  Hash operator()(bool v) const { return v; }
  Hash operator()(std::int64_t v) const { return static_cast<Hash>(v); }
  Hash operator()(double v) const { return std::bit_cast<std::uint64_t>(v); }
  Hash operator()(const std::string& v) const { return hash_text(v); }
  Hash operator()(DType v) const { return static_cast<Hash>(v); }
  Hash operator()(Dim v) const { return v.hash(); }
  Hash operator()(const TensorPtr& v) const { return v ? v->hash() : 0; }
  template <class T>
  Hash operator()(const std::vector<T>& list) const {
    Hash hash = list.size();
    for (const T& v : list) hash = hash_combine(hash, (*this)(v));
    return hash;
  }
};

}  // namespace

bool attr_equal(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  return std::visit([&](const auto& x) { return same(x, std::get<std::decay_t<decltype(x)>>(b)); },
                    a);
}

Hash attr_hash(const AttrValue& value) {
  return hash_combine(value.index(), std::visit(HashOf{}, value));
}

std::string attr_text(const AttrValue& value) {
  std::string out;
  append_attr(out, value);
  return out;
}

std::string_view attr_kind_name(const AttrValue& value) {
  static constexpr std::string_view kNames[] = {
      "bool",           "int",          "float",           "string", "dtype", "dim", "list of ints",
      "list of floats", "list of dims", "list of strings", "tensor"};
  static_assert(std::size(kNames) == std::variant_size_v<AttrValue>);
  return kNames[value.index()];
}

std::optional<AttrValue> attr_convert(const AttrValue& value, const AttrValue& kind) {
  if (value.index() == kind.index()) return value;
  if (const auto* v = std::get_if<std::int64_t>(&value)) {
    if (std::holds_alternative<double>(kind)) return AttrValue(static_cast<double>(*v));
    if (std::holds_alternative<Dim>(kind)) return AttrValue(Dim(*v));
  }
  if (const auto* v = std::get_if<Dim>(&value))
    if (v->is_const() && std::holds_alternative<std::int64_t>(kind))
      return AttrValue(v->constant());
  if (const auto* v = std::get_if<std::vector<std::int64_t>>(&value)) {
    if (std::holds_alternative<std::vector<double>>(kind))
      return AttrValue(std::vector<double>(v->begin(), v->end()));
    if (std::holds_alternative<std::vector<Dim>>(kind))
      return AttrValue(std::vector<Dim>(v->begin(), v->end()));
    if (v->empty() && std::holds_alternative<std::vector<std::string>>(kind))
      return AttrValue(std::vector<std::string>());
  }
  return std::nullopt;
}

const AttrValue* find_label(const Labels& labels, std::string_view name) {
  for (const auto& [known, value] : labels)
    if (known == name) return &value;
  return nullptr;
}

void set_label(Labels& labels, std::string name, AttrValue value) {
  if (!is_identifier(name))
    fail(ErrorCode::invalid_argument, "'", name,
         "' can't name a label: letters, digits, '_' and '.', a letter or '_' first");
  if (!std::holds_alternative<bool>(value) && !std::holds_alternative<std::int64_t>(value) &&
      !std::holds_alternative<std::string>(value))
    fail(ErrorCode::invalid_argument, "label '", name, "' has the ", attr_kind_name(value),
         " value ", attr_text(value), "; labels must be bools, integers or strings");
  const auto at =
      std::lower_bound(labels.begin(), labels.end(), name,
                       [](const auto& label, const auto& wanted) { return label.first < wanted; });
  if (at != labels.end() && at->first == name)
    at->second = std::move(value);
  else
    labels.emplace(at, std::move(name), std::move(value));
}

bool labels_equal(const Labels& a, const Labels& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && attr_equal(x.second, y.second);
  });
}

Hash labels_hash(const Labels& labels) {
  Hash hash = labels.size();
  for (const auto& [name, value] : labels)
    hash = hash_combine(hash_combine(hash, hash_text(name)), attr_hash(value));
  return hash;
}

}  // namespace gex
