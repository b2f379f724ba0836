"""Tensors of dtypes that gex lacks, and lazy conjugation and negation: only the ops on them run
through PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import gex
from conftest import Compile, assert_same, last_report

Tensors = tuple[torch.Tensor, ...]


def complex_numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.complex64)


def check(compiled: Callable[..., object], fn: Callable[..., object], *args: torch.Tensor) -> None:
    assert_same(compiled(*args), fn(*args))
    assert last_report().eager_reason is None


def test_complex_numbers_inside_a_graph(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(x + 1)
        turned = spectrum.conj() * torch.polar(torch.ones(3), torch.arange(3.0))
        return torch.fft.irfft(turned, n=4) + turned.imag.sum() + turned.abs()[:, :1]

    check(compiling(fn), fn, torch.randn(2, 4))
    assert last_report().native > 0


def test_complex_arguments_and_results(compiling: Compile) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Tensors:
        return x * 2j, y + 1, x, x[1:].real, (x + y).imag

    compiled = compiling(fn)
    x, y = complex_numbers(3, 4), torch.randn(4)
    check(compiled, fn, x, y)
    got = compiled(x, y)
    assert got[2] is x
    assert got[3].data_ptr() == x[1:].data_ptr()


def test_complex_sizes_may_change(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x * 2j).flatten()

    compiled = compiling(fn, dynamic=True)
    with gex.collect() as graphs:
        for rows in (2, 5):
            check(compiled, fn, complex_numbers(rows, 3))
    assert len(graphs) == 1


def test_real_view_of_complex_numbers_is_native(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(x).sum(-1) * 2

    check(compiling(fn), fn, complex_numbers(3, 4))
    assert last_report().calls == []


def test_mutated_complex_argument(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2j)
        return x + 1

    x = complex_numbers(3)
    y = x.clone()
    assert_same(compiling(fn)(x), fn(y))
    assert_same(x, y)


def test_gradients_through_complex_numbers(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (torch.fft.fft(x * 2).abs() ** 2).sum()

    x, y = (complex_numbers(3, 4).requires_grad_() for _ in range(2))
    y.data.copy_(x.data)
    fn(x).backward()
    compiling(fn)(y).backward()
    assert_same(y.grad, x.grad)


def test_lazily_conjugated_arguments_and_results(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> Tensors:
        return x * 2, x[1:], x.conj()[:, 1:], x.conj()

    check(compiling(fn), fn, complex_numbers(3, 4).conj())


def test_lazily_negated_argument(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> Tensors:
        return x * 2, x[1:], x

    x = complex_numbers(3, 4).conj().imag
    assert x.is_neg()
    check(compiling(fn), fn, x)


def test_lazily_conjugated_argument_is_mutated(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2) + 1

    x = complex_numbers(3)
    y = x.clone()
    assert_same(compiling(fn)(x.conj()), fn(y.conj()))
    assert_same(x, y)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16])
def test_narrow_types_inside_a_graph(compiling: Compile, dtype: torch.dtype) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Tensors:
        narrow = (x * 2).to(dtype)
        return narrow.to(torch.float32) + 1, narrow, y.to(torch.float32) * 2, y

    x, y = torch.rand(3, 4) * 9, torch.ones(5).to(dtype)
    got, want = compiling(fn)(x, y), fn(x, y)
    assert last_report().eager_reason is None
    assert [r.dtype for r in got] == [r.dtype for r in want]
    assert_same([r.float() for r in got], [r.float() for r in want])


def test_broadcast_complex_numbers(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> Tensors:
        wide = (x * 2)[:, None].expand(3, 4)
        return wide @ wide.t(), wide, x.expand(2, 3)

    check(compiling(fn), fn, complex_numbers(3))


def test_constant_complex_tensor(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor([1 + 2j, 3j])

    check(compiling(fn), fn, torch.randn(3, 2))
