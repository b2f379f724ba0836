// The list of built-in op families. ir loads them through this hook on the first lookup.

#include "ir/op_def.hpp"
#include "ops/core/families.hpp"

namespace gex::ops {

// Linkers that take layers from archives ask for it by name: see scripts/layers.cmake.
void register_builtin_ops() {
  register_elementwise();
  register_division_rows();
  register_compare();
  register_activation();
  register_cast();
  register_create();
  register_reduce();
  register_view();
  register_view_rows();
  register_matmul();
  register_index_family();
  register_index_rows();
  register_softmax();
  register_norm();
  register_norm_rows();
  register_conv();
  register_conv_grad();
  register_conv3d();
  register_conv_rows();
  register_sort();
  register_unique_rows();
  register_grouped_matmul();
  register_attention();
  register_pool();
  register_pool_grad();
  register_pool_rows();
  register_interpolate();
  register_pad_modes();
  register_quantise();
  register_scan();
  register_random();
  register_random_rows();
  register_gradient_rows();
  register_loss_rows();
  register_control();
  register_call();
}

namespace {
[[maybe_unused]] const bool kLoaderSet = (set_builtin_ops_loader(&register_builtin_ops), true);
}  // namespace

}  // namespace gex::ops
