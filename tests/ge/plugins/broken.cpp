// A library whose pass can't be registered: its pattern computes nothing.

#include <gex/es.hpp>
#include <gex/pass.hpp>

namespace {

class Nothing : public gex::es::PatternPass {
 public:
  std::vector<gex::es::Pattern> Patterns() const override {
    gex::es::EsGraphBuilder builder("nothing");
    auto x = builder.CreateInput(0);
    return Only(builder.BuildAndReset({x}));
  }
  Holders Replacement(const gex::es::Match& match) const override { return {match.Input(0)}; }
};

GEX_REGISTER_PASS(Nothing, "plugin-nothing", "early")

}  // namespace
