"""Quantising operators of torch_npu and fused ones that end in them, implemented with PyTorch
operators.

A fused form is the sequence of its parts, which become one kernel when compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gex.npu.ops import npu_add_rms_norm

_RANGES = {
    torch.int8: (-128, 127),
    torch.qint8: (-128, 127),
    torch.uint8: (0, 255),
    torch.quint8: (0, 255),
    torch.int32: (-(2**31), 2**31 - 1),
    torch.qint32: (-(2**31), 2**31 - 1),
}
# Quantised tensors are returned as their integers.
_PLAIN = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}


def npu_dynamic_quant(
    input: torch.Tensor, *, smooth_scales: torch.Tensor | None = None, dst_type: Any = torch.int8
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row in 8 bits, and its scale."""
    if dst_type != torch.int8:
        raise ValueError(f"npu_dynamic_quant: dst_type must be torch.int8, got {dst_type}")
    wide = input.float()
    if smooth_scales is not None:
        wide = wide * smooth_scales
    scale = wide.abs().amax(-1, keepdim=True) / 127.0
    rows = torch.round(wide / torch.where(scale > 0, scale, 1.0))
    return rows.to(torch.int8), scale.squeeze(-1)


def npu_quantize(
    input: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    dtype: torch.dtype,
    axis: int = 1,
    div_mode: bool = True,
) -> torch.Tensor:
    """round(x / scales + zero_points), or the product with `div_mode=False`, along an axis."""
    if dtype not in _RANGES:
        raise ValueError(f"npu_quantize: dtype must be one of {list(_RANGES)}, got {dtype}")
    shape = [1] * input.dim()
    shape[axis] = -1
    wide, factor = input.float(), scales.float().view(shape)
    wide = wide / factor if div_mode else wide * factor
    if zero_points is not None:
        wide = wide + zero_points.float().view(shape)
    low, high = _RANGES[dtype]
    return torch.round(wide).clamp(low, high).to(_PLAIN.get(dtype, dtype))


def npu_add_rms_norm_dynamic_quant(
    x1: torch.Tensor,
    x2: torch.Tensor,
    gamma: torch.Tensor,
    *,
    smooth_scale1: torch.Tensor | None = None,
    smooth_scale2: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    epsilon: float = 1e-6,
    output_mask: Sequence[bool] = (),
) -> tuple[torch.Tensor | None, ...]:
    """(rows, second rows, sum, scales, second scales); the second pair only if requested."""
    y, _, total = npu_add_rms_norm(x1, x2, gamma, epsilon)
    y = y if beta is None else y + beta
    both = bool(output_mask[1]) if len(output_mask) > 1 else smooth_scale2 is not None
    first, first_scale = npu_dynamic_quant(y, smooth_scales=smooth_scale1)
    if not both:
        return first, None, total, first_scale, None
    second, second_scale = npu_dynamic_quant(y, smooth_scales=smooth_scale2)
    return first, second, total, first_scale, second_scale


def npu_add_rms_norm_cast(
    x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, ...]:
    """(norm in float32, norm, reciprocal root, sum)."""
    y, rstd, total = npu_add_rms_norm(x1, x2, gamma, epsilon)
    return y.float(), y, rstd, total


def npu_add_rms_norm_quant(
    x1: torch.Tensor,
    x2: torch.Tensor,
    gamma: torch.Tensor,
    scales1: torch.Tensor,
    zero_points1: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    scales2: torch.Tensor | None = None,
    zero_points2: torch.Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-6,
    div_mode: bool = True,
) -> tuple[torch.Tensor | None, ...]:
    """(norm in 8 bits, the same with the second scales, sum)."""
    y, _, total = npu_add_rms_norm(x1, x2, gamma, epsilon)
    y = y if beta is None else y + beta
    first = npu_quantize(y, scales1, zero_points1, torch.int8, axis, div_mode)
    if scales2 is None:
        return first, None, total
    return first, npu_quantize(y, scales2, zero_points2, torch.int8, axis, div_mode), total


def npu_transpose_batchmatmul(
    input: torch.Tensor,
    weight: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
    perm_x1: Sequence[int] = (0, 1, 2),
    perm_x2: Sequence[int] = (0, 1, 2),
    perm_y: Sequence[int] = (1, 0, 2),
) -> torch.Tensor:
    """A batched matmul with permuted operands and result."""
    if scale is not None:
        raise ValueError("npu_transpose_batchmatmul: scale is not supported under gex.npu")
    product = torch.bmm(input.permute(list(perm_x1)), weight.permute(list(perm_x2)))
    product = product if bias is None else product + bias
    return product.permute(list(perm_y))


def _rows_of(self: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, axis: int) -> Any:
    """The index along the axis of each element of `updates`; batches begin at `indices`."""
    shape = [1] * self.dim()
    shape[axis] = -1
    steps = torch.arange(updates.shape[axis], device=self.device).view(shape)
    starts = indices.view([-1] + [1] * (self.dim() - 1))
    return (starts + steps).expand(updates.shape)


def scatter_update(
    self: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, axis: int
) -> torch.Tensor:
    """`self` with the rows of each batch from `indices` on replaced by `updates`."""
    return self.scatter(axis, _rows_of(self, indices, updates, axis), updates)


def scatter_update_(
    self: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, axis: int
) -> torch.Tensor:
    return self.scatter_(axis, _rows_of(self, indices, updates, axis), updates)


def npu_scatter_nd_update(
    self: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor
) -> torch.Tensor:
    """`self` with the slices at `indices` (its last axis: coordinates) replaced by `updates`."""
    return self.index_put(indices.unbind(-1), updates)


def npu_scatter_nd_update_(
    self: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor
) -> torch.Tensor:
    return self.index_put_(indices.unbind(-1), updates)


FUNCTIONS: tuple[Callable[..., Any], ...] = (
    npu_add_rms_norm_cast,
    npu_add_rms_norm_dynamic_quant,
    npu_add_rms_norm_quant,
    npu_dynamic_quant,
    npu_quantize,
    npu_scatter_nd_update,
    npu_scatter_nd_update_,
    npu_transpose_batchmatmul,
    scatter_update,
    scatter_update_,
)
NAMES: dict[str, Callable[..., Any]] = {function.__name__: function for function in FUNCTIONS}
