#include "frontend/capi/attr_views.hpp"

#include "base/error.hpp"
#include "frontend/capi/convert.hpp"

namespace gex::capi {

AttrViews::AttrViews(const AttrSchema& schema, const AttrList& values) {
  GEX_CHECK(schema.size() == values.size(), "a value for each attribute");
  for (std::size_t k = 0; k < schema.size(); ++k) attrs_.push_back(view(schema[k].name, values[k]));
}

gex_size AttrViews::size_of_dim(Dim dim) {
  if (const auto number = dim.as_const()) return {*number, nullptr};
  return {0, texts_.emplace_back(str(dim)).c_str()};
}

const gex_size* AttrViews::keep_sizes(const std::vector<Dim>& dims) {
  std::vector<gex_size>& kept = sizes_.emplace_back();
  for (Dim dim : dims) kept.push_back(size_of_dim(dim));
  return kept.data();
}

gex_attr AttrViews::view(const std::string& name, const AttrValue& value) {
  gex_attr attr = {};
  attr.name = name.c_str();
  if (const auto* flag = std::get_if<bool>(&value)) {
    attr.kind = GEX_ATTR_BOOL;
    attr.value.integer = *flag ? 1 : 0;
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    attr.kind = GEX_ATTR_INT;
    attr.value.integer = *integer;
  } else if (const auto* real = std::get_if<double>(&value)) {
    attr.kind = GEX_ATTR_FLOAT;
    attr.value.real = *real;
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    attr.kind = GEX_ATTR_STRING;
    attr.value.string = text->c_str();
  } else if (const auto* dtype = std::get_if<DType>(&value)) {
    attr.kind = GEX_ATTR_DTYPE;
    attr.value.integer = from_dtype(*dtype);
  } else if (const auto* dim = std::get_if<Dim>(&value)) {
    attr.kind = GEX_ATTR_SIZE;
    attr.value.sizes = keep_sizes({*dim});
  } else if (const auto* dims = std::get_if<std::vector<Dim>>(&value)) {
    attr.kind = GEX_ATTR_SIZES;
    attr.count = dims->size();
    attr.value.sizes = keep_sizes(*dims);
  } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    attr.kind = GEX_ATTR_INTS;
    attr.count = integers->size();
    attr.value.integers = integers->data();
  } else if (const auto* reals = std::get_if<std::vector<double>>(&value)) {
    attr.kind = GEX_ATTR_FLOATS;
    attr.count = reals->size();
    attr.value.reals = reals->data();
  } else {
    const auto* texts = std::get_if<std::vector<std::string>>(&value);
    GEX_CHECK(texts != nullptr, "attribute ", name, " is a tensor");
    std::vector<const char*>& kept = strings_.emplace_back();
    for (const std::string& each : *texts) kept.push_back(each.c_str());
    attr.kind = GEX_ATTR_STRINGS;
    attr.count = texts->size();
    attr.value.strings = kept.data();
  }
  return attr;
}

}  // namespace gex::capi
