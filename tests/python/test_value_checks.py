"""Indices out of range and divisors of 0 raise as in eager mode; values known to be valid cost
nothing."""

from __future__ import annotations

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
