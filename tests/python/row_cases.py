"""For every ATen overload that has a row, calls that exercise it; a test checks it is complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.inductor_prims  # registers prims.fma

import row_cases_order
import row_cases_windows
import row_samples as r
import row_samples_select as s
from row_samples import Case, one

# fmt: off
_ROWS_BY_SHAPE: dict[Case, list[str]] = {
    r.unary: [
        "abs", "atan", "bitwise_not", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1",
        "fix", "floor", "frac", "gelu", "hardsigmoid", "hardswish", "hardtanh", "isinf", "isnan",
        "isneginf", "isposinf", "asinh", "leaky_relu", "elu", "logical_not", "mish",
        "nan_to_num", "neg", "relu", "round", "sgn", "sigmoid", "sign", "silu", "sin", "sinh",
        "softplus", "square", "tan", "tanh", "trunc", "log_sigmoid_forward",
    ],
    r.unary_positive: [
        "log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sqrt",
    ],
    r.unary_unit: ["acos", "asin", "atanh"],
    r.same: [
        "alias", "clone", "contiguous", "detach", "lift", "lift_fresh", "lift_fresh_copy",
        "positive", "all", "any", "sum", "prod", "mean", "max", "min", "argmax", "argmin",
        "aminmax", "count_nonzero", "squeeze",
    ],
    r.like: ["zeros_like", "ones_like", "empty_like", "zero", "t"],
    r.extremum_other: [
        "maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or", "logical_xor",
    ],
    r.binary: ["atan2", "floor_divide", "hypot", "logaddexp"],
    r.along_axis: ["_safe_softmax", "cumsum", "cumprod"],
    r.softmax: ["_softmax", "_log_softmax"],
    r.matrices: ["mm", "matmul"],
    r.unit_gradient: ["sigmoid_backward", "tanh_backward"],
    r.gradient(): [
        "silu_backward", "gelu_backward", "hardswish_backward", "hardsigmoid_backward",
        "mish_backward",
    ],
}
# fmt: on

_TENSOR_AND_SCALAR: dict[str, tuple[Case, Case]] = {
    "add": (r.scaled, r.scalar_scaled),
    "sub": (r.scaled, r.scalar_scaled),
    "rsub": (r.scaled, r.scalar_scaled),
    "mul": (r.tensor_or_scalar, r.binary_scalar),
    "div": (r.tensor_or_scalar, r.binary_scalar),
    "fmod": (r.binary, r.binary_scalar),
    "remainder": (r.binary, r.binary_scalar),
    **{op: (r.tensor_or_scalar, r.binary_scalar) for op in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{f"bitwise_{op}": (r.extremum_other, r.bits_scalar) for op in ("and", "or", "xor")},
    **{f"__{op}__": (r.extremum_other, r.bits_scalar) for op in ("and", "or")},
}

CASES: dict[str, Case] = {
    **row_cases_order.CASES,
    **row_cases_windows.CASES,
    **{f"aten.{n}.default": case for case, names in _ROWS_BY_SHAPE.items() for n in names},
    **{f"aten.{n}.Tensor": tensor for n, (tensor, _) in _TENSOR_AND_SCALAR.items()},
    **{f"aten.{n}.Scalar": scalar for n, (_, scalar) in _TENSOR_AND_SCALAR.items()},
    "aten.true_divide.Tensor": r.binary,
    "aten.floor_divide.Scalar": r.binary_scalar,
    "aten.remainder.Scalar_Tensor": one(lambda t: (7, t.positive(3))),
    "aten.div.Tensor_mode": lambda t: [
        case
        for m in (None, "floor", "trunc")
        for case in (
            (t(3, 4), t.positive(4), {"rounding_mode": m}),
            (
                t(400, low=-90, high=90),
                t(400) if t.dtype.is_floating_point else t.positive(400),
                {"rounding_mode": m},
            ),
        )
    ],
    "aten.div.Scalar_mode": lambda t: [
        (t(3, 4), 2, {"rounding_mode": m}) for m in (None, "floor", "trunc")
    ],
    "aten.bitwise_left_shift.Tensor": one(lambda t: (t.positive(3), t(3, low=0, high=4))),
    "aten.bitwise_right_shift.Tensor": one(lambda t: (t(3), t(3, low=0, high=4))),
    "aten.__lshift__.Scalar": one(lambda t: (t.positive(3), 2)),
    "aten.__rshift__.Scalar": one(lambda t: (t(3, low=0, high=90), 2)),
    "aten.__rshift__.Tensor": one(lambda t: (t(3, low=0, high=90), t(3, low=0, high=4))),
    "aten._weight_int8pack_mm.default": one(
        lambda t: (t(3, 32), torch.arange(-64, 64, dtype=torch.int8).reshape(4, 32), t(4))
    ),
    "aten.max.other": r.extremum_other,
    "aten.min.other": r.extremum_other,
    "aten.acosh.default": one(lambda t: (t(3, low=1.2, high=9),)),
    "aten.pow.Tensor_Tensor": one(lambda t: (t.positive(3, 4), t(4, low=0, high=2))),
    "aten.pow.Scalar": one(lambda t: (2.5, t(3))),
    "aten.pow.Tensor_Scalar": lambda t: [
        (t.positive(3), e) for e in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.7, 5)
    ],
    "aten.xlogy.Tensor": one(lambda t: (t.positive(3), t.positive(3))),
    "aten.xlogy.Scalar_Other": one(lambda t: (t(3), 2.0)),
    "aten.xlogy.Scalar_Self": one(lambda t: (0, t.positive(3))),
    "aten.addcmul.default": lambda t: [(t(3), t(3), t(3)), (t(3), t(3), t(1), {"value": 0.5})],
    "aten.addcdiv.default": one(lambda t: (t(3), t(3), t.positive(3), {"value": 0.5})),
    "aten.lerp.Scalar": lambda t: [(t(3), t(3), w) for w in (0.3, 0.8)],
    "aten.lerp.Tensor": one(lambda t: (t(3), t(3), t(3, low=0, high=1))),
    "aten.threshold.default": one(lambda t: (t(3, 4), 0.5, 7)),
    "aten.native_dropout_backward.default": one(lambda t: (t(3), t.mask(3), 1.25)),
    "prims.fma.default": one(lambda t: (t(3), t(3), t(3))),
    "aten.clamp.default": lambda t: [(t(3, 4), -1, 2), (t(3, 4), None, 1), (t(3, 4), -1, None)],
    "aten.clamp.Tensor": one(lambda t: (t(3, 4), t(4), t.positive(4))),
    "aten.clamp_min.default": r.clamp_one,
    "aten.clamp_max.default": r.clamp_one,
    "aten.clamp_min.Tensor": r.extremum_other,
    "aten.clamp_max.Tensor": r.extremum_other,
    "aten.where.self": r.where,
    "aten.where.Scalar": one(lambda t: (t.mask(3), 1.5, 2.5)),
    "aten.where.ScalarSelf": one(lambda t: (t.mask(3), 1.5, t(3))),
    "aten.where.ScalarOther": one(lambda t: (t.mask(3), t(3), 2)),
    "aten.masked_fill.Scalar": r.masked(1.0),
    "aten.masked_fill.Tensor": r.masked(torch.tensor(1.0)),
    # --- casts and creation
    "aten._to_copy.default": r.dtype_change,
    "aten.to.dtype": lambda t: [(t(3, 4), torch.float32), (t(3, 4), torch.int32)],
    "aten.to.dtype_layout": r.dtype_change,
    "prims.convert_element_type.default": one(lambda t: (t(3, 4), torch.float32)),
    "aten.copy.default": one(lambda t: (torch.zeros(3, 4), t(4))),
    "aten.zeros.default": r.sizes_then(),
    "aten.ones.default": r.sizes_then(),
    "aten.empty.memory_format": r.sizes_then(),
    "aten.empty_strided.default": r.sizes_then([3, 1]),
    "aten.empty_permuted.default": r.sizes_then([0, 1]),
    "aten.full.default": r.sizes_then(1),
    "aten.full_like.default": one(lambda t: (t(2, 3), 1)),
    "aten.new_zeros.default": r.new(),
    "aten.new_ones.default": r.new(),
    "aten.new_empty.default": r.new(),
    "aten.new_empty_strided.default": r.new([5, 1]),
    "aten.new_full.default": r.new(1),
    "aten.fill.Scalar": one(lambda t: (t(2, 3), 1)),
    "aten.fill.Tensor": one(lambda t: (t(2, 3), torch.tensor(1.0))),
    "aten.scalar_tensor.default": one(lambda t: (3.0, {"dtype": t.dtype})),
    "aten.arange.default": r.arange(7),
    "aten.arange.start": r.arange(2, 9),
    "aten.arange.start_step": lambda t: [(2, 11, 3, {"dtype": t.dtype}), (1.5, 0.2, -0.3)],
    "prims.iota.default": one(
        lambda t: (
            5,
            {
                "start": 2,
                "step": 3,
                "dtype": torch.int64,
                "device": torch.device("cpu"),
                "requires_grad": False,
            },
        )
    ),
    "aten.eye.default": one(lambda t: (3, {"dtype": t.dtype})),
    "aten.eye.m": one(lambda t: (3, 4, {"dtype": t.dtype})),
    # --- reductions
    "aten.sum.dim_IntList": r.reduce_axes,
    "aten.mean.dim": r.reduce_axes,
    "aten.amax.default": r.reduce_axes,
    "aten.amin.default": r.reduce_axes,
    "aten.any.dims": r.reduce_axes,
    "aten.all.dims": r.reduce_axes,
    "aten.prod.dim_int": r.reduce_axis,
    "aten.any.dim": r.reduce_axis,
    "aten.all.dim": r.reduce_axis,
    "aten.max.dim": r.reduce_axis,
    "aten.min.dim": r.reduce_axis,
    "aten.count_nonzero.dim_IntList": one(lambda t: (t(3, 4), [1])),
    "aten.logsumexp.default": r.reduce_axes,
    "aten.var.correction": r.correction,
    "aten.std.correction": r.correction,
    "aten.var_mean.correction": r.correction,
    "aten.std_mean.correction": r.correction,
    "aten.linalg_vector_norm.default": r.vector_norm,
    "aten.softmax.int": r.along_axis,
    "aten.log_softmax.int": r.along_axis,
    "aten._softmax_backward_data.default": r.softmax_gradient,
    "aten._log_softmax_backward_data.default": r.log_softmax_gradient,
    # --- views
    "aten.view.default": r.resized([3, 4]),
    "aten._unsafe_view.default": r.resized([3, 4]),
    "aten.reshape.default": r.resized([3, 4]),
    "aten._reshape_alias.default": r.resized([3, 4], [4, 1]),
    "aten.view_copy.default": r.resized([3, 4]),
    "aten.flatten.using_ints": r.resized(0, 1),
    "aten.unflatten.int": r.resized(1, [2, 3]),
    "aten.squeeze.dim": one(lambda t: (t(2, 1, 3), 1)),
    "aten.squeeze.dims": one(lambda t: (t(2, 1, 3, 1), [1, -1])),
    "aten.unsqueeze.default": lambda t: [(t(2, 3), d) for d in (0, 1, -1)],
    "aten.expand.default": one(lambda t: (t(2, 1), [4, -1, 3])),
    "aten.expand_copy.default": one(lambda t: (t(2, 1), [2, 3])),
    "aten.broadcast_to.default": one(lambda t: (t(2, 1), [2, 3])),
    "aten.permute.default": one(lambda t: (t(2, 3, 4), [2, 0, -2])),
    "aten.transpose.int": one(lambda t: (t(2, 3, 4), 0, -1)),
    "aten.slice.Tensor": r.slices,
    "aten.select.int": lambda t: [(t(3, 4), 0, 1), (t(3, 4), 1, -1)],
    "aten.split.Tensor": r.splits,
    "aten.unsafe_split.Tensor": r.splits,
    "aten.chunk.default": r.splits,
    "aten.unsafe_chunk.default": r.splits,
    "aten.split_with_sizes.default": one(lambda t: (t(2, 6), [1, 0, 5], 1)),
    "aten.unbind.int": lambda t: [(t(3, 4),), (t(3, 4), -1)],
    "aten.cat.default": lambda t: [([t(2, 3), t(2, 1)], -1), ([t(0), t(2, 3), t(1, 3)],)],
    "aten.stack.default": one(lambda t: ([t(2, 3), t(2, 3)], 1)),
    "aten.repeat.default": lambda t: [(t(2, 3), [2, 2]), (t(3), [2, 1, 2])],
    "aten.repeat_interleave.self_int": lambda t: [(t(2, 3), 2, 1), (t(2, 3), 2)],
    "aten.roll.default": lambda t: [
        (t(2, 5), [2], [1]),
        (t(2, 5), [-3]),
        (t(2, 5), [1, 2], [0, 1]),
    ],
    "aten.flip.default": one(lambda t: (t(2, 3, 4), [0, -1])),
    "aten.unfold.default": one(lambda t: (t(9, 2), 0, 4, 2)),
    "aten.diagonal.default": lambda t: [(t(3, 4),), (t(2, 3, 4), -1, 0, 2), (t(3, 4), 2)],
    "aten.diagonal_backward.default": lambda t: [
        (t(3), [3, 4], 0, 0, 1),
        (t(3, 1), [2, 3, 4], -1, 0, 2),
    ],
    "aten.constant_pad_nd.default": lambda t: [
        (t(2, 3), [1, 2], 1),
        (t(2, 3), [1, -1, 0, 2]),
    ],
    "aten.tril.default": lambda t: [(t(3, 4),), (t(2, 3, 4), -1)],
    "aten.triu.default": lambda t: [(t(3, 4),), (t(2, 3, 4), 1)],
    "aten.slice_backward.default": lambda t: [
        (t(2, 3), [7, 3], 0, 1, 3, 1),
        (t(2, 3), [7, 3], 0, 1, 5, 2),
    ],
    "aten.select_backward.default": one(lambda t: (t(3), [4, 3], 0, -2)),
    "aten.slice_scatter.default": lambda t: [
        (t(7, 3), t(2, 3), 0, 1, 3),
        (t(7, 3), t(3, 3), 0, None, 6, 2),
    ],
    "aten.select_scatter.default": one(lambda t: (t(4, 3), t(3), 0, -2)),
    # --- gathers and scatters
    "aten.index.Tensor": lambda t: [*r.indices(t), *s.masks(t)],
    "aten.nonzero.default": s.with_zeros,
    "aten.masked_select.default": s.masked_selections,
    "aten.masked_scatter_backward.default": s.masked_gradients,
    "aten._unique2.default": s.distinct,
    "aten.unique_dim.default": s.distinct_along,
    "aten.unique_consecutive.default": s.consecutive,
    "aten.mode.default": s.modes,
    "aten._unsafe_index.Tensor": r.indices,
    "aten.index_put.default": r.masked_index_put,
    "aten._unsafe_index_put.default": r.index_put,
    "aten.index_select.default": lambda t: [
        (t(4, 5), 1, torch.tensor([3, 0, 3])),
        (t(4, 5), 1, torch.tensor(2)),
        (t(), 0, torch.tensor([0])),
    ],
    "aten.embedding.default": one(lambda t: (t(5, 4), t.index(5, 2, 3))),
    "aten.embedding_dense_backward.default": s.embedding_gradient,
    "aten._embedding_bag.default": s.embedding_bags,
    "aten._embedding_bag_forward_only.default": s.embedding_bags,
    "aten._embedding_bag_dense_backward.default": s.embedding_bag_gradient,
    "aten._embedding_bag_backward.default": s.embedding_bag_gradient_by_offsets,
    "aten._embedding_bag_per_sample_weights_backward.default": s.sample_weights_gradient,
    "aten.take.default": lambda t: [
        (t(4, 5), t.index(20, 2, 3)),
        (t(4, 5), torch.tensor(-3)),
        (t(), torch.tensor([0, -1])),
    ],
    "aten.put.default": lambda t: [
        (t(4, 5), torch.tensor([[3], [-1]]), t(2, 1)),
        (t(), torch.tensor(0), t()),
    ],
    "aten.gather.default": lambda t: [
        (t(4, 5), 1, t.index(5, 2, 3)),
        (t(), 0, torch.tensor(0)),
    ],
    "aten.gather_backward.default": one(lambda t: (t(2, 3), t(4, 5), 1, t.index(5, 2, 3), False)),
    "aten.scatter.src": r.scatter(),
    "aten.scatter.value": one(lambda t: (t(4, 5), 1, t.index(5, 2, 2), 1)),
    "aten.scatter_add.default": r.scatter(),
    "aten.scatter.reduce": lambda t: [
        (t(4, 5), 1, torch.tensor([[0, 3]]), t(1, 2), {"reduce": r}) for r in ("add", "multiply")
    ],
    "aten.scatter.value_reduce": one(
        lambda t: (t(4, 5), 1, torch.tensor([[0, 3]]), 2, {"reduce": "add"})
    ),
    "aten.index_copy.default": r.index_write,
    "aten.index_add.default": lambda t: [
        *r.index_write(t),
        (t(4), 0, torch.tensor([1, 1]), t(2), {"alpha": 2}),
    ],
    "aten.index_fill.int_Scalar": one(lambda t: (t(4, 5), 1, torch.tensor([0, 3]), 1)),
    "aten.index_fill.int_Tensor": one(
        lambda t: (t(4, 5), 1, torch.tensor([0, 3]), torch.tensor(1.0))
    ),
    # --- contractions
    "aten.bmm.default": r.batched,
    "aten.mv.default": one(lambda t: (t(3, 4), t(4))),
    "aten.dot.default": one(lambda t: (t(4), t(4))),
    "aten.vdot.default": one(lambda t: (t(4), t(4))),
    "aten.addmm.default": lambda t: [
        (t(5), t(3, 4), t(4, 5)),
        (t(3, 5), t(3, 4), t(4, 5), {"beta": 2, "alpha": 3}),
        (t(5), t(3, 4), t(4, 5), {"beta": 0}),
    ],
    "aten.baddbmm.default": one(lambda t: (t(2, 1, 5), t(2, 3, 4), t(2, 4, 5), {"alpha": 2})),
    "aten.addr.default": lambda t: [
        (t(3, 4), t(3), t(4), {"beta": 0.6, "alpha": 0.2}),
        (t(4), t(3), t(4), {"beta": 0, "alpha": 2}),
        (t(3, 1), t(3), t(4)),
    ],
    "aten.masked_scatter.default": lambda t: [
        (t(3, 4), t.mask(3, 4), t(14)),
        (t(2, 3, 4), t.mask(3, 1), t(4, 6)),
        (t(4), t.mask(3, 4), t(12)),
    ],
    "aten._is_all_true.default": lambda t: [(t.mask(3, 4),), (torch.ones(2, 3) > 0,)],
    "aten.histc.default": lambda t: [
        (t(5, 40), 7, -1.3, 2.9),
        (t(60, low=0, high=4).floor(), 4, 0, 3),
        (torch.tensor([0.0, 3.0, float("nan"), 9.0, -1.0, 1.5]).to(t.dtype), 4, 0, 3),
    ],
    "aten.addmv.default": one(lambda t: (t(3), t(3, 4), t(4), {"beta": 2})),
    "aten.linear.default": lambda t: [(t(2, 3, 4), t(5, 4), t(5)), (t(3, 4), t(5, 4))],
    "aten._scaled_dot_product_flash_attention_for_cpu.default": r.attention,
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": r.attention_gradient,
    "aten.scaled_dot_product_attention.default": r.sdpa,
    # --- norms
    "aten.native_layer_norm.default": r.layer_norm,
    "aten.layer_norm.default": r.layer_norm,
    "aten.native_layer_norm_backward.default": r.layer_norm_gradient,
    "aten.rms_norm.default": r.rms_norm,
    "aten._fused_rms_norm.default": r.rms_norm,
    "aten._fused_rms_norm_backward.default": r.rms_norm_gradient,
    "aten._native_batch_norm_legit_no_training.default": r.batch_norm(0.1, 1e-5),
    "aten._native_batch_norm_legit_functional.default": lambda t: [
        *r.batch_norm(True, 0.1, 1e-5)(t),
        *r.batch_norm(False, 0.1, 1e-5)(t),
    ],
    "aten._native_batch_norm_legit.no_stats": one(
        lambda t: (t(2, 3, 4), t(3), t(3), True, 0.1, 1e-5)
    ),
    "aten._batch_norm_with_update_functional.default": r.batch_norm(0.1, 1e-5),
    "aten._batch_norm_no_update.default": r.batch_norm(0.1, 1e-5),
    "aten.native_batch_norm_backward.default": r.batch_norm_gradient,
    "aten.native_group_norm.default": one(lambda t: (t(2, 4, 3), t(4), t(4), 2, 4, 3, 2, 1e-5)),
    "aten.native_group_norm_backward.default": r.group_norm_gradient,
    # --- losses and gradients
    "aten.nll_loss_forward.default": lambda t: [*r.nll((4, 3), (4,))(t), *r.nll((3,), ())(t)],
    "aten.nll_loss_backward.default": r.nll_gradient((4, 3), (4,)),
    "aten.nll_loss2d_forward.default": r.nll((2, 3, 4, 2), (2, 4, 2)),
    "aten.nll_loss2d_backward.default": r.nll_gradient((2, 3, 4, 2), (2, 4, 2)),
    "aten.mse_loss.default": lambda t: [(t(3, 4), t(3, 4), r) for r in (0, 1, 2)],
    "aten.mse_loss_backward.default": lambda t: [
        (t(3, 4) if r == 0 else t(), t(3, 4), t(3, 4), r) for r in (0, 1, 2)
    ],
    "aten.binary_cross_entropy_with_logits.default": lambda t: [
        (t(3), t(3, low=0, high=1), None, pos, r)
        for pos in (None, t.positive(3))
        for r in (0, 1, 2)
    ],
    "aten.threshold_backward.default": r.gradient(0),
    "aten.hardtanh_backward.default": r.gradient(-1.0, 1.0),
    "aten.leaky_relu_backward.default": r.gradient(0.1, False),
    "aten.softplus_backward.default": r.gradient(2.0, 3.0),
    "aten.elu_backward.default": r.elu_gradient,
    "aten.log_sigmoid_backward.default": r.log_sigmoid_gradient,
}

# Overloads without a CPU kernel, or whose kernel leaves results unwritten.
REFERENCES: dict[str, Callable[..., Any]] = {
    "aten._embedding_bag.default": s.embedding_bags_with_all_results,
    "aten._embedding_bag_forward_only.default": s.embedding_bags_with_all_results,
    "aten._fused_rms_norm_backward.default": r.rms_norm_gradient_by_autograd,
}
