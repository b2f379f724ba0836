#pragma once
// One function per family file; registry.cpp calls them all.

namespace gex::ops {

void register_elementwise();
void register_division_rows();
void register_compare();
void register_activation();
void register_cast();
void register_create();
void register_reduce();
void register_view();
void register_view_rows();
void register_matmul();
void register_index_family();
void register_index_rows();
void register_softmax();
void register_norm();
void register_norm_rows();
void register_conv();
void register_conv_grad();
void register_conv3d();
void register_conv_rows();
void register_sort();
void register_unique_rows();
void register_grouped_matmul();
void register_attention();
void register_pool();
void register_pool_grad();
void register_pool_rows();
void register_interpolate();
void register_pad_modes();
void register_quantise();
void register_scan();
void register_random();
void register_random_rows();
void register_gradient_rows();
void register_loss_rows();
void register_control();
void register_call();

}  // namespace gex::ops
