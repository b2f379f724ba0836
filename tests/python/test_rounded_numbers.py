"""Numbers combined with f16 and bf16 tensors: where eager mode rounds them first."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

T = torch.Tensor

# Eager mode computes these in f32 as well and rounds once: equal but for its fused multiply-adds.
SCALED: dict[str, Callable[[T, T, T], T]] = {
    "add": lambda x, y, _: torch.add(x, y, alpha=0.3),
    "sub": lambda x, y, _: torch.sub(x, y, alpha=0.3),
    "rsub": lambda x, y, _: torch.rsub(x, y, alpha=0.3),
    "add_number": lambda x, *_: torch.add(x, 0.7, alpha=0.3),
    "addcmul": lambda x, y, z: torch.addcmul(x, y, z, value=0.3),
    "lerp": lambda x, y, _: torch.lerp(x, y, 0.3),
}
EQUAL: dict[str, Callable[[T, T, T], T]] = {
    "mul": lambda x, *_: x * 0.3,
    "div": lambda x, *_: x / 0.3,
    "fmod": lambda x, *_: torch.fmod(x * 100, 0.3),
    "remainder": lambda x, *_: torch.remainder(x * 100, 0.3),
    "remainder_of_number": lambda x, *_: torch.remainder(1000.3, x),
    "fmod_tensor": lambda x, y, _: torch.fmod(x * 100, y),
    "fmod_zero_dim": lambda x, *_: torch.fmod(x * 100, torch.tensor(0.3)),
    "floor_divide": lambda x, *_: torch.floor_divide(x * 100, 0.3),
    "pow": lambda x, *_: x.abs() ** 0.3,
    "pow_of_number": lambda x, *_: torch.pow(1.3, x),
    "compare": lambda x, *_: (x > 0.3) | (x == 0.7),
    "clamp": lambda x, *_: x.clamp(-0.3, 0.7),
    "addmm": lambda x, y, z: torch.addmm(x[:9, :9], y[:9, :4], z[:4, :9], alpha=0.3, beta=0.7),
}


def share_of_differences(fn: Callable[..., T], dtype: torch.dtype) -> float:
    args = [torch.randn(64, 301).to(dtype) for _ in range(3)]
    got, want = torch.compile(fn, backend="gex", fullgraph=True)(*args), fn(*args)
    assert got.dtype == want.dtype
    return (got != want).float().mean().item()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SCALED)
def test_factors(name: str, dtype: torch.dtype) -> None:
    assert share_of_differences(SCALED[name], dtype) < 2e-3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", EQUAL)
def test_numbers(name: str, dtype: torch.dtype) -> None:
    assert share_of_differences(EQUAL[name], dtype) <= 2e-4


def test_special_values_are_those_of_the_function() -> None:
    def fn(x: T, a: T, b: T) -> tuple[T, ...]:
        return F.gelu(x), F.gelu(x, approximate="tanh"), torch.fmod(a, b), torch.remainder(a, b)

    x = torch.tensor([math.inf, -math.inf, -50.0, math.nan])
    a, b = torch.tensor([1e38, -3e38, 16777217.0]), torch.tensor([0.1, 7.0, 3.0])
    exact = torch.compile(fn, backend="gex", fullgraph=True)(x, a, b)
    for gelu in exact[:2]:
        assert gelu[0] == math.inf and gelu[1].isnan() and gelu[2] == 0 and gelu[3].isnan()
    for got, function in zip(exact[2:], (torch.fmod, torch.remainder)):
        assert got.tolist() == function(a.double(), b.double()).float().tolist()
