// A library of one op, whose body is loop text: x * x * x.

#include <gex/es.hpp>

namespace {

const struct Registration {
  Registration() {
    try {
      gex::es::RegisterLoopOp("plugin.cube", "x * x * x", R"(symbols n
kernel cube(x: in f32[n], y: out f32[n]) grid(i < n) {
  stage {
    v0 = load x[i] : f32
    v1 = mul v0, v0 : f32
    v2 = mul v1, v0 : f32
    store y[i] = v2
  }
}
)");
    } catch (const std::exception& error) {
      gex_plugin_failed(error.what());
    }
  }
} registration;

}  // namespace
