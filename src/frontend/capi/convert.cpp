#include "frontend/capi/convert.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/strided_copy.hpp"
#include "base/suggest.hpp"
#include "frontend/capi/boundary.hpp"
#include "ir/text/text.hpp"

namespace gex::capi {

static_assert(static_cast<int>(DType::f64) == GEX_F64 && static_cast<int>(DType::f32) == GEX_F32);
static_assert(static_cast<int>(DType::f16) == GEX_F16 && static_cast<int>(DType::bf16) == GEX_BF16);
static_assert(static_cast<int>(DType::i64) == GEX_I64 && static_cast<int>(DType::i32) == GEX_I32);
static_assert(static_cast<int>(DType::i16) == GEX_I16 && static_cast<int>(DType::i8) == GEX_I8);
static_assert(static_cast<int>(DType::u8) == GEX_U8 &&
              static_cast<int>(DType::boolean) == GEX_BOOL);

Dim to_dim(const gex_size& size, Symbols& symbols, bool declare, const char* what) {
  if (size.expression == nullptr) return Dim(size.number);
  const std::string_view text = size.expression;
  constexpr std::size_t kLongest = 4096;
  if (text.size() > kLongest)
    fail(ErrorCode::invalid_argument, what, ": an expression of ", text.size(),
         " characters; at most ", kLongest, " are read");
  if (declare && is_identifier(text) && !symbols.contains(std::string(text))) {
    const Dim symbol = Dim::symbol(text);
    symbols.emplace(text, symbol);
    return symbol;
  }
  return parse_dim(text, [&](std::string_view name) -> std::optional<Dim> {
    auto at = symbols.find(std::string(name));
    if (at != symbols.end()) return at->second;
    std::vector<std::string_view> known;
    for (const auto& [known_name, symbol] : symbols) known.push_back(known_name);
    std::sort(known.begin(), known.end());
    fail(ErrorCode::not_found, what, ": no size symbol is called '", name, "'",
         suggestion(name, known), "; declare it or use it bare in an input's shape first");
  });
}

Type to_type(gex_dtype dtype, const gex_size* shape, std::size_t rank, Symbols& symbols) {
  check_rank(rank, "shape");
  require_list(shape, rank, "shape");
  Symbols known = symbols;
  Shape sizes;
  for (std::size_t k = 0; k < rank; ++k) {
    const Dim size = to_dim(shape[k], known, true, "shape");
    if (size.range().hi < 0)
      fail(ErrorCode::invalid_argument, "size ", k, " of the shape is ", size,
           "; a size can't be negative. Unknown sizes have names: \"s0\"");
    sizes.push_back(size);
  }
  Type type = Type::tensor(to_dtype(dtype, "dtype"), std::move(sizes));
  check_bytes(type);
  symbols = std::move(known);
  return type;
}

HostTensor converted(const HostTensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  HostTensor result(dtype, tensor.shape());
  for (std::int64_t k = 0; k < tensor.numel(); ++k) {
    const bool from_float = is_float(tensor.dtype());
    if (from_float) {
      result.set(k, tensor.get(k));
    } else {
      result.set_int(k, tensor.get_int(k));
    }
    const bool exact = is_float(dtype) || (from_float ? result.get(k) == tensor.get(k)
                                                      : result.get_int(k) == tensor.get_int(k));
    if (!exact)
      fail(ErrorCode::invalid_argument, "element ", k, " is ",
           from_float ? str(tensor.get(k)) : str(tensor.get_int(k)), ", which ", dtype,
           " can't hold");
  }
  return result;
}

namespace {

template <class T, class Convert>
auto list_of(const gex_attr& attr, const T* elements, Convert convert) {
  require_list(elements, attr.count, attr.name);
  std::vector<decltype(convert(*elements))> list;
  for (std::size_t k = 0; k < attr.count; ++k) list.push_back(convert(elements[k]));
  return list;
}

AttrValue plain_attr(const gex_attr& attr, Symbols& symbols) {
  const auto size = [&](const gex_size& s) { return to_dim(s, symbols, false, attr.name); };
  const auto same = [](auto x) { return x; };
  const auto string = [&](const char* s) { return std::string(&required(s, attr.name)); };
  switch (attr.kind) {
    case GEX_ATTR_BOOL:
      return attr.value.integer != 0;
    case GEX_ATTR_INT:
      return attr.value.integer;
    case GEX_ATTR_FLOAT:
      return attr.value.real;
    case GEX_ATTR_STRING:
      return string(attr.value.string);
    case GEX_ATTR_DTYPE:
      return to_dtype(static_cast<gex_dtype>(std::clamp<std::int64_t>(
                          attr.value.integer, -1, std::numeric_limits<gex_dtype>::max())),
                      attr.name);
    case GEX_ATTR_SIZE:
      return size(required(attr.value.sizes, attr.name));
    case GEX_ATTR_INTS:
      return list_of(attr, attr.value.integers, same);
    case GEX_ATTR_FLOATS:
      return list_of(attr, attr.value.reals, same);
    case GEX_ATTR_SIZES:
      return list_of(attr, attr.value.sizes, size);
    case GEX_ATTR_STRINGS:
      return list_of(attr, attr.value.strings, string);
    case GEX_ATTR_TENSOR:
      return std::make_shared<const HostTensor>(
          to_host(to_view(required(attr.value.tensor, attr.name), true, attr.name)));
    default:
      fail(ErrorCode::invalid_argument, "attribute '", attr.name, "' has the unknown kind ",
           attr.kind);
  }
}

const AttrValue* kind_in_schema(const OpDef& op, const std::string& name) {
  for (const AttrField& field : op.attrs)
    if (field.name == name) return &field.default_value;
  return nullptr;
}

}  // namespace

std::pair<std::string, AttrValue> to_label(const gex_attr& attr, Symbols& symbols) {
  std::string name = &required(attr.name, "label name");
  return {std::move(name), plain_attr(attr, symbols)};
}

std::pair<std::string, AttrValue> to_attr(const gex_attr& attr, const OpDef& op, Symbols& symbols) {
  const std::string name = &required(attr.name, "attribute name");
  AttrValue value = plain_attr(attr, symbols);
  // Sizes and dtypes may be written as strings.
  const AttrValue* wanted = kind_in_schema(op, name);
  if (wanted == nullptr) return {name, std::move(value)};
  const auto size = [&](const std::string& text) {
    return to_dim({0, text.c_str()}, symbols, false, name.c_str());
  };
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (std::holds_alternative<Dim>(*wanted)) return {name, size(*text)};
    if (std::holds_alternative<DType>(*wanted)) {
      if (auto dtype = dtype_from_name(*text)) return {name, *dtype};
    }
  }
  const auto* texts = std::get_if<std::vector<std::string>>(&value);
  if (texts != nullptr && std::holds_alternative<std::vector<Dim>>(*wanted)) {
    std::vector<Dim> sizes;
    for (const std::string& text : *texts) sizes.push_back(size(text));
    return {name, std::move(sizes)};
  }
  return {name, std::move(value)};
}

}  // namespace gex::capi
