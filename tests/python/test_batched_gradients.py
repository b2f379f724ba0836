"""Gradients of compiled functions for many directions at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from conftest import assert_same

T = torch.Tensor
Fn = Callable[..., Any]

pytestmark = [
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
    pytest.mark.filterwarnings("ignore:Please use torch.vmap"),
]


def product(x: T, y: T) -> T:
    return torch.tanh(x @ y).sum(1)


def two_results(x: T, y: T) -> tuple[T, T]:
    return (x @ y).relu(), x.square().sum()


def one_argument_unused(x: T, y: T) -> T:
    return (x * x + y.detach().sum()).sum(1)


def result_is_a_view(x: T, y: T) -> T:
    return (x @ y)[1:]


def images(x: T, y: T) -> T:
    maps = F.conv2d(x.reshape(1, 1, 4, 6).to(memory_format=torch.channels_last), y[:, None, :3, :3])
    return F.max_pool2d(maps, 2).flatten()


def writes_its_argument(x: T, y: T) -> T:
    z = x * 2
    z[0].mul_(3)
    return (z @ y).sum(0)


CASES = [
    (product, (4, 6), (6, 5)),
    (two_results, (4, 6), (6, 5)),
    (one_argument_unused, (4, 6), (6, 5)),
    (result_is_a_view, (4, 6), (6, 5)),
    (images, (4, 6), (6, 3, 3)),
    (writes_its_argument, (4, 6), (6, 5)),
]


def drawn(*shapes: tuple[int, ...]) -> list[T]:
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def gradients(fn: Fn, args: list[T], size: int) -> Any:
    results = fn(*args)
    results = results if isinstance(results, tuple) else (results,)
    torch.manual_seed(3)
    directions = [torch.randn(size, *r.shape, dtype=r.dtype) for r in results]
    return torch.autograd.grad(
        results, args, directions, is_grads_batched=True, allow_unused=True, retain_graph=True
    )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("fn", "first", "second"), CASES)
def test_batches_of_gradients(fn: Fn, first: tuple, second: tuple, dynamic: bool) -> None:
    args = drawn(first, second)
    backend = "npugraph_ex" if dynamic else "gex"
    compiled = torch.compile(fn, backend=backend, dynamic=dynamic, fullgraph=True)
    for size in (3, 1, 5):
        got, want = gradients(compiled, args, size), gradients(fn, args, size)
        assert [g is None for g in got] == [g is None for g in want]
        assert_values([g for g in got if g is not None], [g for g in want if g is not None])


def assert_values(got: Any, want: Any) -> None:
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("fn", "first", "second"), CASES)
def test_jacobian(fn: Fn, first: tuple, second: tuple) -> None:
    args = tuple(drawn(first, second))
    compiled = torch.compile(fn, backend="gex")
    jacobian = torch.autograd.functional.jacobian
    assert_values(jacobian(compiled, args, vectorize=True), jacobian(fn, args))


@pytest.mark.parametrize("fn", [product, two_results])
def test_gradcheck(fn: Fn) -> None:
    args = drawn((4, 6), (6, 5))
    compiled = torch.compile(fn, backend="gex")
    assert torch.autograd.gradcheck(compiled, args, check_batched_grad=True)


def test_gradients_inside_vmap() -> None:
    x, y = drawn((4, 6), (6, 5))
    compiled = torch.compile(product, backend="gex")
    compiled(x, y).sum().backward()  # PyTorch refuses to compile a backward inside vmap
    result = compiled(x, y)
    wanted = product(x, y)

    def gradients_of(result: T) -> Fn:
        return lambda v: torch.autograd.grad(result, (x, y), v, retain_graph=True)

    directions = torch.randn(2, 3, 4, dtype=torch.float64)
    for axis in (0, 1):
        got = torch.func.vmap(torch.func.vmap(gradients_of(result)), axis, axis)(directions)
        want = torch.func.vmap(torch.func.vmap(gradients_of(wanted)), axis, axis)(directions)
        assert_values(got, want)


def test_a_module_and_its_later_steps() -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)).double()
    compiled = torch.compile(net, backend="gex")
    x = torch.randn(5, 6, dtype=torch.float64)
    parameters = list(net.parameters())
    directions = torch.randn(4, 5, 3, dtype=torch.float64)
    for _ in range(2):
        got = torch.autograd.grad(compiled(x), parameters, directions, is_grads_batched=True)
        want = torch.autograd.grad(net(x), parameters, directions, is_grads_batched=True)
        assert_values(got, want)
        compiled(x).sum().backward()
        mine = [p.grad.clone() for p in parameters]
        net.zero_grad()
        net(x).sum().backward()
        assert_same(mine, [p.grad for p in parameters])
        net.zero_grad()
