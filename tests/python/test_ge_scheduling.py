"""Acceptance cases about sizes and memory that need PyTorch's guards around the graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gex
from conftest import assert_same


def test_case_47_a_relation_of_sizes_is_a_guard_and_not_a_recompilation(device: str) -> None:
    """Rows plus columns of one input are the rows of the other, or not."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.shape[0] + x.shape[1] == y.shape[0]:
            return torch.cat([x.flatten()[: y.shape[0] - 1], y[1:, 0]])
        return x.sum() * y

    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="gex", dynamic=True)
    for left, right, new in [
        ((2, 3), (5, 2), 1),
        ((3, 4), (7, 2), 0),
        ((5, 4), (7, 2), 1),
        ((4, 5), (9, 2), 0),
    ]:
        x, y = torch.randn(left, device=device), torch.randn(right, device=device)
        torch._dynamo.mark_static(y, 1)  # or Dynamo takes it for the same size as x's first
        with gex.collect() as graphs:
            assert_same(compiled(x, y), fn(x, y))
        assert len(graphs) == new, (left, right)


def test_case_48_mismatched_sizes_raise_and_do_not_recompile(device: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda a, b: a @ b, backend="gex", dynamic=True)
    with gex.collect() as graphs:
        a, b = torch.randn(3, 4, device=device), torch.randn(4, 5, device=device)
        assert_same(compiled(a, b), a @ b)
        for _ in range(5):
            with pytest.raises(Exception, match="same reduction dim"):
                compiled(a, torch.randn(6, 5, device=device))
        assert_same(compiled(a, b), a @ b)
    assert len(graphs) == 1


def test_case_57_three_batches_one_compilation(device: str) -> None:
    model = (
        nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8), nn.Softmax(-1))
        .to(device)
        .eval()
    )
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="gex", dynamic=True)
    with torch.no_grad(), gex.collect() as graphs:
        for batch in (3, 17, 64):
            x = torch.randn(batch, 16, device=device)
            assert_same(compiled(x), model(x))
    assert len(graphs) == 1
    assert graphs[0].runner.counters["captures"] == 3
