#pragma once
// A folder for compiled programs that is removed with the test, and a graph to cache in it.

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "cache/store.hpp"
#include "harness.hpp"

namespace gex::test {

namespace fs = std::filesystem;

// A matmul with an epilogue, a softmax, a constant, attention-like structure: every kind of code.
inline const char* const kGraph = R"(symbols s0 in [1, 512]
graph NAME(%x: f32[s0, 48], %w: f32[48, 40], %b: f32[40]) -> (f32[2, s0, 40], f32[s0]) {
  %c = constant() {value = f32[2, 1](0.125, 3.5)} : f32[2, 1]
  %a = matmul(%x, %w) : f32[s0, 40]
  %d = add(%a, %b) : f32[s0, 40]
  %h = reshape(%c) {shape = [2, 1, 1]} : f32[2, 1, 1]
  %e = mul(%d, %h) : f32[2, s0, 40]
  %f = softmax(%e) {axis = 2} : f32[2, s0, 40]
  %g = reduce_sum(%f) {axes = [0, 2]} : f32[s0]
  return %f, %g
})";

inline std::string graph_text(const std::string& name = "main") {
  std::string text = kGraph;
  return text.replace(text.find("NAME"), 4, name);
}

class Cache : public testing::Test {
 protected:
  Cache() {
    std::string name = testing::TempDir() + "gex_cache_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    store_ = std::make_shared<Store>(folder_ + "/store");
    set_log_level(LogLevel::error);
  }
  ~Cache() override {
    set_log_level(LogLevel::warning);
    fs::remove_all(folder_);
  }
  Compiled compiled(const std::string& text = graph_text(),
                    const std::function<void(CompileOptions&)>& change = {}) {
    CompileOptions options;
    options.cache = store_;
    if (change) change(options);
    return compile(parse_graph(text), options);
  }
  static bool was_kept(const Compiled& compiled) {
    for (const auto& [name, count] : compiled.report.counts)
      if (name == "programs_from_cache") return count == 1;
    return false;
  }
  std::vector<StoreEntry> of_kind(const std::string& kind) const {
    std::vector<StoreEntry> entries = store_->entries();
    std::erase_if(entries, [&](const StoreEntry& entry) { return entry.kind != kind; });
    return entries;
  }
  static std::vector<HostTensor> inputs() {
    std::mt19937 random(3);
    return {random_tensor(DType::f32, {9, 48}, random), random_tensor(DType::f32, {48, 40}, random),
            random_tensor(DType::f32, {40}, random)};
  }
  static std::vector<HostTensor> results_of(const Compiled& compiled) {
    return results_of(compiled, inputs());
  }
  static std::vector<HostTensor> results_of(const Compiled& compiled,
                                            std::vector<HostTensor> given) {
    runtime::SessionOptions options;
    options.frozen = compiled.frozen;
    runtime::Session session(compiled.executable, options, compiled.specialiser);
    return execute(session, given);
  }
  std::string folder_;
  std::shared_ptr<Store> store_;
};

}  // namespace gex::test
