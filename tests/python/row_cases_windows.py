"""Calls of the overloads that look at windows: convolutions, pools, resampling, padding."""

from __future__ import annotations

from typing import Any

import torch

from row_samples import Call, Case, Make

aten = torch.ops.aten


def convolution(t: Make) -> list[Call]:
    """One to three axes, plain and transposed; steps, padding, dilation and groups of each."""
    one, two, three = [1], [1, 1], [1, 1, 1]
    none = [0, 0, 0]
    return [
        (t(2, 3, 5, 6), t(4, 3, 3, 2), t(4), two, [0, 0], two, False, [0, 0], 1),
        (t(2, 4, 5, 6), t(6, 2, 3, 3), None, [2, 1], [1, 2], [1, 2], False, [0, 0], 2),
        (t(2, 4, 9), t(4, 1, 3), t(4), [2], [1], one, False, [0], 4),
        (t(1, 2, 4, 5, 6), t(4, 1, 3, 2, 3), t(4), [2, 1, 2], [1, 0, 1], three, False, none, 2),
        (t(2, 2, 6, 3, 4), t(3, 2, 2, 2, 2), None, three, none, [2, 1, 2], False, none, 1),
        (t(2, 3, 4, 5), t(3, 4, 2, 3), t(4), [2, 3], [0, 0], two, True, [0, 0], 1),
        (t(2, 3, 5), t(3, 4, 2), None, [2], [0], one, True, [0], 1),
        (t(2, 4, 3, 4), t(4, 2, 3, 3), t(4), [2, 2], [1, 1], two, True, [1, 1], 2),
        (t(1, 3, 4, 3), t(3, 2, 3, 2), None, [1, 1], [1, 0], two, True, [0, 0], 1),
        (t(1, 3, 4, 3), t(3, 2, 3, 2), t(2), [2, 3], [1, 0], [2, 2], True, [1, 1], 1),
        (t(2, 3, 5), t(3, 4, 4), t(4), [3], [1], one, True, [2], 1),
        (t(1, 2, 3, 2, 3), t(2, 2, 3, 2, 2), t(2), [2, 1, 2], [1, 0, 1], three, True, [1, 0, 1], 1),
        (t(1, 3, 5, 5), t(4, 3, 1, 1), None, [2, 2], [0, 0], two, False, [0, 0], 1),
        (t(1, 3, 7, 6), t(2, 3, 3, 3), None, [3, 2], [3, 4], two, False, [0, 0], 1),
        (t(2, 3, 5, 6), t(130, 3, 3, 2), None, [1, 2], [1, 1], two, False, [0, 0], 1),
        (t(1, 64, 4, 5), t(64, 32, 3, 2), None, [2, 1], [1, 0], two, False, [0, 0], 2),
    ]


def convolution_gradient(t: Make) -> list[Call]:
    calls: list[Call] = []
    for x, weight, bias, *form in convolution(t):
        y = aten.convolution.default(x, weight, bias, *form)
        sizes = None if bias is None else list(bias.shape)
        calls.append((t(*y.shape), x, weight, sizes, *form, [True, True, bias is not None]))
    x, weight, _, *form = convolution(t)[0]
    y = aten.convolution.default(x, weight, None, *form)
    calls.append((t(*y.shape), x, weight, None, *form, [False, True, False]))
    return calls


def max_pool_forms(axes: int) -> list[tuple[Any, ...]]:
    n = axes
    return [
        ([3, 2, 2][:n], [1] * n, [0] * n, [1] * n, False),
        ([3] * n, [2] * n, [1] * n, [1] * n, True),
        ([2] * n, [1] * n, [1] * n, [2] * n, False),
    ]


def image(t: Make, axes: int) -> torch.Tensor:
    """Numbers that are all different, so that every window has one largest."""
    shape = (2, 3, 6, 7, 5)[: axes + 2]
    count = torch.Size(shape).numel()
    order = torch.randperm(count, generator=t.generator).reshape(shape)
    return (order - count // 2).to(t.dtype)


def max_pool(axes: int) -> Case:
    def calls(t: Make) -> list[Call]:
        x = image(t, axes)
        return [(x, *form) for form in max_pool_forms(axes)] + [(x[0], [2] * axes)]

    return calls


def max_pool_gradient(axes: int) -> Case:
    forward = getattr(aten, f"max_pool{axes}d_with_indices").default

    def calls(t: Make) -> list[Call]:
        found = []
        for form in max_pool_forms(axes):
            x = image(t, axes)
            y, where = forward(x, *form)
            found.append((t(*y.shape), x, *form, where))
        return found

    return calls


def avg_pool_forms(axes: int) -> list[tuple[Any, ...]]:
    n = axes
    return [
        ([3, 2, 2][:n], [1] * n, [0] * n, False, True, None),
        ([3] * n, [2] * n, [1] * n, True, False, None),
        ([3] * n, [2] * n, [1] * n, True, True, 5),
    ]


def avg_pool(axes: int) -> Case:
    def calls(t: Make) -> list[Call]:
        x = t(2, 3, 6, 7, 5)[(..., *[0] * (3 - axes))].contiguous()
        return [(x, *form) for form in avg_pool_forms(axes)] + [(x[0], [2] * axes)]

    return calls


def avg_pool_gradient(axes: int) -> Case:
    forward = getattr(aten, f"avg_pool{axes}d").default

    def calls(t: Make) -> list[Call]:
        x = t(2, 3, 6, 7, 5)[(..., *[0] * (3 - axes))].contiguous()
        return [(t(*forward(x, *f).shape), x, *f) for f in avg_pool_forms(axes)]

    return calls


ADAPTIVE = [[1, 1, 1], [3, 7, 2], [4, 5, 3], [8, 2, 6]]


def adaptive(axes: int) -> Case:
    return lambda t: [(image(t, axes), size[:axes]) for size in ADAPTIVE]


def adaptive_avg(axes: int) -> Case:
    """Small windows of positive numbers: eager sums some of them in their own dtype."""

    def calls(t: Make) -> list[Call]:
        if not t.dtype.is_floating_point:
            return []
        return [(t.positive(*image(t, axes).shape), size[:axes]) for size in ADAPTIVE[1:]]

    return calls


def adaptive_avg_gradient(axes: int) -> Case:
    def calls(t: Make) -> list[Call]:
        x = image(t, axes)
        return [(t(*x.shape[:2], *size[:axes]), x) for size in ADAPTIVE]

    return calls


def adaptive_max_gradient(axes: int) -> Case:
    forward = getattr(aten, f"adaptive_max_pool{axes}d").default

    def calls(t: Make) -> list[Call]:
        x = image(t, axes)
        return [(t(*x.shape[:2], *size[:axes]), x, forward(x, size[:axes])[1]) for size in ADAPTIVE]

    return calls


RESAMPLED = [(4, 9, 5), (2, 3, 1), (5, 2, 7), (3, 6, 4), (3, 9, 4)]
KINDS = [
    ("upsample_nearest", 1, False),
    ("upsample_nearest", 2, False),
    ("upsample_nearest", 3, False),
    ("_upsample_nearest_exact", 1, False),
    ("_upsample_nearest_exact", 2, False),
    ("_upsample_nearest_exact", 3, False),
    ("upsample_linear", 1, True),
    ("upsample_bilinear", 2, True),
    ("upsample_trilinear", 3, True),
    ("upsample_bicubic", 2, True),
]


def by_sizes(axes: int, aligns: bool) -> Case:
    def calls(t: Make) -> list[Call]:
        x = t(2, 3, *(3, 6, 4)[:axes])
        return [
            (x, list(size[:axes]), *corners)
            for size in RESAMPLED
            for corners in ([(True,), (False,)] if aligns else [()])
        ]

    return calls


def by_factors(axes: int, aligns: bool) -> Case:
    def calls(t: Make) -> list[Call]:
        x = t(2, 3, *(3, 6, 4)[:axes])
        corners = (False,) if aligns else ()
        return [
            (x, None, *corners, [2.0, 1.5, 0.6][:axes]),
            (x, list(RESAMPLED[0][:axes]), *corners, None),
        ]

    return calls


def with_infinities(gradient: torch.Tensor) -> torch.Tensor:
    """Of both signs, far enough apart that most elements should see none of them."""
    gradient.flatten()[::11] = torch.inf
    gradient.flatten()[5::23] = -torch.inf
    return gradient


def resampling_gradient(axes: int, aligns: bool) -> Case:
    def calls(t: Make) -> list[Call]:
        shape = [2, 3, *(3, 6, 4)[:axes]]
        return [
            (gradient, list(size[:axes]), shape, *corners)
            for size in RESAMPLED
            for corners in ([(True,), (False,)] if aligns else [()])
            for gradient in (t(2, 3, *size[:axes]), with_infinities(t(2, 3, *size[:axes])))
        ]

    return calls


def borders(axes: int) -> Case:
    amounts = [2, 1, 0, 3, 1, 1][: 2 * axes]
    return lambda t: [(t(2, 3, *(3, 5, 4)[-axes:]), amounts)]


def borders_gradient(kind: str, axes: int) -> Case:
    amounts = [2, 1, 0, 3, 1, 1][: 2 * axes]
    forward = getattr(aten, f"{kind}_pad{axes}d").default

    def calls(t: Make) -> list[Call]:
        x = t(2, 3, *(3, 5, 4)[-axes:])
        return [(t(*forward(x, amounts).shape), x, amounts)]

    return calls


CASES: dict[str, Case] = {
    "aten.convolution.default": convolution,
    "aten.convolution_backward.default": convolution_gradient,
}
for n in (2, 3):
    CASES |= {
        f"aten.max_pool{n}d_with_indices.default": max_pool(n),
        f"aten.max_pool{n}d_with_indices_backward.default": max_pool_gradient(n),
        f"aten.avg_pool{n}d.default": avg_pool(n),
        f"aten.avg_pool{n}d_backward.default": avg_pool_gradient(n),
        f"aten._adaptive_avg_pool{n}d.default": adaptive_avg(n),
        f"aten._adaptive_avg_pool{n}d_backward.default": adaptive_avg_gradient(n),
        f"aten.adaptive_max_pool{n}d.default": adaptive(n),
        f"aten.adaptive_max_pool{n}d_backward.default": adaptive_max_gradient(n),
    }
for kind, n, aligns in KINDS:
    CASES |= {
        f"aten.{kind}{n}d.default": by_sizes(n, aligns),
        f"aten.{kind}{n}d.vec": by_factors(n, aligns),
        f"aten.{kind}{n}d_backward.default": resampling_gradient(n, aligns),
    }
for n in (1, 2, 3):
    for kind in ("reflection", "replication"):
        CASES |= {
            f"aten.{kind}_pad{n}d.default": borders(n),
            f"aten.{kind}_pad{n}d_backward.default": borders_gradient(kind, n),
        }
CASES["aten._pad_circular.default"] = lambda t: [
    (t(2, 3, 4), [1, 2]),
    (t(1, 2, 3, 5), [5, 0, 1, 3]),
    (t(1, 1, 2, 3, 4), [1, 1, 2, 0, 0, 2]),
]


def antialiased(t: Make) -> list[Call]:
    """Axes that shrink, grow and stay; scales that the sizes don't say."""
    if t.dtype.itemsize < 4:  # eager has no kernel for them
        return []
    x = t(2, 3, 9, 7)
    with_nan = t(1, 1, 12, 12)
    with_nan[0, 0, 8, 8] = torch.nan  # just outside of windows that have room for it
    calls: list[Call] = [
        (x, size, corners)
        for size in ([4, 3], [2, 12], [9, 7], [1, 1])
        for corners in (True, False)
    ]
    return [*calls, (x, [5, 3], False, 0.6, 0.5), (with_nan, [4, 5], False)]


def antialiasing_gradient(t: Make) -> list[Call]:
    """Infinities where no window ends at a weight of nothing: there the last bit of the weight
    decides between infinity and NaN."""
    calls: list[Call] = []
    for x, size, *rest in antialiased(t):
        shape = (*x.shape[:2], *size)
        calls.append((t(*shape), size, list(x.shape), *rest))
        if size not in ([4, 3], [5, 3]):
            calls.append((with_infinities(t(*shape)), size, list(x.shape), *rest))
    return calls


for kind in ("bilinear", "bicubic"):
    CASES[f"aten._upsample_{kind}2d_aa.default"] = antialiased
    CASES[f"aten._upsample_{kind}2d_aa_backward.default"] = antialiasing_gradient
