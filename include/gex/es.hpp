#pragma once
// The C++ way to build, compile and run graphs: header-only, over the C interface alone, so that a
// program needs nothing but these headers and -lgex.
//
//   gex::es::EsGraphBuilder builder("scale");
//   auto x = builder.CreateInput(0, "x", gex::es::DType::f32, {"s0", 4});
//   builder.SetOutput(2 * gex::es::Gelu(x) + 1, 0);
//   auto program = builder.Build()->Compile();
//   auto results = program.Run({gex::es::Tensor::Of<float>({1, 4}, {1, 2, 3, 4})});
//
// Every mistake throws gex::es::Error on the line that makes it. gex/es/ops.hpp, one function for
// each op, is written by the build.

#include "gex/es/builder.hpp"
#include "gex/es/control.hpp"
#include "gex/es/custom_op.hpp"
#include "gex/es/graph.hpp"
#include "gex/es/operators.hpp"
#include "gex/es/ops.hpp"
#include "gex/es/split.hpp"
#include "gex/es/tensor.hpp"
