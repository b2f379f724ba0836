"""Indices out of range and divisors of 0 raise as in eager mode; values known to be valid cost
nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import gex
from conftest import Compile, assert_same, last_report

Fn = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

CASES: dict[str, Fn] = {
    "embedding": lambda x, i: F.embedding(i, x),
    "index": lambda x, i: x[i],
    "index on two axes": lambda x, i: x[i, i % 3],
    "index on a later axis": lambda x, i: x.t()[:, i],
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i[:, None].expand(-1, 3)),
    "scatter": lambda x, i: x.scatter(0, i[:, None].expand(-1, 3), 9.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None].expand(-1, 3), torch.ones(3, 3)),
    "index_put": lambda x, i: x.index_put((i,), torch.tensor(9.0)),
    "index_add": lambda x, i: x.index_add(0, i, torch.ones(3, 3)),
    "index_copy": lambda x, i: x.index_copy(0, i, torch.ones(3, 3)),
    "index_fill": lambda x, i: x.index_fill(0, i, 9.0),
    "index_reduce": lambda x, i: x.index_reduce(0, i, torch.ones(3, 3), "amax"),
    "embedding_bag": lambda x, i: F.embedding_bag(i[None], x, mode="sum"),
    "take": lambda x, i: x.t()[1].take(i),
    "computed": lambda x, i: x[i * 2 - i],
    "cross_entropy": lambda x, i: F.cross_entropy(x.t(), i),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_an_index_out_of_range_raises(compiling: Compile, case: str, dynamic: bool) -> None:
    fn, x = CASES[case], torch.randn(4, 3)
    compiled = compiling(fn, dynamic=dynamic)
    good, bad = torch.tensor([3, 0, 1]), torch.tensor([1, 4, 0])
    assert_same(compiled(x, good), fn(x, good))
    with pytest.raises((IndexError, RuntimeError)):
        fn(x, bad)
    with pytest.raises(gex.IndexOutOfRange, match=r"range from 0 to 4, .* has 4 elements") as error:
        compiled(x, bad)
    assert "test_value_checks.py" in str(error.value)
    assert isinstance(error.value, IndexError)
    assert isinstance(error.value, RuntimeError)
    assert_same(compiled(x, good), fn(x, good))  # goes on
    assert last_report().calls == []


@pytest.mark.parametrize("name", ["max", "min", "mode", "median", "kthvalue", "argmax"])
@pytest.mark.parametrize("rows", [0, 3])
def test_an_empty_axis_has_no_extremum(compiling: Compile, name: str, rows: int) -> None:
    def extremum(x: torch.Tensor) -> Any:
        return x.kthvalue(1, 1) if name == "kthvalue" else getattr(x, name)(1)

    for fn in (extremum, compiling(extremum)):
        with pytest.raises((IndexError, RuntimeError), match="dim"):
            fn(torch.empty(rows, 0))


@pytest.mark.parametrize("whole", [False, True])
def test_the_sizes_of_data_decide_about_an_empty_axis(compiling: Compile, whole: bool) -> None:
    compiled = compiling(lambda x, mask: x[mask].min() if whole else x[mask].min(0).values)
    x = torch.randn(4, 2)
    assert_same(compiled(x, x[:, 0] > -9), x.min() if whole else x.min(0).values)
    for empty in (x, torch.empty(4, 0)):
        with pytest.raises((IndexError, RuntimeError), match="dim"):
            compiled(empty, torch.zeros(4, dtype=torch.bool))


@pytest.mark.parametrize("dynamic", [False, True])
def test_positions_among_all_elements(compiling: Compile, dynamic: bool) -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        source = torch.arange(1.0, 4.0)
        return x.take(i[None]), x.put(i, source), x.put(i, source, accumulate=True)

    compiled, x = compiling(fn, dynamic=dynamic), torch.randn(3, 4).t()
    for good in ([11, 0, -12], [5, 6, -1]):
        assert_same(compiled(x, torch.tensor(good)), fn(x, torch.tensor(good)))
    for bad in ([12, 0, 1], [-13, 0, 1]):
        with pytest.raises(gex.IndexOutOfRange, match="has 12 elements"):
            compiled(x, torch.tensor(bad))
    assert last_report().calls == []


def unpooled(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return F.max_unpool2d(x.view(1, 1, 2, 2), places.view(1, 1, 2, 2), 2)


def put_where(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.masked_scatter(mask, torch.ones(4))


def bags(x: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(torch.tensor([0, 1, 2]), x, starts)


# The function, its first argument, good second arguments, bad ones, and the error.
VALUES: dict[str, tuple[Fn, torch.Tensor, list[Any], list[Any], str]] = {
    "probabilities": (
        lambda y, p: F.binary_cross_entropy(p, y),
        torch.tensor([0.0, 1.0, 0.5]),
        [[0.0, 1.0, 0.5]],
        [[0.0, 1.5, 0.5], [-0.5, 1.0, 0.5], [0.0, math.nan, 0.5]],
        "all elements of input should be between 0 and 1",
    ),
    "targets": (
        F.binary_cross_entropy,
        torch.tensor([0.0, 1.0, 0.5]),
        [[0.0, 1.0, 0.5]],
        [[0.0, 1.5, 0.5], [-0.5, 1.0, 0.5]],
        "all elements of target should be between 0 and 1",
    ),
    "places of maxima": (
        unpooled,
        torch.randn(4),
        [[0, 3, 8, 15]],
        [[0, 3, 8, 16], [0, 3, 8, -1]],
        "has 16 elements",
    ),
    "trues of a mask": (
        put_where,
        torch.randn(3, 2),
        [[[True, True], [True, False], [False, True]]],
        [[True, True], [[True, True], [True, True], [True, False]]],
        "the source only 4",
    ),
    "starts of bags": (
        bags,
        torch.randn(4, 3),
        [[0, 2], [0, 3]],
        [[1, 2], [0, 4]],
        "must begin with 0 and end within the 3 indices",
    ),
}


@pytest.mark.parametrize("case", VALUES)
def test_values_that_eager_mode_rejects(compiling: Compile, case: str) -> None:
    fn, x, good, bad, error = VALUES[case]
    for value in good:
        assert_same(compiling(fn)(x, torch.tensor(value)), fn(x, torch.tensor(value)))
    for value in bad:
        with pytest.raises(RuntimeError):
            fn(x, torch.tensor(value))
        with pytest.raises(RuntimeError, match=error):
            compiling(fn)(x, torch.tensor(value))
    assert last_report().calls == []


def test_negative_indices_are_allowed_where_eager_allows_them(compiling: Compile) -> None:
    x = torch.randn(4, 3)
    compiled = compiling(lambda x, i: x[i])
    assert_same(compiled(x, torch.tensor([-1, -4])), x[torch.tensor([-1, -4])])
    with pytest.raises(IndexError, match="range from -5 to 0"):
        compiled(x, torch.tensor([0, -5]))
    filled = compiling(lambda x, i: x.index_fill(0, i, 2.0))
    assert_same(filled(x, torch.tensor([-1, -4])), x.index_fill(0, torch.tensor([-1, -4]), 2.0))
    with pytest.raises(IndexError, match="range from -5 to 0"):
        filled(x, torch.tensor([0, -5]))
    with pytest.raises(IndexError, match="range from -1 to 0"):
        compiling(lambda x, i: F.embedding(i, x))(x, torch.tensor([0, -1]))


def test_ignored_targets_are_not_indices(compiling: Compile) -> None:
    scores, targets = torch.randn(3, 4), torch.tensor([1, -100, 3])
    compiled = compiling(F.cross_entropy)
    assert_same(compiled(scores, targets), F.cross_entropy(scores, targets))
    with pytest.raises(IndexError, match="has 4 elements"):
        compiled(scores, torch.tensor([1, -100, 4]))


def test_empty_index(compiling: Compile) -> None:
    compiled = compiling(lambda x, i: x[i], dynamic=True)
    x = torch.randn(4, 3)
    for count in (3, 0, 2):
        i = torch.arange(count)
        assert_same(compiled(x, i), x[i])


def test_check_inside_a_condition(compiling: Compile) -> None:
    def fn(flag: torch.Tensor, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.cond(flag, lambda x, i: x[i], lambda x, i: x[:2] * 2, (x, i))

    compiled = compiling(fn)
    x, yes, no, bad = torch.randn(4), torch.tensor(True), torch.tensor(False), torch.tensor([1, 9])
    good = torch.tensor([1, 3])
    assert_same(compiled(yes, x, good), x[good])
    assert_same(compiled(no, x, bad), x[:2] * 2)
    with pytest.raises(IndexError):
        compiled(yes, x, bad)
    assert last_report().calls == []


@pytest.mark.parametrize(
    "fn",
    [
        lambda a, b: a // b,
        lambda a, b: a % b,
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        torch.fmod,
    ],
)
def test_integer_division_by_zero_raises(compiling: Compile, fn: Fn) -> None:
    compiled = compiling(fn, dynamic=True)
    a, b = torch.tensor([7, -8, 9]), torch.tensor([2, -3, 4])
    assert_same(compiled(a, b), fn(a, b))
    for run in (fn, compiled):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            run(a, torch.tensor([2, 0, 4]))
    got, want = compiled(a.float(), b * 0), fn(a.float(), b * 0)
    torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize(
    "fn",
    [
        lambda a, n: a // n,
        lambda a, n: a % n,
        lambda a, n: torch.div(a, n, rounding_mode="trunc"),
        lambda a, n: torch.fmod(a, n),
        lambda a, n: a.clone().floor_divide_(n),
        lambda a, n: (a > 0) % n,
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_integer_division_by_the_number_zero_raises(
    compiling: Compile, fn: Any, dynamic: bool
) -> None:
    def by_number(a: torch.Tensor) -> torch.Tensor:
        return fn(a, 0)

    def by_size(a: torch.Tensor) -> torch.Tensor:
        return fn(a, a.shape[0] - 4)

    for divide, sizes in ((by_number, (3,)), (by_size, (7, 4))):
        compiled = compiling(divide, dynamic=dynamic)
        for size in sizes:
            a = torch.arange(size) - 2
            if size == 7:
                assert_same(compiled(a), divide(a))
                continue
            for run in (divide, compiled):
                with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                    run(a)


def test_an_integer_has_no_negative_power(compiling: Compile) -> None:
    x = torch.tensor([1, 2, 3])
    for run in (lambda x: x.pow(-1), compiling(lambda x: x.pow(-1))):
        with pytest.raises(RuntimeError, match="negative integer powers"):
            run(x)
    assert_same(compiling(lambda x: x.pow(2))(x), x.pow(2))


def test_nothing_is_divided_by_zero(compiling: Compile) -> None:
    def fn(a: torch.Tensor) -> torch.Tensor:
        return a % 0

    compiled = compiling(fn, dynamic=True)
    for rows, columns in ((0, 3), (2, 0)):
        a = torch.zeros(rows, columns, dtype=torch.int32)
        assert_same(compiled(a), fn(a))


SAFE: dict[str, Callable[[torch.Tensor], Any]] = {
    "arange": lambda x: x[torch.arange(x.shape[0])],
    "backwards": lambda x: x[x.shape[0] - 1 - torch.arange(x.shape[0])],
    "clamped": lambda x: x[(x[:, 0] * 100).long().clamp(0, 2)],
    "remainder": lambda x: x[(x[:, 0] * 100).long() % 3],
    "argmax": lambda x: x.gather(1, x.argmax(1)[:, None]),
    "sorted": lambda x: x.gather(1, x.sort(1)[1]),
    "largest": lambda x: x.gather(1, x.topk(2)[1]),
    "divisor": lambda x: x[torch.arange(5) // (torch.arange(5) + 1)],
    "chosen": lambda x: x[torch.where(x[:, 0] > 0, 0, 2)],
}


@pytest.mark.parametrize("case", SAFE)
def test_indices_known_to_be_valid_are_not_checked(case: str) -> None:
    fn, x = SAFE[case], torch.randn(5, 4)
    compiled = torch.compile(fn, backend="gex", fullgraph=True)
    assert_same(compiled(x), fn(x))
    assert " if " not in last_report().runner.text("graph")


def test_the_backward_does_not_check_again() -> None:
    weight, index = torch.randn(4, 3, requires_grad=True), torch.tensor([1, 3])
    with gex.collect() as graphs:
        loss = torch.compile(lambda w, i: F.embedding(i, w).sum(), backend="gex")(weight, index)
        loss.backward()
    assert_same(weight.grad, torch.tensor([0.0, 1, 0, 1])[:, None].expand(4, 3).contiguous())
    forward, backward = (g.runner.text("graph") for g in graphs)
    assert " if" in forward
    assert " if" not in backward
