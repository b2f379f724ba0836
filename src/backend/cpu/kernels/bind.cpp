#include "backend/cpu/kernels/bind.hpp"

namespace gex::kernels {

void check_product_dtypes(const char* kernel, DType a, DType b, DType out, bool has_epilogue) {
  const bool f64 = a == DType::f64;
  if (!is_float(a) || !is_float(b) || (b == DType::f64) != f64)
    fail(ErrorCode::unsupported, kernel,
         " kernel: operands must be f32, f16, bf16 or both f64, got ", a, " and ", b,
         "; cast them first");
  const bool stores =
      f64 ? out == DType::f64 || out == DType::f32 : is_float(out) && out != DType::f64;
  if (!has_epilogue && !stores)
    fail(ErrorCode::unsupported, kernel, " kernel: can't store ", out, " from operands ", a,
         " and ", b, "; cast the result in another step");
}

}  // namespace gex::kernels
