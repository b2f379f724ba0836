"""Sizes that change from call to call: one graph, generic code, captures under a limit."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

import gex
from conftest import Compile, assert_same, last_report


def block(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    flat = x.reshape(rows * columns)
    padded = nn.functional.pad(flat, (0, (-flat.shape[0]) % 8))
    return padded.view(-1, 8).softmax(-1).sum() + x.mean(0)[: columns // 2].sum() * rows


def test_every_length_runs_at_once(compiling: Compile) -> None:
    compiled = compiling(block, dynamic=True)
    with gex.collect() as graphs:
        for rows, columns in ((3, 5), (8, 9), (7, 31), (40, 6)):
            x = torch.randn(rows, columns)
            assert_same(compiled(x), block(x), tolerance=1e-4)
    assert len(graphs) == 1


def test_the_second_size_makes_a_dimension_dynamic() -> None:
    compiled = torch.compile(block, backend="gex")
    with gex.collect() as graphs:
        for rows in (3, 4, 5, 6, 7):
            x = torch.randn(rows, 6)
            assert_same(compiled(x), block(x), tolerance=1e-4)
    assert len(graphs) == 2


def rows(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1).t() * x.shape[0]


def test_marked_dimension_with_a_range(compiling: Compile) -> None:
    compiled = compiling(rows)
    with gex.collect() as graphs:
        for count in (2, 9, 64):
            x = torch.randn(count, 6)
            torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
            assert_same(compiled(x), rows(x))
    assert len(graphs) == 1
    x = torch.randn(65, 6)
    with gex.collect() as graphs:
        assert_same(compiled(x), rows(x))  # outside of the range: another graph
    assert len(graphs) == 1


def test_maybe_marked_dimension(compiling: Compile) -> None:
    def fixed(x: torch.Tensor) -> torch.Tensor:
        return x.view(2, 3) + 1  # forces the size after all

    compiled = compiling(fixed)
    x = torch.randn(6)
    torch._dynamo.maybe_mark_dynamic(x, 0)
    assert_same(compiled(x), fixed(x))


def test_marked_static_dimension(compiling: Compile) -> None:
    compiled = compiling(block, dynamic=True)
    with gex.collect() as graphs:
        for rows in (3, 4):
            x = torch.randn(rows, 6)
            torch._dynamo.mark_static(x, 0)
            assert_same(compiled(x), block(x), tolerance=1e-4)
    assert len(graphs) == 2


def test_unbacked_dimension(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sum(1)

    compiled = compiling(fn)
    with gex.collect() as graphs:
        for rows in (0, 1, 5):
            x = torch.randn(rows, 3)
            torch._dynamo.decorators.mark_unbacked(x, 0)
            assert_same(compiled(x), fn(x))
    assert len(graphs) == 1


EXPRESSIONS: dict[str, Callable[[int], int]] = {
    "sum and product": lambda n: n * n + 3 * n + 1,
    "floor": lambda n: (n + 7) // 8,
    "ceiling": lambda n: -(-n // 3),
    "remainder": lambda n: n % 5 + 1,
    "larger": lambda n: max(n, 4),
    "smaller": lambda n: min(n, 4),
    "power": lambda n: n**3,
    "shift": lambda n: (n << 1) + (n >> 1),
    "root of a square": lambda n: int(math.sqrt(n * n)) + int((n * n) ** 0.5),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_over_sizes(compiling: Compile, name: str) -> None:
    expression = EXPRESSIONS[name]

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        size = expression(x.shape[0])
        return torch.full((size,), 2.0) * x.sum() + size, size

    compiled = compiling(fn, dynamic=True)
    for rows in (2, 3, 6):
        x = torch.randn(rows)
        got, want = compiled(x), fn(x)
        assert_same(got, want)
        assert got[1] == want[1]


def test_number_arguments(compiling: Compile) -> None:
    def fn(x: torch.Tensor, n: int, scale: float, flag: bool) -> torch.Tensor:
        return (x[:n] * scale + n).repeat(n) if flag else x

    compiled = compiling(fn, dynamic=True)
    for n in (2, 3, 4):
        x = torch.randn(9)
        assert_same(compiled(x, n, n / 3, True), fn(x, n, n / 3, True))


FLOATS: dict[str, Callable[[int], float]] = {
    "ratio": lambda n: n / 7,
    "ratio of sums": lambda n: (n + 1) / (2 * n - 1) + 0.5,
    "root": lambda n: math.sqrt(n),
    "inverse root": lambda n: n**-0.5,
    "half": lambda n: float(n) * 0.5,
}


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_floats_of_sizes_need_no_calls(dtype: torch.dtype, name: str) -> None:
    expression = FLOATS[name]

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        number = expression(x.shape[0])
        return x * number, x + number, number / (x + 1), x > number, x.sum() <= number

    compiled = torch.compile(
        fn, backend="gex", fullgraph=True, dynamic=True, options={"strict": True}
    )
    for rows in (3, 7):
        x = torch.arange(2 * rows).reshape(rows, 2).to(dtype)
        assert_same(compiled(x), fn(x))


SIZES: dict[str, Callable[[int], torch.Tensor]] = {
    "centres": lambda n: torch.arange(0.5, n),
    "halves": lambda n: torch.arange(0, n, 0.5),
    "every third": lambda n: torch.arange(0, n + 0.25, 3.0),
    "descending": lambda n: torch.arange(n, -0.5, -1.5),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_computed_with_floats(compiling: Compile, name: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return SIZES[name](x.shape[0]).sin() * x[0]

    compiled = compiling(fn, dynamic=True)
    for rows in (3, 4, 7, 12):
        x = torch.randn(rows)
        assert_same(compiled(x), fn(x))
    assert last_report().eager_reason is None


def test_masked_scatter_from_a_source_that_may_be_empty(compiling: Compile) -> None:
    def fn(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x.masked_scatter(mask, x[: x.shape[0] // 4] * 2)

    compiled = compiling(fn, dynamic=True)
    for rows in (9, 5, 3):
        x, mask = torch.randn(rows), torch.arange(rows) >= rows - rows // 4
        assert_same(compiled(x, mask), fn(x, mask))
    assert last_report().calls == []


def test_equal_sizes_with_two_expressions_need_no_calls() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        half = x[::2]
        return half + y, torch.where(y > 0, half[:, None], y), half[:, None] * y

    options = {"strict": True}
    compiled = torch.compile(fn, backend="gex", fullgraph=True, dynamic=True, options=options)
    for rows in (6, 9, 14):
        x, y = torch.randn(rows), torch.randn((rows + 1) // 2)
        assert_same(compiled(x, y), fn(x, y))
    x, y = torch.randn(9), torch.randn(1)
    assert_same(compiled(x, y), fn(x, y))


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_images_of_any_size_are_resized_without_calls(compiling: Compile, mode: str) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        half = (x.shape[2] // 2 + 1, x.shape[3] // 2)
        resize = torch.nn.functional.interpolate
        return resize(x, size=half, mode=mode), resize(x, scale_factor=2.0, mode=mode)

    compiled = compiling(fn, dynamic=True)
    for height, width in ((6, 9), (11, 5)):
        x = torch.randn(2, 3, height, width)
        assert_same(compiled(x), fn(x))
    assert last_report().calls == []


def test_two_dimensions_that_must_be_equal(compiling: Compile) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    compiled = compiling(fn, dynamic=True)
    for rows in (3, 5):
        x, y = torch.randn(rows, 4), torch.randn(rows, 4)
        assert_same(compiled(x, y), fn(x, y))
    x, y = torch.randn(1, 4), torch.randn(5, 4)
    assert_same(compiled(x, y), fn(x, y))


def test_captures_stay_under_their_limit_and_the_report_says_so() -> None:
    compiled = torch.compile(block, backend="gex", dynamic=True, options={"capture_limit": 2})
    for rows in (3, 4, 3, 5, 3, 4):
        x = torch.randn(rows, 6)
        assert_same(compiled(x), block(x), tolerance=1e-4)
    report = last_report()
    kept = [capture["key"] for capture in report.runner.captures]
    assert sorted(kept) == sorted(k for k in kept if k[0] in (3, 4))
    assert len(kept) == 2
    # 3, 4 and 5 are new; 5 pushes out 4, the least recently used; then 4 comes back.
    assert "captures: 2 held of at most 2, 4 made, 2 dropped" in report.text()
    assert "dim 0 of input 0 was 3, now 4" in report.text()
