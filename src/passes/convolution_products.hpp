#pragma once
// conv2d(x[n, c, kh, kw], w[o, c, kh, kw]) -> matmul(reshape(x, [n, c*kh*kw]), w'): a convolution
// whose kernel covers the whole image, such as one over the means of channels, is a matmul over all
// images. After the passes that look for convolutions: those that fold batch norms and that find
// products of integers.

#include "passes/engine/pass.hpp"

namespace gex::passes {
Pass convolution_products();
}
