#pragma once
// Typed attributes. An op declares a plain struct with a static `fields` list; everything else
// (schema, defaults, hash, equality, print, parse, the C ABI's by-name access) comes from that
// list.
//
//   struct Transpose {
//     std::vector<std::int64_t> perm;
//     static constexpr auto fields() { return std::tuple{field("perm", &Transpose::perm)}; }
//   };
//
// A node stores the values in schema order (AttrList); `read_attrs<Transpose>(node)` gives the
// struct.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/dim/dim.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/tensor.hpp"

namespace gex {

using AttrValue =
    std::variant<bool, std::int64_t, double, std::string, DType, Dim, std::vector<std::int64_t>,
                 std::vector<double>, std::vector<Dim>, std::vector<std::string>, TensorPtr>;

bool attr_equal(const AttrValue& a, const AttrValue& b);  // tensors by content, doubles by bits
Hash attr_hash(const AttrValue& value);
std::string attr_text(const AttrValue& value);
std::string_view attr_kind_name(const AttrValue& value);
// The value converted to the type of `kind` if that is lossless (int -> float, int -> dim, their
// lists); nothing otherwise.
std::optional<AttrValue> attr_convert(const AttrValue& value, const AttrValue& kind);

struct AttrField {
  std::string name;
  AttrValue default_value;  // also determines the type
};
using AttrSchema = std::vector<AttrField>;
using AttrList = std::vector<AttrValue>;  // same order and types as the schema

// Labels of a node or a graph, set by the user ("_stream_label" = "label_0"): kept, printed and
// compared, without meaning to the op. Sorted by name; values are bools, integers or strings.
using Labels = std::vector<std::pair<std::string, AttrValue>>;
const AttrValue* find_label(const Labels& labels, std::string_view name);  // null if absent
// UserError if the name is not an identifier or the value has another type.
void set_label(Labels& labels, std::string name, AttrValue value);
bool labels_equal(const Labels& a, const Labels& b);
Hash labels_hash(const Labels& labels);

template <class S, class T>
struct Field {
  const char* name;
  T S::* member;
};
template <class S, class T>
constexpr Field<S, T> field(const char* name, T S::* member) {
  return {name, member};
}

struct NoAttrs {
  static constexpr auto fields() { return std::tuple{}; }
};

template <class S>
AttrSchema schema_of() {
  AttrSchema schema;
  S defaults{};
  std::apply([&](auto... f) { (schema.push_back({f.name, AttrValue(defaults.*f.member)}), ...); },
             S::fields());
  return schema;
}

template <class S>
AttrList to_attr_list(const S& attrs) {
  AttrList list;
  std::apply([&](auto... f) { (list.push_back(AttrValue(attrs.*f.member)), ...); }, S::fields());
  return list;
}

template <class S>
S from_attr_list(const AttrList& list) {
  S attrs{};
  std::size_t i = 0;
  std::apply(
      [&](auto... f) {
        GEX_CHECK(list.size() == sizeof...(f), "attribute count");
        ((attrs.*f.member = std::get<std::decay_t<decltype(attrs.*f.member)>>(list[i++])), ...);
      },
      S::fields());
  return attrs;
}

}  // namespace gex
