#include "ir/text/parse_literals.hpp"

#include <charconv>
#include <cstring>
#include <limits>

#include "ir/text/text.hpp"

namespace gex {
namespace {

template <class F>
void parse_list(Lexer& lexer, std::string_view open, std::string_view close, std::string_view what,
                const F& parse_one) {
  lexer.expect(open, str("to open ", what));
  if (lexer.accept(close)) return;
  do parse_one();
  while (lexer.accept(","));
  lexer.expect(close, str("or ',' in ", what));
}

std::vector<Dim> parse_dims(Lexer& lexer, const SymbolTable& symbols, std::string_view open,
                            std::string_view close, std::string_view what) {
  std::vector<Dim> dims;
  parse_list(lexer, open, close, what, [&] { dims.push_back(parse_dim(lexer, symbols)); });
  return dims;
}

DType parse_dtype(Lexer& lexer) {
  std::optional<DType> dtype;
  if (lexer.peek().kind == Token::Kind::identifier) dtype = dtype_from_name(lexer.peek().text);
  if (!dtype) lexer.expected("a dtype (f64, f32, f16, bf16, i64, i32, i16, i8, u8 or bool)");
  lexer.next();
  return *dtype;
}

bool parse_bool(Lexer& lexer) {
  if (lexer.accept("true")) return true;
  if (lexer.accept("false")) return false;
  lexer.expected("true or false");
}

bool at_bits(const Lexer& lexer) {
  return lexer.peek().kind == Token::Kind::number && lexer.peek().text.substr(0, 2) == "0x";
}

// The bit pattern of a float, "0x7fc00000".
std::uint64_t parse_bits(Lexer& lexer, std::size_t bytes) {
  std::string_view digits = lexer.peek().text.substr(2);
  std::uint64_t bits = 0;
  auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  if (problem != std::errc() || end != digits.data() + digits.size() || digits.size() > bytes * 2)
    lexer.expected(str("at most ", bytes * 2, " hexadecimal digits after 0x"));
  lexer.next();
  return bits;
}

// In the requested precision: going through double would round twice.
template <class F>
F parse_float(Lexer& lexer) {
  std::size_t offset = lexer.peek().offset;
  bool negative = lexer.accept("-");
  F sign = negative ? F(-1) : F(1);
  if (lexer.accept("inf")) return sign * std::numeric_limits<F>::infinity();
  if (!negative && lexer.accept("nan")) return std::numeric_limits<F>::quiet_NaN();
  if (lexer.peek().kind != Token::Kind::number) lexer.expected("a number");
  std::string_view digits = lexer.peek().text;
  F value = 0;
  auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem == std::errc::result_out_of_range)
    lexer.fail_at(offset, "this number is out of range; write inf or 0.0");
  if (problem != std::errc() || end != digits.data() + digits.size()) lexer.expected("a number");
  lexer.next();
  return sign * value;
}

double parse_double(Lexer& lexer) {
  if (!at_bits(lexer)) return parse_float<double>(lexer);
  std::uint64_t bits = parse_bits(lexer, 8);
  double value = 0;
  std::memcpy(&value, &bits, 8);
  return value;
}

void parse_element(Lexer& lexer, HostTensor& tensor, std::int64_t i) {
  DType dtype = tensor.dtype();
  if (dtype == DType::boolean) {
    tensor.set_int(i, parse_bool(lexer));
  } else if (is_int(dtype)) {
    std::size_t offset = lexer.peek().offset;
    std::int64_t value = lexer.expect_int("an integer");
    tensor.set_int(i, value);
    if (tensor.get_int(i) != value) lexer.fail_at(offset, str(value, " does not fit ", dtype));
  } else if (at_bits(lexer)) {
    std::uint64_t bits = parse_bits(lexer, size_of(dtype));
    std::memcpy(tensor.data() + static_cast<std::size_t>(i) * size_of(dtype), &bits,
                size_of(dtype));
  } else {
    tensor.set(i, dtype == DType::f64 ? parse_float<double>(lexer) : parse_float<float>(lexer));
  }
}

HostTensor parse_values(Lexer& lexer, DType dtype, std::vector<std::int64_t> shape,
                        std::size_t bytes) {
  // Grows with the text, so a short text can't request a large tensor.
  HostTensor one(dtype, {});
  std::string data;
  parse_list(lexer, "(", ")", "the values of a tensor", [&] {
    parse_element(lexer, one, 0);
    data.append(reinterpret_cast<const char*>(one.data()), one.bytes());
  });
  if (data.size() != bytes)
    lexer.expected(str(bytes / one.bytes(), " values before here for a tensor of this shape"));
  return HostTensor::from_bytes(dtype, std::move(shape), data.data());
}

HostTensor parse_base64(Lexer& lexer, DType dtype, std::vector<std::int64_t> shape,
                        std::size_t bytes) {
  lexer.expect("(", "after base64");
  std::size_t offset = lexer.peek().offset;
  std::string text = lexer.expect_string("a base64 string");
  lexer.expect(")", "after the base64 string");
  std::string data;
  if (!decode_base64(text, data)) lexer.fail_at(offset, "this is not base64");
  if (data.size() != bytes)
    lexer.fail_at(offset,
                  str("expected ", bytes, " bytes for a tensor of this shape, got ", data.size()));
  return HostTensor::from_bytes(dtype, std::move(shape), data.data());
}

HostTensor parse_splat(Lexer& lexer, DType dtype, std::vector<std::int64_t> shape,
                       std::size_t bytes) {
  if (bytes > kLargestSplatBytes)
    lexer.fail_at(lexer.peek().offset, str("a splat of ", bytes, " bytes is too large"));
  lexer.expect("(", "after splat");
  HostTensor one(dtype, {});
  parse_element(lexer, one, 0);
  lexer.expect(")", "after the value of the splat");
  HostTensor tensor(dtype, std::move(shape));
  for (std::size_t at = 0; at < tensor.bytes(); at += one.bytes())
    std::memcpy(tensor.data() + at, one.data(), one.bytes());
  return tensor;
}

TensorPtr parse_tensor(Lexer& lexer) {
  if (lexer.accept("none")) return nullptr;
  std::size_t offset = lexer.peek().offset;
  DType dtype = parse_dtype(lexer);
  std::vector<std::int64_t> shape;
  std::size_t bytes = size_of(dtype);
  parse_list(lexer, "[", "]", "the shape of a tensor", [&] {
    std::int64_t size = lexer.expect_int("a size");
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes) ||
        bytes > std::size_t{1} << 48)
      lexer.fail_at(offset, "the size of this tensor is invalid");
    shape.push_back(size);
  });
  if (lexer.accept("splat"))
    return std::make_shared<HostTensor>(parse_splat(lexer, dtype, std::move(shape), bytes));
  if (lexer.accept("base64"))
    return std::make_shared<HostTensor>(parse_base64(lexer, dtype, std::move(shape), bytes));
  if (!lexer.at("(")) lexer.expected("'(values)', 'splat(value)' or 'base64(\"...\")'");
  return std::make_shared<HostTensor>(parse_values(lexer, dtype, std::move(shape), bytes));
}

struct ParseAttr {
  Lexer& lexer;
  const SymbolTable& symbols;

  AttrValue operator()(bool) const { return parse_bool(lexer); }
  AttrValue operator()(std::int64_t) const { return lexer.expect_int("an integer"); }
  AttrValue operator()(double) const { return parse_double(lexer); }
  AttrValue operator()(const std::string&) const {
    return lexer.expect_string("a string in double quotes");
  }
  AttrValue operator()(DType) const { return parse_dtype(lexer); }
  AttrValue operator()(Dim) const { return parse_dim(lexer, symbols); }
  AttrValue operator()(const TensorPtr&) const { return parse_tensor(lexer); }
  AttrValue operator()(const std::vector<Dim>&) const {
    return parse_dims(lexer, symbols, "[", "]", "a list of sizes");
  }
  template <class T>
  AttrValue operator()(const std::vector<T>&) const {
    std::vector<T> list;
    parse_list(lexer, "[", "]", "a list", [&] { list.push_back(std::get<T>((*this)(T{}))); });
    return list;
  }
};

}  // namespace

Dim parse_dim(Lexer& lexer, const SymbolTable& symbols) {
  Token first = lexer.peek();
  std::string_view raw = lexer.raw_dim();
  std::int64_t number = 0;
  auto [end, problem] = std::from_chars(raw.data(), raw.data() + raw.size(), number);
  if (problem == std::errc() && end == raw.data() + raw.size()) return Dim(number);
  if (auto it = symbols.find(raw); it != symbols.end()) return it->second;
  if (is_identifier(raw))
    lexer.fail_at(first.offset,
                  str("unknown symbol '", raw, "'; declare it before the graph: symbols ", raw));
  try {
    return parse_dim(raw, [&](std::string_view name) -> std::optional<Dim> {
      auto it = symbols.find(name);
      return it == symbols.end() ? std::nullopt : std::optional(it->second);
    });
  } catch (const UserError& error) {
    lexer.fail_at(first.offset, str("expected a size, got '", raw, "': ", error.what()));
  }
}

Type parse_type(Lexer& lexer, const SymbolTable& symbols) {
  if (lexer.accept("token")) return Type::token();
  if (lexer.peek().kind != Token::Kind::identifier || !dtype_from_name(lexer.peek().text))
    lexer.expected("a type such as f32[4, s0] or token");
  DType dtype = parse_dtype(lexer);
  Type type = Type::tensor(dtype, parse_dims(lexer, symbols, "[", "]", "a shape"));
  if (lexer.at("{")) {
    std::size_t offset = lexer.peek().offset;
    type.strides = parse_dims(lexer, symbols, "{", "}", "strides");
    if (type.strides->size() != type.shape.size())
      lexer.fail_at(offset, str("expected ", type.shape.size(), " strides, one for each size, got ",
                                type.strides->size()));
  }
  return type;
}

AttrValue parse_attr(Lexer& lexer, const SymbolTable& symbols, const AttrValue& like) {
  return std::visit(ParseAttr{lexer, symbols}, like);
}

}  // namespace gex
