// Evaluation: one Dim at a time (eval), or many compiled to a flat tape (DimTape).
#include <algorithm>

#include "base/dim/node.hpp"
#include "base/error.hpp"

namespace gex {

namespace {

using Kind = Dim::Kind;

[[noreturn]] void fail_overflow() {
  fail(ErrorCode::invalid_argument, "a size expression overflows 64 bits for these sizes");
}

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_add_overflow(a, b, &r)) fail_overflow();
  return r;
}

std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) fail_overflow();
  return r;
}

std::int64_t checked_div(std::int64_t a, std::int64_t b) {
  if (b == 0) fail(ErrorCode::invalid_argument, "a size expression divides by zero");
  if (b == -1 && a == INT64_MIN) fail_overflow();
  return floor_div(a, b);
}

std::int64_t checked_mod(std::int64_t a, std::int64_t b) {
  if (b == 0) fail(ErrorCode::invalid_argument, "a size expression divides by zero");
  return floor_mod(a, b);
}

}  // namespace

std::int64_t Dim::eval(const std::function<std::int64_t(Dim symbol)>& value_of) const {
  auto at = [&](std::size_t i) { return node_->operands[i].eval(value_of); };
  switch (node_->kind) {
    case Kind::constant:
      return node_->value;
    case Kind::symbol:
      return value_of(*this);
    case Kind::add: {
      std::int64_t sum = 0;
      for (Dim d : node_->operands) sum = checked_add(sum, d.eval(value_of));
      return sum;
    }
    case Kind::mul: {
      std::int64_t product = 1;
      for (Dim d : node_->operands) product = checked_mul(product, d.eval(value_of));
      return product;
    }
    case Kind::floordiv:
      return checked_div(at(0), at(1));
    case Kind::mod:
      return checked_mod(at(0), at(1));
    case Kind::min:
      return std::min(at(0), at(1));
    case Kind::max:
      return std::max(at(0), at(1));
  }
  GEX_CHECK(false, "unknown kind of Dim");
  return 0;
}

namespace {

enum TapeOp : std::uint8_t {
  tape_constant,
  tape_symbol,
  tape_add,
  tape_mul,
  tape_floordiv,
  tape_mod,
  tape_min,
  tape_max
};

TapeOp tape_op(Kind kind) {
  switch (kind) {
    case Kind::add:
      return tape_add;
    case Kind::mul:
      return tape_mul;
    case Kind::floordiv:
      return tape_floordiv;
    case Kind::mod:
      return tape_mod;
    case Kind::min:
      return tape_min;
    case Kind::max:
      return tape_max;
    default:
      break;
  }
  GEX_CHECK(false, "not an operation");
  return tape_constant;
}

}  // namespace

DimTape::DimTape(std::vector<Dim> symbols) : symbols_(std::move(symbols)) {
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    GEX_CHECK(symbols_[i].is_symbol(), "not a symbol: ", symbols_[i]);
  }
}

int DimTape::add(Dim e) {
  if (auto at = slot_of_.find(e.node()); at != slot_of_.end()) return at->second;
  Instruction made{};
  switch (e.kind()) {
    case Kind::constant:
      made = {tape_constant, 0, 0, e.constant()};
      break;
    case Kind::symbol: {
      auto at = std::ranges::find(symbols_, e);
      if (at == symbols_.end()) {
        fail(ErrorCode::not_found, "the value of size ", e, " is not known here");
      }
      made = {tape_symbol, static_cast<std::int32_t>(at - symbols_.begin()), 0, 0};
      break;
    }
    default: {
      // A product goes through its monomial, which other products share.
      const DimNode* n = e.node();
      bool scaled = n->kind == Kind::mul && n->value != 1;
      std::vector<Dim> parts =
          scaled ? std::vector<Dim>{DimFactory::wrap(n->monomial), n->value} : n->operands;
      int a = add(parts[0]);
      for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
        int b = add(parts[i]);
        code_.push_back({tape_op(n->kind), a, b, 0});
        a = slots() - 1;
      }
      made = {tape_op(n->kind), a, add(parts.back()), 0};
      break;
    }
  }
  code_.push_back(made);
  slot_of_.emplace(e.node(), slots() - 1);
  return slots() - 1;
}

void DimTape::eval(std::span<const std::int64_t> values, std::span<std::int64_t> out) const {
  GEX_CHECK(values.size() == symbols_.size() && out.size() >= code_.size());
  for (std::size_t i = 0; i < code_.size(); ++i) {
    const Instruction& in = code_[i];
    auto a = static_cast<std::size_t>(in.a);
    auto b = static_cast<std::size_t>(in.b);
    switch (in.op) {
      case tape_constant:
        out[i] = in.imm;
        break;
      case tape_symbol:
        out[i] = values[a];
        break;
      case tape_add:
        out[i] = checked_add(out[a], out[b]);
        break;
      case tape_mul:
        out[i] = checked_mul(out[a], out[b]);
        break;
      case tape_floordiv:
        out[i] = checked_div(out[a], out[b]);
        break;
      case tape_mod:
        out[i] = checked_mod(out[a], out[b]);
        break;
      case tape_min:
        out[i] = std::min(out[a], out[b]);
        break;
      case tape_max:
        out[i] = std::max(out[a], out[b]);
        break;
    }
  }
}

}  // namespace gex
