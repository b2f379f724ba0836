"""Samples of rows that are selected from a table: by masks, and bag by bag."""

from __future__ import annotations

from typing import Any

import torch

from row_samples import Call, Make


def with_zeros(t: Make) -> list[Call]:
    x = t(3, 1, 5)
    x[x > 0] = 0
    return [(x,), (x[0, 0],), (x.transpose(0, 2),), (torch.zeros_like(x),), (x[:0],)]


def masks(t: Make) -> list[Call]:
    """x[mask] for masks of all axes and of the first ones; one that selects nothing."""
    x = t(4, 3, 2)
    some = torch.arange(12).reshape(4, 3) % 5 < 2
    return [
        (x, [some]),
        (x, [torch.arange(4) == 2]),
        (x.transpose(0, 1), [some.t()]),
        (x, [torch.zeros(4, 3, 2, dtype=torch.bool)]),
    ]


def masked_selections(t: Make) -> list[Call]:
    mask = torch.arange(5) % 2 == 0
    return [(t(3, 5), mask), (t(5), mask[:, None]), (t(3, 5), torch.zeros(1, dtype=torch.bool))]


def masked_gradients(t: Make) -> list[Call]:
    """Sources as long as what the mask takes, and longer; a mask of fewer axes."""
    mask = torch.arange(12).reshape(3, 4) % 3 == 0
    return [
        (t(3, 4), mask, [4]),
        (t(3, 4), mask, [3, 3]),
        (t(2, 3, 4), mask, [10]),
        (t(3, 4), torch.zeros(4, dtype=torch.bool), [2]),
    ]


def few_values(t: Make, *shape: int) -> torch.Tensor:
    return torch.randint(0, 4, shape, generator=t.generator).to(t.dtype)


def with_odd_values(t: Make) -> torch.Tensor:
    """Two NaNs, which are two values, and both zeros, which are one."""
    x = few_values(t, 9)
    if t.dtype.is_floating_point:
        x[[2, 5]] = float("nan")
        x[[0, 1, 7]] = torch.tensor([0.0, -0.0, 0.0], dtype=t.dtype)
    return x


def distinct(t: Make) -> list[Call]:
    """All combinations of results; one element, none, no axis."""
    x = few_values(t, 3, 7)
    flags = [(True, inverse, counts) for inverse in (False, True) for counts in (False, True)]
    return [
        *((x, *flag) for flag in flags),
        (x.t(), False, True, True),
        (with_odd_values(t), True, True, True),
        (t(3, 1)[2], True, True, True),
        (t(0, 2), True, True, True),
        (t(), True, True, True),
    ]


def distinct_along(t: Make) -> list[Call]:
    """Rows, columns, planes, and numbers of columns that are no power of two."""
    x = few_values(t, 6, 2, 3) // 2 if t.dtype != torch.bool else few_values(t, 6, 2, 3)
    return [
        *((x, axis, True, True, True) for axis in (0, 1, 2)),
        (few_values(t, 9, 1), 0, True, True, True),
        (few_values(t, 12), 0, True, False, True),
        (x[:, :, 0].repeat(2, 1), 0, False, True, False),
        (x[:1], 0, True, True, True),
    ]


def consecutive(t: Make) -> list[Call]:
    x = few_values(t, 2, 9)
    flags = [(inverse, counts) for inverse in (False, True) for counts in (False, True)]
    rows = few_values(t, 3, 2).repeat_interleave(torch.tensor([2, 1, 3]), 0)
    return [
        *((x, *flag) for flag in flags),
        (with_odd_values(t), True, True),
        (rows, True, True, 0),
        (rows.t(), True, True, 1),
        (rows.reshape(3, 2, 2).transpose(0, 1), True, True, 1),
        (t(0), True, True),
    ]


def modes(t: Make) -> list[Call]:
    """No NaN: eager's sort takes it for equal to everything. Of more than 16 elements the reference
    executor tells the last of equal ones, and eager another one."""
    x = few_values(t, 4, 11)
    zeros = with_odd_values(t).nan_to_num(nan=3)
    return [(x, -1), (x, 0, True), (x.t(), 1), (zeros,), (t(3, 1), 1), (t(),)]


def embedding_gradient(t: Make) -> list[Call]:
    return [(t(2, 3, 4), t.index(5, 2, 3), 5, padding, False) for padding in (-1, 2)]


def embedding_bags(t: Make) -> list[Call]:
    """Sums, means, maxima; empty bags in the middle and at the end; weights, padding, a last
    offset; NaN as the first of a bag, which eager keeps, and later, where it passes it over."""
    table, indices = t(7, 4), torch.tensor([1, 6, 2, 2, 0, 5])
    offsets = torch.tensor([0, 2, 2, 5, 6])
    with_nan = t(7, 4)
    with_nan[[2, 5]] = torch.nan
    return [
        (table, indices, offsets, False, 0, False, None, False, -1),
        (table, indices, offsets, False, 1, False, None, False, -1),
        (table, indices, offsets, False, 0, False, t(6), False, -1),
        (table, indices, offsets, False, 0, False, None, True, -1),
        (table, indices, offsets, False, 1, False, None, False, 2),
        (table, indices[:0], offsets[:1], False, 1, False, None, False, -1),
        (table, indices, offsets, False, 2, False, None, False, -1),
        (table, indices, offsets, False, 2, False, None, False, 5),
        (table, indices, offsets, False, 2, False, None, True, -1),
        (table, indices[:0], offsets[:1], False, 2, False, None, False, -1),
        (with_nan, indices, offsets, False, 2, False, None, False, 1),
    ]


def embedding_bags_with_all_results(*call: Any) -> tuple[torch.Tensor, ...]:
    """Eager leaves sizes and places unwritten where its own gradient does not need them."""
    result, bags, sizes, places = torch.ops.aten._embedding_bag.default(*call)
    _, indices, offsets, *_, with_end, padding = call
    starts = offsets[:-1] if with_end else offsets
    bag_of = torch.bucketize(torch.arange(len(indices)), starts, right=True) - 1
    counts = torch.zeros(len(sizes), dtype=torch.int64)
    counts.index_add_(0, bag_of, (indices != padding).long())
    places = places if call[4] == 2 else torch.zeros_like(places)
    return result, bag_of if len(bags) else bags, counts, places


def embedding_bag_gradient(t: Make) -> list[Call]:
    indices, bags = torch.tensor([1, 6, 2, 2, 0, 5]), torch.tensor([0, 0, 2, 2, 2, 3])
    sizes = torch.tensor([2, 0, 3, 1])
    places = torch.tensor([[1, 6, 1], [0, 0, 0], [2, 0, 2], [5, 5, 5]])
    return [
        (t(4, 3), indices, bags, sizes, sizes, 7, False, 0, None, -1),
        (t(4, 3), indices, bags, sizes, sizes, 7, False, 1, None, -1),
        (t(4, 3), indices, bags, sizes, sizes, 7, False, 0, t(6), -1),
        (t(4, 3), indices, bags, sizes, sizes, 7, False, 0, None, 2),
        (t(4, 3), indices, bags, sizes, places, 7, False, 2, None, -1),
    ]


def embedding_bag_gradient_by_offsets(t: Make) -> list[Call]:
    """The same calls in the form that autograd makes, with bags and without."""
    offsets = torch.tensor([0, 2, 2, 5])
    calls: list[Call] = []
    for (
        grad,
        indices,
        bags,
        sizes,
        places,
        rows,
        scale,
        mode,
        weights,
        padding,
    ) in embedding_bag_gradient(t):
        for known in (bags, bags[:0]) if mode == 0 else (bags,):
            call = (grad, indices, offsets, known, sizes, places, rows, scale, mode, False)
            calls.append((*call, weights, padding))
    return calls


def sample_weights_gradient(t: Make) -> list[Call]:
    indices, bags = torch.tensor([1, 6, 2, 2, 0, 5]), torch.tensor([0, 0, 2, 2, 2, 3])
    offsets = torch.tensor([0, 2, 2, 5])
    return [
        (t(4, 3), t(7, 3), indices, offsets, known, 0, padding)
        for known in (bags, bags[:0])
        for padding in (-1, 2)
    ]
