#include "backend/cpu/llvm/target.hpp"

#include <llvm/ADT/StringMap.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/TargetParser/Host.h>

#include <cstdlib>

namespace gex::codegen {
namespace {

llvm::StringMap<bool> host_features() {
#if LLVM_VERSION_MAJOR >= 19
  return llvm::sys::getHostCPUFeatures();
#else
  llvm::StringMap<bool> features;
  llvm::sys::getHostCPUFeatures(features);
  return features;
#endif
}

Target detect() {
  Target t;
  t.cpu = llvm::sys::getHostCPUName().str();
  auto features = host_features();
  // For tests of the narrower form on a wide machine.
  const char* limit = std::getenv("GEX_CPU_VECTOR_BYTES");
  if (limit && *limit != '\0' && std::atoi(limit) < 64) {
    t.cpu = "haswell";
    for (auto& f : features)
      if (f.getKey().starts_with("avx512")) f.second = false;
  }
  for (const auto& f : features) {
    if (!t.features.empty()) t.features += ',';
    t.features += (f.getValue() ? "+" : "-") + f.getKey().str();
  }
  auto has = [&](const char* name) { return features.lookup(name); };
  t.avx512 = has("avx512f") && has("avx512dq") && has("avx512bw") && has("avx512vl");
  bool avx2 = has("avx2") && has("fma") && has("f16c");
  t.vector_bytes = t.avx512 ? 64 : avx2 ? 32 : 16;
#if defined(__x86_64__)
  if (!avx2) t.why_not = "this processor has no AVX2, FMA and F16C, which generated code needs";
#endif
  return t;
}

}  // namespace

const Target& host_target() {
  static const Target target = detect();
  return target;
}

}  // namespace gex::codegen
