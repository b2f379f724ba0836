"""Small models and helpers that the tests of this folder share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gex
from gex import report

if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)


def close(got: Any, expected: Any, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


def compiled(function: Callable[..., Any], backend: str = "npugraph_ex", **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, **options)


class Attention(nn.Module):
    """Causal self-attention over a sequence, with plain matmuls and a softmax."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            t.reshape(batch, length, self.heads, -1).transpose(1, 2)
            for t in self.inner(x).chunk(3, -1)
        )
        scores = q @ k.transpose(-1, -2) / (width / self.heads) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        mixed = torch.softmax(scores.masked_fill(~mask, -torch.inf), -1) @ v
        return self.outer(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.attention = Attention(width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        return x + self.narrow(F.gelu(self.wide(self.second(x))))


class Gpt(nn.Module):
    def __init__(self, tokens: int = 100, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.positions = nn.Parameter(torch.randn(256, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, tokens)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids) + self.positions[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def mlp() -> nn.Module:
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64))
    return model.cuda().eval()


def counters(graphs: list[report.GraphReport]) -> Counter[str]:
    return sum((Counter(g.runner.counters) for g in graphs if g.runner is not None), Counter())


def steady(call: Callable[[], Any], warm: int = 4, calls: int = 5) -> tuple[Counter[str], list]:
    """The engine's counts for `calls` calls after `warm` ones, and the graphs."""
    with gex.collect() as graphs:
        for _ in range(warm):
            call()
    assert graphs, "gex compiled no graph"
    assert all(graph.eager_reason is None for graph in graphs)
    before = counters(graphs)
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return counters(graphs) - before, graphs


def run_python(
    code: str, environment: dict[str, str] | None = None, limit: float = 120
) -> subprocess.CompletedProcess[str]:
    """Runs the code in a separate process, with this folder's modules."""
    variables = dict(os.environ, **(environment or {}))
    here = os.path.dirname(os.path.abspath(__file__))
    variables["PYTHONPATH"] = f"{here}:{variables.get('PYTHONPATH', '')}"
    return subprocess.run(
        [sys.executable, "-c", code],
        env=variables,
        capture_output=True,
        text=True,
        timeout=limit,
    )
