"""Calls of the overloads that order, count or fold along an axis, and of those that quantise."""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
import transformers.integrations.moe  # noqa: F401  registers transformers.grouped_mm_fallback

from row_samples import Call, Case, Make, along_axis


def different(t: Make, *shape: int) -> torch.Tensor:
    """No two equal numbers, so that there is one right order; a NaN where there can be one."""
    count = torch.Size(shape).numel()
    x = (torch.randperm(count, generator=t.generator) - count // 2).to(t.dtype)
    if t.dtype.is_floating_point:
        x[count // 3] = float("nan")
    return x.reshape(shape)


def sort(t: Make) -> list[Call]:
    if t.dtype == torch.bool:
        return []
    forms = [(-1, False), (0, True)]
    calls: list[Call] = [(different(t, 4, 17), *form) for form in forms]
    return [*calls, (t(),), (t(0, 3), 0), (t(3, 0), 1)]


def stable_sort(t: Make) -> list[Call]:
    return [
        (x, {"stable": True, "dim": dim, "descending": down})
        for x in (t(4, 23), t(3, 2, 600))
        for dim in (-1, 0)
        for down in (False, True)
    ]


def equals(t: Make, *shape: int) -> torch.Tensor:
    return torch.randint(0, 5, shape, generator=t.generator).to(t.dtype)


def topk(t: Make) -> list[Call]:
    if t.dtype == torch.bool:
        return []
    return [
        (different(t, 4, 17), 3),
        (different(t, 4, 17), 2, 0, False),
        (different(t, 2, 100), 5, -1, True),
        (different(t, 9), 9),
        (t(), 1),
    ]


def kth(t: Make) -> list[Call]:
    return [(different(t, 3, 17), 4), (different(t, 5, 3), 2, 0, True)]


def middle(t: Make) -> list[Call]:
    return [(different(t, 3, 17), 1), (different(t, 6, 3), 0, True)]


def repeats(t: Make) -> list[Call]:
    return [(torch.tensor([2, 0, 3, 1]), {"output_size": 6})]


def index_reduce(t: Make) -> list[Call]:
    index = torch.tensor([0, 3, 0])
    return [
        (t(4, 5), 0, index, t(3, 5), how, {"include_self": own})
        for how in ("prod", "mean", "amax", "amin")
        for own in (True, False)
    ]


def scatter_reduce(t: Make) -> list[Call]:
    index = torch.tensor([[0, 0], [1, 4]])
    return [
        (t(4, 5), 1, index, t(2, 2), how, {"include_self": own})
        for how in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ]


def boundaries(t: Make) -> list[Call]:
    edges = torch.tensor([-2, -1, 0, 1, 2]).to(t.dtype).sort().values
    return [
        (t(3, 4), edges, {"right": right, "out_int32": narrow})
        for right in (False, True)
        for narrow in (False, True)
    ]


def with_gaps(t: Make, *shape: int) -> torch.Tensor:
    """Different numbers, and NaN in every third place."""
    x = different(t, *shape)
    if t.dtype.is_floating_point:
        x.view(-1)[::3] = torch.nan
    return x


def middle_without_nan(t: Make) -> list[Call]:
    calls = middle(t)
    return [
        *calls,
        (with_gaps(t, 3, 8), 1),
        (with_gaps(t, 4, 5), 0, True),
        (with_gaps(t, 2, 7), -1),
    ]


def sequences(t: Make) -> list[Call]:
    rows = t(3, 6).sort(-1).values
    return [
        (rows, t(3, 4)),
        (rows, t(3, 4), {"right": True}),
        (rows[0], t(2, 2), {"side": "right"}),
        (rows[0], t()),
    ]


def quantised(t: Make, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    return torch.randint(-100, 100, (3, 4), generator=t.generator).to(dtype)


def scales(t: Make, count: int) -> torch.Tensor:
    return torch.rand(count, generator=t.generator) + 0.02


def points(t: Make, count: int) -> torch.Tensor:
    return torch.randint(-5, 5, (count,), generator=t.generator)


def single(t: Make) -> tuple[torch.Tensor, torch.Tensor]:
    return scales(t, 1)[0], points(t, 1)[0]


def grouped(ends: list[int]) -> Case:
    return lambda t: [(t(9, 8), t(3, 8, 16), torch.tensor(ends, dtype=torch.int32))]


def grouped_forms(t: Make) -> list[Call]:
    """With and without an axis of groups on either side; the second group of three is empty."""
    ends = torch.tensor([2, 2, 9], dtype=torch.int32)
    columns = torch.tensor([8, 8, 16], dtype=torch.int32)
    return [
        (t(9, 8), t(3, 8, 16), ends),
        (t(9, 8).T, t(9, 16), ends),
        (t(3, 8, 16), t(3, 16, 8)),
        (t(3, 8, 16), t(16, 16), columns),
    ]


def floats(case: Case) -> Case:
    return lambda t: case(t) if t.dtype.is_floating_point else []


LIMITS = (-128, 127, torch.int8)
CASES: dict[str, Case] = {
    "aten.sort.default": sort,
    "aten.sort.stable": stable_sort,
    "aten.topk.default": topk,
    "aten.kthvalue.default": kth,
    "aten.median.dim": middle,
    "aten.median.default": lambda t: [(different(t, 3, 17),), (different(t, 8)[3:],)],
    "aten.nanmedian.dim": middle_without_nan,
    "aten.nanmedian.default": lambda t: [(with_gaps(t, 3, 17),), (different(t, 8)[3:],)],
    "aten.logcumsumexp.default": along_axis,
    "aten.cummax.default": along_axis,
    "aten.cummin.default": along_axis,
    "aten.scatter_reduce.two": scatter_reduce,
    "aten.index_reduce.default": index_reduce,
    "aten.repeat_interleave.Tensor": repeats,
    "aten.bucketize.Tensor": boundaries,
    "aten._grouped_mm.default": grouped_forms,
    "transformers.grouped_mm_fallback.default": grouped([4, 4, 7]),
    "aten.searchsorted.Tensor": sequences,
    "quantized_decomposed.quantize_per_tensor.default": floats(
        lambda t: [(t(3, 4), 0.031, 5, *LIMITS)]
    ),
    "quantized_decomposed.quantize_per_tensor.tensor": floats(
        lambda t: [(t(3, 4), *single(t), *LIMITS)]
    ),
    "quantized_decomposed.dequantize_per_tensor.default": lambda t: [
        (quantised(t), 0.031, 5, *LIMITS)
    ],
    "quantized_decomposed.dequantize_per_tensor.tensor": lambda t: [
        (quantised(t), *single(t), *LIMITS)
    ],
    "quantized_decomposed.quantize_per_channel.default": floats(
        lambda t: [(t(3, 4), scales(t, 4), points(t, 4), 1, *LIMITS)]
    ),
    "quantized_decomposed.dequantize_per_channel.default": lambda t: [
        (quantised(t), scales(t, 3), points(t, 3), 0, *LIMITS)
    ],
}
