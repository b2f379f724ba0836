// A library of one pass: x + 0 -> x.

#include <gex/es.hpp>
#include <gex/pass.hpp>

namespace {

class AddZero : public gex::es::PatternPass {
 public:
  std::vector<gex::es::Pattern> Patterns() const override {
    gex::es::EsGraphBuilder builder("add_zero");
    auto x = builder.CreateInput(0);
    return Only(builder.BuildAndReset({x + 0.0f}));
  }
  Holders Replacement(const gex::es::Match& match) const override { return {match.Input(0)}; }
};

GEX_REGISTER_PASS(AddZero, "plugin-add-zero", "BEFORE_INFER_SHAPE", {"x + 0 -> x", 1})

}  // namespace
