"""Operators that eager mode runs one by one, and what is left of them after fusion."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from gex.report.graph_report import collect


class CountOperators(TorchDispatchMode):
    """Counts operators that compute something: views and empty tensors launch nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.operators = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        views = ("detach", "_unsafe_view", "_reshape_alias", "alias", "empty")
        if not func.is_view and func.overloadpacket.__name__ not in views:
            self.operators += 1
        return func(*args, **(kwargs or {}))


class Mmoe(nn.Module):
    """Experts shared by two tasks, each with a gate over them and a tower of its own."""

    def __init__(self, features: int = 64, experts: int = 6, width: int = 32, tasks: int = 2):
        super().__init__()

        def tower(inner: int) -> nn.Sequential:
            return nn.Sequential(nn.Linear(inner, width), nn.ReLU(), nn.Linear(width, width))

        self.experts = nn.ModuleList(tower(features) for _ in range(experts))
        self.gates = nn.ModuleList(nn.Linear(features, experts) for _ in range(tasks))
        self.towers = nn.ModuleList(tower(width) for _ in range(tasks))
        self.heads = nn.ModuleList(nn.Linear(width, 1) for _ in range(tasks))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        experts = torch.stack([torch.relu(expert(x)) for expert in self.experts], dim=1)
        results = []
        for gate, tower, head in zip(self.gates, self.towers, self.heads):
            weights = torch.softmax(gate(x), dim=-1).unsqueeze(-1)
            mixed = (experts * weights).sum(dim=1)
            results.append(torch.sigmoid(head(torch.relu(tower(mixed)))))
        return results


class WideAndDeep(nn.Module):
    """Crossed features through a linear model, embedded ones through a deep one."""

    def __init__(self, fields: int = 8, rows: int = 100, width: int = 8, dense: int = 13):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(rows, width) for _ in range(fields))
        self.wide = nn.ModuleList(nn.Embedding(rows, 1) for _ in range(fields))
        sizes = [fields * width + dense, 64, 32]
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU(), nn.LayerNorm(after)]
        self.deep = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))
        self.scale = nn.Parameter(torch.ones(dense))

    def forward(self, sparse: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        fields = sparse.unbind(1)
        dense = torch.log1p(torch.relu(dense)) * self.scale
        embedded = [table(field) for table, field in zip(self.embeddings, fields)]
        wide = sum(table(field) for table, field in zip(self.wide, fields))
        return torch.sigmoid(wide + self.deep(torch.cat([*embedded, dense], dim=1)))


class TransformerBlock(nn.Module):
    """As in Llama: RMS norms, grouped queries, gated feed-forward."""

    def __init__(self, width: int = 64, heads: int = 4, groups: int = 2, inner: int = 128):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, groups * self.size, bias=False)
        self.value = nn.Linear(width, groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.norms = nn.ParameterList(torch.ones(width) for _ in range(2))

    def norm(self, x: torch.Tensor, index: int) -> torch.Tensor:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.norms[index]

    def split(self, x: torch.Tensor, heads: int) -> torch.Tensor:
        x = x.view(*x.shape[:2], heads, self.size).transpose(1, 2)
        repeats = self.heads // heads
        return x if repeats == 1 else x.repeat_interleave(repeats, dim=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x, 0)
        q = self.split(self.query(y), self.heads)
        k = self.split(self.key(y), self.groups)
        v = self.split(self.value(y), self.groups)
        scores = q @ k.transpose(-1, -2) * self.size**-0.5
        mask = torch.full(scores.shape[-2:], float("-inf")).triu(1)
        mixed = torch.softmax(scores + mask, dim=-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        y = self.norm(x, 1)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


def _inputs(kind: str, device: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    if kind == "mmoe":
        return Mmoe().to(device), (torch.randn(16, 64, device=device),)
    if kind == "wide_and_deep":
        ids = torch.randint(0, 100, (16, 8), device=device)
        return WideAndDeep().to(device), (ids, torch.randn(16, 13, device=device))
    return TransformerBlock().to(device), (torch.randn(2, 16, 64, device=device),)


@pytest.mark.parametrize(
    ("kind", "at_most"), [("mmoe", 0.6), ("wide_and_deep", 0.5), ("transformer", 0.5)]
)
def test_fusion_leaves_few_operators(kind: str, at_most: float, device: str) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, inputs = _inputs(kind, device)
    with torch.no_grad():
        with CountOperators() as eager:
            want = model(*inputs)
        with collect() as graphs:
            got = torch.compile(model, backend="gex")(*inputs)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert len(graphs) == 1
    assert graphs[0].calls == []
    launches = graphs[0].runner.counters["launches"]
    assert launches <= at_most * eager.operators, (launches, eager.operators)
