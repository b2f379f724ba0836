#include "codegen/llvm/target.hpp"

#include <llvm/ADT/StringMap.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/TargetParser/Host.h>

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
  for (const auto& f : features) {
    if (!t.features.empty()) t.features += ',';
    t.features += (f.getValue() ? "+" : "-") + f.getKey().str();
  }
  auto has = [&](const char* name) { return features.lookup(name); };
  t.avx512 = has("avx512f") && has("avx512dq") && has("avx512bw") && has("avx512vl");
  t.vector_bytes = t.avx512 ? 64 : has("avx2") ? 32 : 16;
  return t;
}

}  // namespace

const Target& host_target() {
  static const Target target = detect();
  return target;
}

}  // namespace gex::codegen
