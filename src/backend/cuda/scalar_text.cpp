#include "backend/cuda/scalar_text.hpp"

#include <bit>
#include <cmath>
#include <sstream>

#include "base/error.hpp"
#include "loop/scalar.hpp"

namespace gex::backend::cuda {

using loop::Prim;

namespace {

// Rounds a float in a register to a low float's values.
std::string rounded(DType dtype, const std::string& value) {
  if (dtype == DType::f16) return "of_f16(to_f16(" + value + "))";
  if (dtype == DType::bf16) return "of_bf16(to_bf16(" + value + "))";
  return value;
}

// A 64-bit integer truncated to the width of the dtype.
std::string cut(DType dtype, const std::string& value) {
  if (dtype == DType::boolean) return "((" + value + ") != 0)";
  if (dtype == DType::i64) return value;
  return "(" + register_type(dtype) + ")(" + value + ")";
}

std::string call(const std::string& function, std::span<const std::string> args) {
  std::string out = function + "(";
  for (std::size_t i = 0; i < args.size(); ++i) out += (i == 0 ? "" : ", ") + args[i];
  return out + ")";
}

std::string infix(const char* op, std::span<const std::string> args) {
  return "(" + args[0] + " " + op + " " + args[1] + ")";
}

const char* comparison(Prim prim) {
  switch (prim) {
    case Prim::eq:
      return "==";
    case Prim::ne:
      return "!=";
    case Prim::lt:
      return "<";
    case Prim::le:
      return "<=";
    case Prim::gt:
      return ">";
    case Prim::ge:
      return ">=";
    default:
      return nullptr;
  }
}

// C functions that exist as name() for double and namef() for float.
const char* c_function(Prim prim) {
  switch (prim) {
    case Prim::fmod:
      return "fmod";
    case Prim::pow:
      return "pow";
    case Prim::atan2:
      return "atan2";
    case Prim::abs:
      return "fabs";
    case Prim::sqrt:
      return "sqrt";
    case Prim::exp:
      return "exp";
    case Prim::exp2:
      return "exp2";
    case Prim::expm1:
      return "expm1";
    case Prim::log:
      return "log";
    case Prim::log2:
      return "log2";
    case Prim::log10:
      return "log10";
    case Prim::log1p:
      return "log1p";
    case Prim::sin:
      return "sin";
    case Prim::cos:
      return "cos";
    case Prim::tan:
      return "tan";
    case Prim::asin:
      return "asin";
    case Prim::acos:
      return "acos";
    case Prim::atan:
      return "atan";
    case Prim::sinh:
      return "sinh";
    case Prim::cosh:
      return "cosh";
    case Prim::tanh:
      return "tanh";
    case Prim::erf:
      return "erf";
    case Prim::floor:
      return "floor";
    case Prim::ceil:
      return "ceil";
    case Prim::round:
      return "rint";
    case Prim::trunc:
      return "trunc";
    default:
      return nullptr;
  }
}

std::string float_prim(Prim prim, DType dtype, std::span<const std::string> args) {
  const bool wide = dtype == DType::f64;
  const std::string suffix = wide ? "" : "f", helper = wide ? "_f64" : "_f32";
  const std::string one = wide ? "1.0" : "1.0f";
  if (const char* name = c_function(prim)) return call(name + suffix, args);
  switch (prim) {
    case Prim::add:
      return infix("+", args);
    case Prim::sub:
      return infix("-", args);
    case Prim::mul:
      return infix("*", args);
    case Prim::div:
      return infix("/", args);
    case Prim::truncdiv:
      return "trunc" + suffix + infix("/", args);
    case Prim::floordiv:
      return call("floordiv" + helper, args);
    case Prim::mod:
      return call("mod" + helper, args);
    case Prim::min:
      return call("min" + helper, args);
    case Prim::max:
      return call("max" + helper, args);
    case Prim::sign:
      return call("sign" + helper, args);
    case Prim::neg:
      return "(-" + args[0] + ")";
    case Prim::rsqrt:
      return "(" + one + " / sqrt" + suffix + "(" + args[0] + "))";
    case Prim::reciprocal:
      return "(" + one + " / " + args[0] + ")";
    case Prim::sigmoid:
      return "(" + one + " / (" + one + " + exp" + suffix + "(-" + args[0] + ")))";
    case Prim::is_nan:
      return "(" + args[0] + " != " + args[0] + ")";
    case Prim::is_inf:
      return "(fabs" + suffix + "(" + args[0] +
             ") == " + constant_text(dtype, std::numeric_limits<double>::infinity(), 0) + ")";
    default:
      break;
  }
  fail(ErrorCode::unsupported, "CUDA: ", loop::name_of(prim), " on ", dtype, " has no spelling");
}

std::string int_prim(Prim prim, DType dtype, std::span<const std::string> args) {
  const auto wrapping = [&](const char* op) {
    return "(i64)((u64)(i64)" + args[0] + " " + op + " (u64)(i64)" + args[1] + ")";
  };
  switch (prim) {
    case Prim::add:
      return wrapping("+");
    case Prim::sub:
      return wrapping("-");
    case Prim::mul:
      return wrapping("*");
    case Prim::floordiv:
    case Prim::mod:
    case Prim::truncdiv:
    case Prim::fmod:
    case Prim::pow:
    case Prim::min:
    case Prim::max:
    case Prim::shl:
    case Prim::shr:
      return call("int_" + std::string(loop::name_of(prim)), args);
    case Prim::neg:
      return "(i64)(-(u64)(i64)" + args[0] + ")";
    case Prim::abs:
      return "(" + args[0] + " < 0 ? (i64)(-(u64)(i64)" + args[0] + ") : (i64)" + args[0] + ")";
    case Prim::sign:
      return "((" + args[0] + " > 0) - (" + args[0] + " < 0))";
    case Prim::floor:
    case Prim::ceil:
    case Prim::round:
    case Prim::trunc:
      return args[0];
    case Prim::bit_and:
      return infix("&", args);
    case Prim::bit_or:
      return infix("|", args);
    case Prim::bit_xor:
      return infix("^", args);
    case Prim::bit_not:
      return (dtype == DType::boolean ? "!" : "~") + args[0];
    default:
      break;
  }
  fail(ErrorCode::unsupported, "CUDA: ", loop::name_of(prim), " on ", dtype, " has no spelling");
}

}  // namespace

std::string register_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "double";
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return "float";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "int";
    case DType::i16:
      return "short";
    case DType::i8:
      return "signed char";
    case DType::u8:
      return "unsigned char";
    case DType::boolean:
      return "bool";
  }
  return "?";
}

std::string memory_type(DType dtype) {
  if (is_low_float(dtype)) return "unsigned short";
  if (dtype == DType::boolean) return "unsigned char";
  return register_type(dtype);
}

std::string from_memory(DType dtype, const std::string& element) {
  if (dtype == DType::f16) return "of_f16(" + element + ")";
  if (dtype == DType::bf16) return "of_bf16(" + element + ")";
  if (dtype == DType::boolean) return "(" + element + " != 0)";
  return element;
}

std::string to_memory(DType dtype, const std::string& value) {
  if (dtype == DType::f16) return "to_f16(" + value + ")";
  if (dtype == DType::bf16) return "to_bf16(" + value + ")";
  if (dtype == DType::boolean) return "(unsigned char)(" + value + ")";
  return value;
}

std::string constant_text(DType dtype, double imm, std::int64_t imm_int) {
  std::ostringstream out;
  if (dtype == DType::f64) {
    out << "f64_of_bits(0x" << std::hex << std::bit_cast<std::uint64_t>(imm) << "ull)";
  } else if (is_float(dtype)) {
    out << "f32_of_bits(0x" << std::hex << std::bit_cast<std::uint32_t>(static_cast<float>(imm))
        << "u)";
  } else if (dtype == DType::boolean) {
    out << (imm != 0 ? "true" : "false");
  } else {
    out << "(" << register_type(dtype) << ")(i64)" << static_cast<std::uint64_t>(imm_int) << "ull";
  }
  return out.str();
}

std::string cast_text(DType from, DType to, const std::string& value) {
  if (to == DType::boolean) return "(" + value + " != 0)";
  if (is_float(from) && !is_float(to))
    return cut(to, str(loop::converts_through_i32(to) ? "to_i32_" : "to_i64_",
                       from == DType::f64 ? "f64(" : "f32(", value, ")"));
  if (!is_float(to)) return cut(to, "(i64)" + value);
  if (to == DType::f64) return "(double)" + value;
  return rounded(to, "(float)" + value);
}

std::string prim_text(Prim prim, DType operand, DType result, std::span<const std::string> args) {
  if (prim == Prim::select) return "(" + args[0] + " ? " + args[1] + " : " + args[2] + ")";
  if (prim == Prim::philox) return call("philox", args);
  if (const char* op = comparison(prim)) return infix(op, args);
  if (is_float(operand)) return rounded(result, float_prim(prim, operand, args));
  return cut(result, int_prim(prim, operand, args));
}

}  // namespace gex::backend::cuda
