#pragma once
// Compiles small graphs with a registered pass, and inspects the results.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <gex/es.hpp>
#include <gex/pass.hpp>

namespace gex::test {

using namespace gex::es;

inline int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// A pass for as long as a test runs.
template <class P>
class Registered {
 public:
  explicit Registered(std::string name, const std::string& stage = "early")
      : name_(std::move(name)) {
    RegisterPass<P>(name_, stage);
  }
  ~Registered() { UnregisterPass(name_); }

 private:
  std::string name_;
};

inline Program compiled(const std::string& text) { return Graph::Parse(text)->Compile(); }
inline std::string graph_of(const Program& program) { return program.Print(Level::graph); }

// {"match_times": "1", "effect_times": "0"} of one pass.
inline std::string statistics(const Program& program, const std::string& pass) {
  char* text = nullptr;
  detail::Check(gex_program_print(program.handle(), GEX_LEVEL_PASSES, &text));
  const std::string all = detail::Take(text);
  const std::size_t at = all.find("\"" + pass + "\": {");
  if (at == std::string::npos) return "";
  const std::size_t from = all.find('{', at);
  return all.substr(from, all.find('}', from) - from + 1);
}

template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::string adds(const char* constant) {
  return std::string("graph main(%x: f32[4]) -> (f32[4]) {\n  %c = constant() {value = ") +
         constant + "} : " + std::string(constant, std::string(constant).find(']') + 1) +
         "\n  %y = add(%x, %c) : f32[4]\n  return %y\n}";
}

class AddZero : public PatternPass {
 public:
  std::vector<Pattern> Patterns() const override {
    EsGraphBuilder builder("add_zero");
    auto x = builder.CreateInput(0);
    return Only(builder.BuildAndReset({x + 0.0f}));
  }
  Holders Replacement(const Match& match) const override { return {match.Input(0)}; }
};

}  // namespace gex::test
