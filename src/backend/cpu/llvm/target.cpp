#include "backend/cpu/llvm/target.hpp"

#include <llvm/ADT/StringMap.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/TargetParser/Host.h>

#include "base/cpu_level.hpp"
#include "base/error.hpp"

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

// f16c belongs to v3 and above; without it conversions of f16 are function calls.
Target x86_level(const char* cpu, int vector_bytes, std::string features) {
  Target t;
  t.cpu = cpu;
  t.features = std::move(features);
  t.vector_bytes = vector_bytes;
  t.avx512 = vector_bytes == 64;
  return t;
}

Target detect() {
  Target t;
  t.cpu = llvm::sys::getHostCPUName().str();
  const auto features = host_features();
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

// The host's target, or the level that GEX_CPU limits it to.
Target detect_limited() {
  Target host = detect();
#if defined(__x86_64__)
  const int level = cpu_level_limit();
  if (level == 3 && host.avx512) return target_of_level("v3");
  if (level == 2) return target_of_level("v2");
#endif
  return host;
}

}  // namespace

const Target& target_of_level(std::string_view level) {
#if defined(__x86_64__)
  static const Target v2 = x86_level("x86-64-v2", 16, "");
  static const Target v3 = x86_level("x86-64-v3", 32, "+avx2,+fma,+f16c");
  static const Target v4 = x86_level(
      "x86-64-v4", 64, "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl,-prefer-256-bit");
  if (level == "v2") return v2;
  if (level == "v3") return v3;
  if (level == "v4") return v4;
  fail(ErrorCode::invalid_argument, "there is no processor level '", level,
       "'; the levels are v2, v3 and v4");
#else
  fail(ErrorCode::unsupported, "machine code for processor level '", level,
       "' is made on x86-64 only");
#endif
}

const Target& host_target() {
  static const Target target = detect_limited();
  return target;
}

}  // namespace gex::codegen
