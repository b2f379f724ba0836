"""Dropout draws eager's numbers and fuses with its neighbours."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import gex

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def weights(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x.softmax(-1), 0.1)


def seeded(fn: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return fn(x)


def test_softmax_and_dropout_are_a_draw_and_one_kernel() -> None:
    fn = torch.compile(weights, backend="gex", fullgraph=True)
    x = torch.randn(8, 16, 128)
    with gex.collect() as graphs:
        fn(x)
    (steps,) = graphs[0].runner.steps
    assert [step["kind"] for step in steps] == ["call", "launch"]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_numbers_are_those_of_eager(dtype: torch.dtype, dynamic: bool) -> None:
    fn = torch.compile(lambda x: F.dropout(x, 0.3) * 2, backend="gex", dynamic=dynamic)
    for x in (
        torch.randn(7, 33),
        torch.randn(5, 9).t(),
        torch.randn(2, 3, 4, 5).permute(0, 3, 1, 2),
    ):
        x = x.to(dtype)
        assert torch.equal(seeded(fn, x), seeded(lambda x: F.dropout(x, 0.3) * 2, x))
        # The generator is left as eager leaves it.
        after = torch.rand(1)
        seeded(weights, x)
        assert torch.equal(after, torch.rand(1))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("special", [float("inf"), float("nan"), -0.0])
def test_probabilities_and_special_values(p: float, special: float) -> None:
    fn = torch.compile(lambda x: F.dropout(x, p), backend="gex")
    x = torch.full((50,), special)
    expected, after = seeded(lambda x: F.dropout(x, p), x), torch.rand(1)
    torch.testing.assert_close(seeded(fn, x), expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(torch.rand(1), after)


def block(x: torch.Tensor) -> torch.Tensor:
    # 1 / (1 - p) is not the same number in f32 and rounded from f64 for these probabilities.
    return F.dropout(torch.relu(F.dropout(x, 0.039) * 3), 0.47)


def recomputed(x: torch.Tensor) -> torch.Tensor:
    return checkpoint(block, x, use_reentrant=False)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("fn", [block, recomputed])
@pytest.mark.parametrize("rows", [6, 1, 0])
def test_gradients_use_the_same_mask(
    fn: Callable[[torch.Tensor], torch.Tensor], rows: int, dtype: torch.dtype
) -> None:
    compiled = torch.compile(fn, backend="gex")
    found = []
    for run in (compiled, fn):
        torch.manual_seed(1)
        x = torch.randn(rows, 40, dtype=dtype, requires_grad=True)
        y = seeded(run, x)
        y.backward(torch.linspace(1, 2, y.numel()).reshape(y.shape).to(dtype))
        assert x.grad is not None
        found.append((y.detach(), x.grad, torch.rand(1)))
    for ours, eager in zip(*found):
        assert torch.equal(ours, eager)


def test_inference_draws_nothing() -> None:
    layer = torch.nn.Dropout(0.5).eval()
    fn = torch.compile(layer, backend="gex")
    x = torch.randn(4, 4)
    torch.manual_seed(0)
    assert torch.equal(fn(x), x)
    torch.manual_seed(0)
    before = torch.rand(1)
    torch.manual_seed(0)
    fn(x)
    assert torch.equal(torch.rand(1), before)
