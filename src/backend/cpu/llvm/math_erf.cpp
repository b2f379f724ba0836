// The error function in f32. With vectors of 16 lanes it is a polynomial for each of 16 intervals,
// whose coefficients are permuted into the lanes; elsewhere two formulas that need no tables.

#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "backend/cpu/llvm/math.hpp"

namespace gex::codegen::math {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

namespace {

constexpr std::size_t kEntries = 16;
using Table = float[kEntries];

// Minimax fits of erf around the middles i*kWidth, by powers of the distance. The last interval
// ends where the result is 1.
constexpr double kWidth = 0.261500001;  // as f32: products with an interval's number are exact
constexpr Table kErf[] = {
    {0, 0.288481027, 0.540477693, 0.732764125, 0.860931158, 0.935554326, 0.97350657, 0.990366578,
     0.996908963, 0.999126375, 0.99978286, 0.999952555, 0.99999094, 0.99999845, 0.999999762, 1},
    {1.12837923, 1.05379725, 0.858347118, 0.609779418, 0.377821386, 0.20417577, 0.0962333977,
     0.0395595506, 0.0141834151, 0.00443521095, 0.00120962819, 0.00028773566, 5.96952668e-05,
     1.08016675e-05, 1.70469514e-06, 2.34643267e-07},
    {2.79317305e-07, -0.275561273, -0.448907524, -0.478368282, -0.395202637, -0.266963452,
     -0.15099296, -0.0724147111, -0.0296714958, -0.0104377586, -0.00316279894, -0.000827483134,
     -0.000187252081, -3.66984204e-05, -6.23541791e-06, -9.19246077e-07},
    {-0.376142085, -0.30324924, -0.129610717, 0.0469187573, 0.149642631, 0.164641872, 0.125860244,
     0.0751843229, 0.0366551094, 0.0148992371, 0.00511102704, 0.00149110111, 0.000371892558,
     7.9587051e-05, 1.4654298e-05, 2.32640537e-06},
    {0.000294620055, 0.13044399, 0.182276428, 0.140477389, 0.0537015125, -0.0180796478,
     -0.047976207, -0.0445256121, -0.0284835603, -0.014133038, -0.00568738813, -0.0018981098,
     -0.000532242877, -0.000126446233, -2.55976502e-05, -4.43393355e-06},
    {0.110925376, 0.0780697539, 0.00140370335, -0.0575352497, -0.0668472201, -0.0396418348,
     -0.00758811831, 0.00996825751, 0.0127339549, 0.00876032934, 0.00437717512, 0.00172103383,
     0.000551355944, 0.000146654405, 3.27637572e-05, 6.19536877e-06},
};

// Half of a vector: the low or the high lanes.
Value* half_of(Ir& ir, Value* v, bool high) {
  std::vector<int> lanes;
  const int half = Ir::width(v) / 2;
  for (int l = 0; l < half; ++l) lanes.push_back(high ? half + l : l);
  return ir.b.CreateShuffleVector(v, lanes);
}

Value* load_entry(Ir& ir, llvm::GlobalVariable* table, Value* entry) {
  Value* at = ir.b.CreateZExt(entry, ir.b.getInt64Ty());
  Value* address = ir.b.CreateGEP(ir.b.getFloatTy(), table, at);
  return ir.b.CreateAlignedLoad(ir.b.getFloatTy(), address, llvm::Align(4));
}

// The entry that the low four bits of each index name.
Value* looked_up(Ir& ir, const Table& table, Value* index) {
  auto& context = ir.b.getContext();
  const llvm::ArrayRef<float> entries(table, kEntries);
  const int width = Ir::width(index);
  if (width == 16) {
    Value* all = llvm::ConstantDataVector::get(context, entries);
    return ir.b.CreateIntrinsic(Intrinsic::x86_avx512_permvar_sf_512, {}, {all, index});
  }
  if (width > 16) {
    Value* low = looked_up(ir, table, half_of(ir, index, false));
    Value* high = looked_up(ir, table, half_of(ir, index, true));
    std::vector<int> lanes;
    for (int l = 0; l < width; ++l) lanes.push_back(l);
    return ir.b.CreateShuffleVector(low, high, lanes);
  }
  auto* values = llvm::ConstantDataArray::get(context, entries);
  auto* global = new llvm::GlobalVariable(ir.module, values->getType(), true,
                                          llvm::GlobalValue::PrivateLinkage, values, "gex.table");
  Value* entry = ir.b.CreateAnd(index, ir.integer(index, kEntries - 1));
  if (width == 1) return load_entry(ir, global, entry);
  Value* result = ir.zero(Ir::like(index, ir.b.getFloatTy()));
  for (int l = 0; l < width; ++l) {
    const auto lane = static_cast<std::uint64_t>(l);
    Value* value = load_entry(ir, global, ir.b.CreateExtractElement(entry, lane));
    result = ir.b.CreateInsertElement(result, value, lane);
  }
  return result;
}

Value* erf_by_table(Ir& ir, Value* x) {
  Value* a = ir.unary(Intrinsic::fabs, x);
  Value* end = ir.real(x, 4);
  Value* t = ir.b.CreateSelect(ir.b.CreateFCmpOLT(end, a), end, a);  // NaN stays NaN
  // Adding 2^23 rounds to the nearest integer, which is then in the low bits.
  Value* big = ir.real(x, 0x1p23);
  Value* sum = ir.fma(t, ir.real(x, 1 / kWidth), big);
  Value* index = ir.bits_of(sum);
  Value* u = ir.fma(ir.b.CreateFSub(sum, big), ir.real(x, -kWidth), t);
  Value* p = nullptr;
  for (std::size_t k = std::size(kErf); k-- > 0;) {
    Value* coefficient = looked_up(ir, kErf[k], index);
    p = p == nullptr ? coefficient : ir.fma(p, u, coefficient);
  }
  return ir.copysign(p, x);
}

Value* erf_by_formulas(Ir& ir, Value* x) {
  Value* t = ir.unary(Intrinsic::fabs, x);
  // Near zero: x + x*P(x^2).
  Value* z = ir.b.CreateFMul(x, x);
  Value* p = ir.poly(
      z, {0.128379151, -0.376124799, 0.112816826, -0.02676172, 0.00498594018, -0.000595373975});
  Value* near = ir.fma(p, x, x);
  // Beyond: 1 - e^(t*G(t) - t), which is 1 from 3.92 on.
  Value* four = ir.real(x, 4);
  Value* u = ir.b.CreateSelect(ir.b.CreateFCmpOLT(four, t), four, t);
  Value* g = ir.poly(u, {-0.12864849, -0.635151327, -0.106236912, 0.023762092, -0.00364247407,
                         0.000322807813, -1.12317302e-05});
  Value* tail = exp_roughly(ir, ir.fma(g, u, ir.b.CreateFNeg(u)));
  Value* far = ir.copysign(ir.b.CreateFSub(ir.real(x, 1), tail), x);
  return ir.b.CreateSelect(ir.b.CreateFCmpOGT(t, ir.real(x, 0.925)), far, near);
}

}  // namespace

Value* erf(Ir& ir, Value* x) {
  return ir.target.avx512 ? erf_by_table(ir, x) : erf_by_formulas(ir, x);
}

}  // namespace gex::codegen::math
