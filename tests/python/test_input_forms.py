"""Arguments in every form that PyTorch lets a tensor have."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from conftest import Compile, assert_same, last_report


def misaligned(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor one element behind the start of its storage."""
    size = int(np.prod(shape))
    return torch.arange(size + 1).to(dtype)[1:].view(shape)


def from_odd_bytes(shape: tuple[int, ...]) -> torch.Tensor:
    """A tensor whose address is no multiple of its element's size."""
    size = int(np.prod(shape))
    raw = np.zeros(4 * size + 1, dtype=np.uint8)
    array = raw[1:].view(np.float32).reshape(shape)
    array[...] = np.linspace(-1, 1, size).reshape(shape)
    tensor = torch.from_numpy(array)
    assert tensor.data_ptr() % 4 != 0
    return tensor


FORMS: dict[str, Callable[[], torch.Tensor]] = {
    "dense": lambda: torch.randn(4, 6),
    "transposed": lambda: torch.randn(6, 4).t(),
    "every other column": lambda: torch.randn(4, 12)[:, ::2],
    "a window": lambda: torch.randn(9, 9)[2:6, 1:7],
    "broadcast": lambda: torch.randn(1, 6).expand(4, 6),
    "one number everywhere": lambda: torch.tensor(0.5).expand(4, 6),
    "behind the start of its storage": lambda: misaligned((4, 6)),
    "from numpy": lambda: torch.from_numpy(np.linspace(0, 1, 24, dtype=np.float32).reshape(4, 6)),
    "from numpy, transposed": lambda: torch.from_numpy(
        np.asfortranarray(np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32))
    ),
    "at an odd address": lambda: from_odd_bytes((4, 6)),
    "needing a gradient": lambda: torch.randn(4, 6, requires_grad=True),
}


def mixed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    weight = torch.arange(30).view(6, 5) / 15 - 1
    return x * 2 + 1, x @ weight, x.softmax(-1), x.sum(0), x[1:].clone()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_an_argument(compiling: Compile, form: str, dynamic: bool) -> None:
    x = FORMS[form]()
    assert_same(compiling(mixed, dynamic=dynamic)(x), mixed(x))
    assert last_report().calls == []


@pytest.mark.slow
def test_one_function_sees_all_forms() -> None:
    compiled = torch.compile(mixed, backend="gex", dynamic=True)
    with torch._dynamo.config.patch(recompile_limit=32):
        for make in FORMS.values():
            x = make()
            assert_same(compiled(x), mixed(x))


@pytest.mark.parametrize("make", [lambda: misaligned((8,)), lambda: from_odd_bytes((8,))])
def test_misaligned_argument_is_written(
    compiling: Compile, make: Callable[[], torch.Tensor]
) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2) + 1

    x, y = make(), make().clone()
    assert_same(compiling(fn)(x), fn(y))
    assert_same(x, y)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8, torch.float64])
def test_misaligned_matrices(compiling: Compile, dtype: torch.dtype) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x % 5).to(torch.float64) @ (y % 3).to(torch.float64)

    x, y = misaligned((5, 7), dtype), misaligned((7, 9), dtype)
    assert_same(compiling(fn)(x, y), fn(x, y))


def test_zero_dimensional_tensors(compiling: Compile) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + y, x.expand(3), (x * y).sum(), x.view(1), torch.stack([x, x]), x

    x, y = torch.tensor(2.0), torch.randn(4)
    assert_same(compiling(fn)(x, y), fn(x, y))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_empty_tensors(compiling: Compile, shape: tuple[int, ...], dynamic: bool) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, x.sum(), x.sum(0), torch.cat([x, x]), x.reshape(-1), (x > 0).any()

    x = torch.empty(shape)
    assert_same(compiling(fn, dynamic=dynamic)(x), fn(x))


def test_size_that_becomes_zero() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2))
    compiled = torch.compile(model, backend="gex", dynamic=True)
    with torch.no_grad():
        for rows in (3, 0, 5):
            x = torch.randn(rows, 4)
            assert_same(compiled(x), model(x))


def test_arguments_in_containers(compiling: Compile) -> None:
    def fn(tree: dict[str, object]) -> dict[str, object]:
        first, (second, number) = tree["a"], tree["b"]
        return {"sum": first + second * number, "again": [first, {"x": second.t()}]}

    tree = {"a": torch.randn(3, 3), "b": (torch.randn(3, 3), 2.5)}
    assert_same(compiling(fn)(tree), fn(tree))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_floats_drawn_by_python(compiling: Compile, dtype: torch.dtype) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        factor = random.uniform(0.5, 1.5)
        return x * factor, x + random.randint(3, 9), (x * 2 + factor).sum()

    compiled = compiling(fn)
    for seed in range(3):
        x = torch.arange(5).to(dtype)
        random.seed(seed)
        want = fn(x)
        random.seed(seed)
        assert_same(compiled(x), want, tolerance=1e-15 if dtype == torch.float64 else 1e-5)
    assert last_report().eager_reason is None
