"""Argument lists that exercise ATen overloads, used by the table in row_cases.py.

A case takes a maker of tensors and yields argument tuples; keyword arguments are a dict at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Call = tuple[Any, ...]


class Make:
    """Tensors of the dtype under test, always the same numbers."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(7)

    def __call__(self, *shape: int, low: float = -3, high: float = 3) -> torch.Tensor:
        x = torch.rand(shape, generator=self.generator, dtype=torch.float64) * (high - low) + low
        if self.dtype == torch.bool:
            return x > (low + high) / 2
        if not self.dtype.is_floating_point:
            x = x.round()
        return x.to(self.dtype)

    def positive(self, *shape: int) -> torch.Tensor:
        return self(*shape, low=0.5, high=4)

    def index(self, bound: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, bound, shape, generator=self.generator)

    def mask(self, *shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=self.generator) > 0.5


Case = Callable[[Make], list[Call]]


def one(case: Callable[[Make], Call]) -> Case:
    return lambda t: [case(t)]


def unary(t: Make) -> list[Call]:
    return [(t(3, 4),), (t(),), (t(0, 2),)]


def unary_positive(t: Make) -> list[Call]:
    return [(t.positive(3, 4),)]


def unary_unit(t: Make) -> list[Call]:
    return [(t(3, 4, low=-0.9, high=0.9),)]


def binary(t: Make) -> list[Call]:
    return [(t(3, 4), t.positive(4)), (t(2, 1), t.positive(1, 3)), (t(3), t.positive())]


def binary_scalar(t: Make) -> list[Call]:
    return [(t(3, 4), 2), (t(3, 4), 1.7)]


def tensor_or_scalar(t: Make) -> list[Call]:
    return [*binary(t), (t(3, 4), 3), (t(3, 4), 1.3)]


def scaled(t: Make) -> list[Call]:
    return [*binary(t), (t(3), t(3), {"alpha": 2}), (t(3), 5)]


def scalar_scaled(t: Make) -> list[Call]:
    return [(t(3), 2), (t(3), 3, 2)]


def bits_scalar(t: Make) -> list[Call]:
    return [(t(3, 4), 5)]


def reduce_axes(t: Make) -> list[Call]:
    return [(t(3, 4), [1]), (t(2, 3, 4), [0, -1], True), (t(), [])]


def reduce_axis(t: Make) -> list[Call]:
    return [(t(3, 4), 1), (t(3, 4), 0, True), (t(), 0)]


def along_axis(t: Make) -> list[Call]:
    return [(t(3, 4), 1), (t(2, 3, 4), -2)]


def softmax(t: Make) -> list[Call]:
    return [(t(3, 4), 1, False), (t(2, 3, 4), -2, False), (t(2, 0), 1, False), (t(), 0, False)]


def same(t: Make) -> list[Call]:
    return [(t(3, 4),), (t(),)]


def extremum_other(t: Make) -> list[Call]:
    return [(t(3, 4), t(4))]


def where(t: Make) -> list[Call]:
    return [(t.mask(3, 1), t(3, 4), t(4))]


def clamp_one(t: Make) -> list[Call]:
    return [(t(3, 4), 1)]


def masked(value: Any) -> Case:
    return lambda t: [(t(3, 4), t.mask(3, 4), value), (t(3, 4), t.mask(4), value)]


def sizes_then(*rest: Any) -> Case:
    return lambda t: [([2, 3], *rest, {"dtype": t.dtype})]


def gradient(*rest: Any) -> Case:
    return lambda t: [(t(3, 4), t(3, 4), *rest)]


def unit_gradient(t: Make) -> list[Call]:
    return [(t(3, 4), t(3, 4, low=0.1, high=0.9))]


def softmax_gradient(t: Make) -> list[Call]:
    return [(t(3, 4), torch.softmax(t(3, 4), 1), 1, t.dtype)]


def log_softmax_gradient(t: Make) -> list[Call]:
    return [(t(3, 4), torch.log_softmax(t(3, 4), 1), 1, t.dtype)]


def indices(t: Make) -> list[Call]:
    return [
        (t(4, 5), [t.index(4, 3)]),
        (t(4, 5, 6), [None, t.index(5, 2), t.index(6, 3, 1)]),
        (t(4, 5, 6), [t.index(4, 2), None, t.index(6, 2)]),
        (t(4, 5), [torch.tensor([-1, 0, -4])]),
    ]


def index_put(t: Make) -> list[Call]:
    return [
        (t(4, 5), [t.index(4, 3)], t(3, 5), True),
        (t(4, 5), [torch.tensor([2, 0])], t(5)),
        (t(4, 5, 6), [None, torch.tensor([1, 3])], t(4, 2, 6)),
    ]


def masked_index_put(t: Make) -> list[Call]:
    return [*index_put(t), (t(4, 5), [t.mask(4, 5)], t()), (t(4, 5), [t.mask(4)], t(1))]


def scatter(*rest: Any) -> Case:
    return lambda t: [(t(4, 5), 1, torch.tensor([[0, 3], [1, 2]]), t(2, 2), *rest)]


def index_write(t: Make) -> list[Call]:
    return [(t(4, 5), 1, torch.tensor([0, 3]), t(4, 2)), (t(), 0, torch.tensor(0), t())]


def matrices(t: Make) -> list[Call]:
    return [(t(3, 4), t(4, 5)), (t(3, 0), t(0, 5))]


def batched(t: Make) -> list[Call]:
    return [(t(2, 3, 4), t(2, 4, 5))]


def layer_norm(t: Make) -> list[Call]:
    return [
        (t(3, 4), [4], t(4), t(4), 1e-5),
        (t(2, 3, 4), [3, 4], None, None, 1e-5),
        (t(2, 3, 4), [4], t(4), None, 1e-5),
    ]


def rms_norm(t: Make) -> list[Call]:
    return [(t(3, 4), [4], t(4), 1e-6), (t(3, 4), [4], None, None)]


def layer_norm_gradient(t: Make) -> list[Call]:
    x, weight, bias = t(3, 4), t(4), t(4)
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, [4], weight, bias, 1e-5)
    full = (t(3, 4), x, [4], mean, rstd, weight, bias)
    return [(*full, [True, True, True]), (*full, [True, False, False])]


def rms_norm_gradient(t: Make) -> list[Call]:
    x = t(3, 4)
    rstd = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6).to(x.dtype)
    return [(t(3, 4), x, [4], rstd, t(4), [True, True])]


def rms_norm_gradient_by_autograd(
    grad: torch.Tensor,
    x: torch.Tensor,
    shape: list[int],
    rstd: torch.Tensor,
    weight: torch.Tensor,
    mask: list[bool],
) -> tuple[torch.Tensor, ...]:
    x, weight = (v.detach().float().requires_grad_() for v in (x, weight))
    y = torch.nn.functional.rms_norm(x, shape, weight, 1e-6)
    return tuple(g.to(grad.dtype) for g in torch.autograd.grad(y, (x, weight), grad.float()))


def channels(t: Make) -> tuple[torch.Tensor, ...]:
    return t(3), t(3), t(3), t.positive(3)


def batch_norm(*rest: Any) -> Case:
    return lambda t: [(t(2, 3, 4), *channels(t), *rest), (t(2, 3, 4, 2), *channels(t), *rest)]


def batch_norm_gradient(t: Make) -> list[Call]:
    x, grad, (weight, _, mean, variance) = t(2, 3, 4), t(2, 3, 4), channels(t)
    return [
        (grad, x, weight, mean, variance, t(3), t.positive(3), train, 1e-5, [True, True, True])
        for train in (True, False)
    ]


def group_norm_gradient(t: Make) -> list[Call]:
    x = t(2, 4, 3)
    _, mean, rstd = torch.ops.aten.native_group_norm(x, t(4), t(4), 2, 4, 3, 2, 1e-5)
    return [(t(2, 4, 3), x, mean, rstd, t(4), 2, 4, 3, 2, [True, True, True])]


def attention(t: Make) -> list[Call]:
    q, k, v = t(2, 4, 3, 8), t(2, 4, 5, 8), t(2, 4, 5, 8)
    return [
        (q, k, v),
        (q, q, q, 0.0, True, {"scale": 0.2}),
        (q, k, v, 0.0, False, {"attn_mask": t(2, 1, 3, 5)}),
    ]


def attention_gradient(t: Make) -> list[Call]:
    q, k, v, grad = t(2, 4, 3, 8), t(2, 4, 5, 8), t(2, 4, 5, 8), t(2, 4, 3, 8)
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, lse = forward(q, k, v)
    return [(grad, q, k, v, out, lse, 0.0, False)]


def sdpa(t: Make) -> list[Call]:
    q, k, v = t(2, 4, 3, 8), t(2, 4, 5, 8), t(2, 4, 5, 8)
    return [(q, k, v, t.mask(3, 5) | torch.eye(3, 5, dtype=torch.bool)), (q, q, q, None, 0.0, True)]


def nll(shape: tuple[int, ...], target: tuple[int, ...]) -> Case:
    def calls(t: Make) -> list[Call]:
        classes = shape[1] if len(shape) > 1 else shape[0]
        goal = t.index(classes, *target)
        return [
            (t(*shape), goal, weight, reduction, 1)
            for weight in (None, t.positive(classes))
            for reduction in (0, 1, 2)
        ]

    return calls


def nll_gradient(shape: tuple[int, ...], target: tuple[int, ...]) -> Case:
    def calls(t: Make) -> list[Call]:
        goal, total = t.index(shape[1], *target), t.positive()
        return [
            (t(*target) if reduction == 0 else t(), t(*shape), goal, None, reduction, 1, total)
            for reduction in (0, 1, 2)
        ]

    return calls


def correction(t: Make) -> list[Call]:
    return [
        (t(3, 4), [1]),
        (t(3, 4), None, {"correction": 0}),
        (t(2, 3, 4), [0, 2], {"correction": 2, "keepdim": True}),
    ]


def vector_norm(t: Make) -> list[Call]:
    orders = (2, 1, 0, 3, float("inf"), float("-inf"))
    huge = t(3, 1) * 1e30  # its square overflows
    of_one = [(huge, order, [1], False) for order in (2, 3)]
    return [(t(3, 4), order, [1], True) for order in orders] + [(t(3, 4),)] + of_one


def splits(t: Make) -> list[Call]:
    return [(t(7, 2), 3), (t(2, 6), 2, 1)]


def slices(t: Make) -> list[Call]:
    top = 2**63 - 1
    return [
        (t(7, 2), 0, 1, 5),
        (t(7, 2), 0, -3, top),
        (t(7, 2), 0, None, None, 2),
        (t(7), 0, 9, 12),
        (t(7), 0, 2, -1),
    ]


def arange(*arguments: Any) -> Case:
    return lambda t: [(*arguments, {"dtype": t.dtype})]


def like(t: Make) -> list[Call]:
    return [(t(2, 3),)]


def new(*rest: Any) -> Case:
    return lambda t: [(t(2, 3), [4, 5], *rest)]


def resized(*rest: Any) -> Case:
    return lambda t: [(t(2, 6), *rest)]


def dtype_change(t: Make) -> list[Call]:
    targets = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.int32)
    return [(t(3, 4), {"dtype": dtype}) for dtype in targets]


def elu_gradient(t: Make) -> list[Call]:
    return [(t(3), 1.5, 2.0, 0.5, is_result, t(3)) for is_result in (False, True)]


def log_sigmoid_gradient(t: Make) -> list[Call]:
    x = t(3, 4)
    return [(t(3, 4), x, torch.ops.aten.log_sigmoid_forward(x)[1])]
