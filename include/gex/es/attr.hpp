#pragma once
// Attributes of ops, by name.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "gex/es/tensor.hpp"

namespace gex::es {

// An attribute of an op: {"axis", -1}, {"approximate", "tanh"}, {"shape", {"s0", 4}}.
class Attr {
 public:
  Attr(std::string name, bool value) : name_(std::move(name)), value_(value) {}
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Attr(std::string name, T value)
      : name_(std::move(name)), value_(static_cast<std::int64_t>(value)) {}
  Attr(std::string name, double value) : name_(std::move(name)), value_(value) {}
  Attr(std::string name, const char* value) : name_(std::move(name)), value_(std::string(value)) {}
  // A template, so that {"s0", 3} is a list of sizes and not the first 3 characters of a string.
  template <class T, std::enable_if_t<std::is_same_v<T, std::string>, int> = 0>
  Attr(std::string name, T value) : name_(std::move(name)), value_(std::move(value)) {}
  Attr(std::string name, DType value) : name_(std::move(name)), value_(value) {}
  Attr(std::string name, Size value)
      : name_(std::move(name)), value_(Shape{std::move(value)}), is_list_(false) {}
  Attr(std::string name, Tensor value) : name_(std::move(name)), value_(std::move(value)) {}
  Attr(std::string name, std::vector<std::int64_t> value)
      : name_(std::move(name)), value_(std::move(value)) {}
  Attr(std::string name, std::vector<double> value)
      : name_(std::move(name)), value_(std::move(value)) {}
  Attr(std::string name, std::vector<std::string> value)
      : name_(std::move(name)), value_(std::move(value)) {}
  Attr(std::string name, Shape value) : name_(std::move(name)), value_(std::move(value)) {}
  template <class T>
  Attr(std::string name, std::initializer_list<T> values) : name_(std::move(name)) {
    if constexpr (std::is_integral_v<T>) {
      value_ = std::vector<std::int64_t>(values.begin(), values.end());
    } else if constexpr (std::is_floating_point_v<T>) {
      value_ = std::vector<double>(values.begin(), values.end());
    } else if constexpr (std::is_same_v<T, Size>) {
      value_ = Shape(values);
    } else {
      value_ = std::vector<std::string>(values.begin(), values.end());
    }
  }

  // Storage that the C struct points to.
  struct Backing {
    std::vector<gex_size> sizes;
    std::vector<const char*> strings;
    gex_tensor tensor;
  };

  // Valid as long as this Attr and the backing live.
  gex_attr c(Backing& backing) const {
    gex_attr attr = {};
    attr.name = name_.c_str();
    std::visit([&](const auto& value) { Fill(attr, backing, value); }, value_);
    return attr;
  }

 private:
  void Fill(gex_attr& attr, Backing&, bool value) const {
    attr.kind = GEX_ATTR_BOOL;
    attr.value.integer = value;
  }
  void Fill(gex_attr& attr, Backing&, std::int64_t value) const {
    attr.kind = GEX_ATTR_INT;
    attr.value.integer = value;
  }
  void Fill(gex_attr& attr, Backing&, double value) const {
    attr.kind = GEX_ATTR_FLOAT;
    attr.value.real = value;
  }
  void Fill(gex_attr& attr, Backing&, const std::string& value) const {
    attr.kind = GEX_ATTR_STRING;
    attr.value.string = value.c_str();
  }
  void Fill(gex_attr& attr, Backing&, DType value) const {
    attr.kind = GEX_ATTR_DTYPE;
    attr.value.integer = static_cast<gex_dtype>(value);
  }
  void Fill(gex_attr& attr, Backing&, const std::vector<std::int64_t>& value) const {
    attr.kind = GEX_ATTR_INTS;
    attr.count = value.size();
    attr.value.integers = value.data();
  }
  void Fill(gex_attr& attr, Backing&, const std::vector<double>& value) const {
    attr.kind = GEX_ATTR_FLOATS;
    attr.count = value.size();
    attr.value.reals = value.data();
  }
  void Fill(gex_attr& attr, Backing& backing, const Shape& value) const {
    backing.sizes = detail::ToC(value);
    attr.kind = is_list_ ? GEX_ATTR_SIZES : GEX_ATTR_SIZE;
    attr.count = backing.sizes.size();
    attr.value.sizes = backing.sizes.data();
  }
  void Fill(gex_attr& attr, Backing& backing, const std::vector<std::string>& value) const {
    for (const std::string& text : value) backing.strings.push_back(text.c_str());
    attr.kind = GEX_ATTR_STRINGS;
    attr.count = backing.strings.size();
    attr.value.strings = backing.strings.data();
  }
  void Fill(gex_attr& attr, Backing& backing, const Tensor& value) const {
    backing.tensor = value.c();
    attr.kind = GEX_ATTR_TENSOR;
    attr.value.tensor = &backing.tensor;
  }

  std::string name_;
  std::variant<bool, std::int64_t, double, std::string, DType, std::vector<std::int64_t>,
               std::vector<double>, Shape, std::vector<std::string>, Tensor>
      value_;
  bool is_list_ = true;
};

using Attrs = std::vector<Attr>;

}  // namespace gex::es
