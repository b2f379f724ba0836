// The printed form of Dims and its parser. Python's operators and precedence.
#include <charconv>

#include "base/dim/node.hpp"
#include "base/error.hpp"

namespace gex {

namespace {

using Kind = Dim::Kind;

bool stands_alone(Dim d) {
  Kind k = d.kind();
  return k == Kind::symbol || k == Kind::min || k == Kind::max ||
         (k == Kind::constant && d.constant() >= 0);
}

void print(Dim d, std::string& out);

void print_operand(Dim d, std::string& out) {
  if (stands_alone(d)) return print(d, out);
  out += '(';
  print(d, out);
  out += ')';
}

// Without the sign of the coefficient. A division needs parentheses after '-' or next to '*'.
void print_summand(Dim d, bool protect, std::string& out) {
  if (d.is_const()) {
    std::string digits = std::to_string(d.constant());
    out += digits[0] == '-' ? digits.substr(1) : digits;
    return;
  }
  if (d.kind() != Kind::mul) return protect ? print_operand(d, out) : print(d, out);
  const DimNode* n = d.node();
  auto factors = atoms_of(DimFactory::wrap(n->monomial));
  std::string magnitude = std::to_string(n->value);
  if (magnitude[0] == '-') magnitude.erase(0, 1);
  bool alone = factors.size() == 1 && magnitude == "1";
  if (alone && !protect) return print(factors[0], out);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (i) out += '*';
    print_operand(factors[i], out);
  }
  if (magnitude != "1") out += "*" + magnitude;
}

bool is_negative(Dim summand) {
  return (summand.kind() == Kind::constant || summand.kind() == Kind::mul) &&
         summand.node()->value < 0;
}

void print_sum(std::span<const Dim> summands, std::string& out) {
  bool constant_first = summands[0].is_const();
  bool first = true;
  auto emit = [&](Dim d) {
    bool negative = is_negative(d);
    out += first ? (negative ? "-" : "") : (negative ? " - " : " + ");
    print_summand(d, first && negative, out);
    first = false;
  };
  for (Dim d : summands.subspan(constant_first ? 1 : 0)) emit(d);
  if (constant_first) emit(summands[0]);
}

void print_call(const char* name, Kind kind, Dim d, std::string& out) {
  out += name;
  out += '(';
  while (d.kind() == kind) {
    print(d.operands()[0], out);
    out += ", ";
    d = d.operands()[1];
  }
  print(d, out);
  out += ')';
}

void print(Dim d, std::string& out) {
  switch (d.kind()) {
    case Kind::constant:
      out += std::to_string(d.constant());
      break;
    case Kind::symbol:
      out += d.name();
      break;
    case Kind::add:
      print_sum(d.operands(), out);
      break;
    case Kind::mul:
      print_sum({&d, 1}, out);
      break;
    case Kind::floordiv:
    case Kind::mod:
      print_operand(d.operands()[0], out);
      out += d.kind() == Kind::mod ? " % " : "//";
      print_operand(d.operands()[1], out);
      break;
    case Kind::min:
      print_call("min", Kind::min, d, out);
      break;
    case Kind::max:
      print_call("max", Kind::max, d, out);
      break;
  }
}

using Lookup = std::function<std::optional<Dim>(std::string_view)>;

// sum: product (('+'|'-') product)*   product: unary (('*'|'//'|'%') unary)*   unary: '-'* primary
class Parser {
 public:
  Parser(std::string_view text, const Lookup& lookup) : text_(text), lookup_(lookup) {}

  Dim all() {
    Dim d = sum();
    if (!peek().empty()) stop("expected the end or an operator");
    return d;
  }

 private:
  [[noreturn]] void stop(const std::string& expected) {
    std::string_view token = peek();
    fail(ErrorCode::parse_error, "size expression '", text_, "', column ", at_ + 1, ": ", expected,
         ", got ", token.empty() ? "the end" : str("'", token, "'"));
  }

  static bool in_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  }

  std::string_view peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    std::size_t end = at_;
    if (end < text_.size() && in_name(text_[end])) {
      while (end < text_.size() && in_name(text_[end])) ++end;
    } else if (text_.substr(end, 2) == "//") {
      end += 2;
    } else if (end < text_.size()) {
      ++end;
    }
    return text_.substr(at_, end - at_);
  }

  bool take(std::string_view token) {
    if (peek() != token) return false;
    at_ += token.size();
    return true;
  }

  Dim sum() {
    Dim d = product();
    for (;;) {
      if (take("+")) {
        d = d + product();
      } else if (take("-")) {
        d = d - product();
      } else {
        return d;
      }
    }
  }

  Dim product() {
    Dim d = unary();
    for (;;) {
      if (take("*")) {
        d = d * unary();
      } else if (take("//")) {
        d = floordiv(d, unary());
      } else if (take("%")) {
        d = mod(d, unary());
      } else {
        return d;
      }
    }
  }

  Dim unary() {
    if (!take("-")) return primary();
    std::string_view token = peek();
    // The smallest integer has no positive counterpart, so the sign is parsed with the digits.
    if (!token.empty() && std::isdigit(static_cast<unsigned char>(token[0]))) return number(true);
    return -unary();
  }

  Dim number(bool negative) {
    std::string_view token = peek();
    std::string digits = (negative ? "-" : "") + std::string(token);
    std::int64_t value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      stop("expected a 64-bit integer");
    }
    at_ += token.size();
    return value;
  }

  Dim call(Dim (*combine)(Dim, Dim)) {
    if (!take("(")) stop("expected '('");
    Dim d = sum();
    while (take(",")) d = combine(d, sum());
    if (!take(")")) stop("expected ')'");
    return d;
  }

  Dim primary() {
    struct Depth {
      int& depth;
      ~Depth() { --depth; }
    } guard{depth_};
    if (++depth_ > 1000) stop("expected fewer than 1000 nested parentheses");
    std::string_view token = peek();
    if (token.empty()) stop("expected a number, a name or '('");
    if (std::isdigit(static_cast<unsigned char>(token[0]))) return number(false);
    if (take("min")) return call(min);
    if (take("max")) return call(max);
    if (take("(")) {
      Dim d = sum();
      if (!take(")")) stop("expected ')'");
      return d;
    }
    if (!in_name(token[0])) stop("expected a number, a name or '('");
    auto found = lookup_(token);
    if (!found) stop("expected a known size");
    at_ += token.size();
    return *found;
  }

  std::string_view text_;
  const Lookup& lookup_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string Dim::text() const {
  std::string out;
  print(*this, out);
  return out;
}

Dim parse_dim(std::string_view text, const Lookup& lookup) { return Parser(text, lookup).all(); }

}  // namespace gex
