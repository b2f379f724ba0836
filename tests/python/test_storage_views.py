"""as_strided reads the memory around a tensor: correct, or left to PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from conftest import Compile, assert_same, last_report


def overlapping_windows(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y.as_strided((y.shape[0] - 1, 2, 3), (3, 3, 1))


CASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "whole intermediate": lambda x: (x + 1).as_strided((2, 2), (1, 2), 1),
    "view with an offset": lambda x: (x + 1)[1:].as_strided((2, 2), (1, 2), 1),
    "view with its own offset": lambda x: (x + 1)[1:].as_strided((2, 2), (1, 2)),
    "transposed intermediate": lambda x: (x.t() + 1).as_strided((2, 2), (1, 2), 1),
    "overlapping windows": overlapping_windows,
    "one element": lambda x: (x + 1).as_strided((), (), 2),
    "copied": lambda x: torch.as_strided_copy((x + 1)[1:], (2, 2), (1, 2), 1),
}


@pytest.mark.parametrize("case", CASES)
def test_windows_into_intermediates_are_native(compiling: Compile, case: str) -> None:
    fn, x = CASES[case], torch.randn(5, 3)
    torch.testing.assert_close(compiling(fn)(x), fn(x))
    assert last_report().calls == []
    assert last_report().eager_reason is None


def test_windows_into_complex_numbers(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y[1:].as_strided((2, 2), (1, 2)), torch.view_as_real(y).as_strided((3,), (2,), 1)

    x = torch.randn(5, 3, dtype=torch.complex64)
    for got, want in zip(compiling(fn)(x), fn(x)):
        torch.testing.assert_close(got, want)


def test_windows_with_symbolic_sizes(compiling: Compile) -> None:
    compiled = compiling(overlapping_windows, dynamic=True)
    for rows in (4, 7):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x), overlapping_windows(x))


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("offset", [None, 1])
def test_windows_into_arguments_with_a_larger_storage(
    offset: int | None, dynamic: bool | None
) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((2, 5), (1, 2), offset) * 2

    compiled = torch.compile(fn, backend="gex", fullgraph=True, dynamic=dynamic)
    whole = torch.randn(6, 4)
    for x in (whole[2:4], whole[1:3], whole[:2]):  # the window reaches behind them
        assert_same(compiled(x), fn(x))


def test_windows_beyond_a_value_of_the_graph_are_errors(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).as_strided((1, 2), (1, 1))

    compiled = compiling(fn, dynamic=True)
    for rows in (3, 1, 5):
        x = torch.randn(rows, 1)
        if rows > 1:
            assert_same(compiled(x), fn(x))
            continue
        with pytest.raises(RuntimeError, match="out of bounds"):
            fn(x)
        with pytest.raises(RuntimeError, match="need 2 elements, but the tensor has 1"):
            compiled(x)


def test_a_window_whose_offset_is_an_argument_is_written() -> None:
    def fn(x: torch.Tensor, cut: torch.Tensor) -> torch.Tensor:
        cut.copy_(cut * 2)
        return x + 1

    compiled = torch.compile(fn, backend="gex", fullgraph=True, dynamic=True)
    for count, first in ((4, 2), (9, 3), (5, 4)):
        x, y = torch.arange(2.0 * count), torch.arange(2.0 * count)
        got = compiled(x[:count], x[first : first + 1])
        assert_same(got, fn(y[:count], y[first : first + 1]))
        assert_same(x, y)


def test_scatter_into_a_window(compiling: Compile) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.as_strided_scatter(x + 1, y, (2, 2), (1, 2), 1)

    x, y = torch.randn(4, 4), torch.randn(2, 2)
    assert_same(compiling(fn)(x, y), fn(x, y))


@pytest.mark.parametrize(
    "window", [((2, 2), (1, 2), 1), ((3,), (5,), 0), ((1, 2), (0, 7), 8), ((), (), 6)]
)
def test_windows_that_are_written_need_no_calls(
    compiling: Compile, window: tuple[tuple[int, ...], tuple[int, ...], int]
) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        turned = torch.as_strided_scatter((x * 2).t(), y, *window)
        return torch.as_strided_scatter(x + 1, y, *window), turned

    x, y = torch.randn(4, 4), torch.randn(window[0])
    assert_same(compiling(fn)(x, y), fn(x, y))
    assert last_report().calls == []


def test_overlapping_windows_are_written_by_pytorch(compiling: Compile) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.as_strided_scatter(x + 1, y, (3, 2), (1, 2), 1)

    x, y = torch.randn(4, 4), torch.ones(3, 2)
    assert_same(compiling(fn)(x, y), fn(x, y))
    assert [call.op for call in last_report().calls] == ["aten.as_strided_scatter.default"]


def test_scatter_outside_the_operand_is_left_to_pytorch(compiling: Compile) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.as_strided_scatter((x + 1)[1:], y, (2, 2), (1, 2), 1)

    x, y = torch.randn(4, 4), torch.randn(2, 2)
    assert_same(compiling(fn)(x, y), fn(x, y))
    assert "outside its operand" in (last_report().eager_reason or "")


def test_memory_as_another_dtype(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y.view(torch.int32) + 1, x.view(torch.int32), y.view(torch.int16)

    x = torch.randn(3, 4)
    assert_same(compiling(fn)(x), fn(x))


@pytest.mark.filterwarnings("ignore::gex.FallbackWarning")
def test_a_write_at_an_offset_into_the_callers_memory(compiling: Compile) -> None:
    """Offsets count from the start of the storage, not from the first element of the argument."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        window = x.as_strided((4,), (1,), 8)
        window.mul_(-1)
        return x * 1, window + 1

    def writes_only(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.as_strided((4,), (1,), 8).mul_(-1)
        return (x * 1,)

    for case in (fn, writes_only):
        compiled = compiling(case)
        for first in (1, 0, 2):
            mine, eager = (torch.arange(24.0).view(6, 4) for _ in range(2))
            got, want = compiled(mine[first : first + 4]), case(eager[first : first + 4])
            for a, b in zip((*got, mine), (*want, eager)):
                torch.testing.assert_close(a, b)
