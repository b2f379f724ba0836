"""Matmuls of one value at O3: the number of launches with what is applied to each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gex
from gex import es


class Attention(nn.Module):
    """Queries, keys and values, of which the last may have no bias."""

    def __init__(self, bias_of_values: bool = True) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(64, 64), nn.Linear(64, 64)
        self.v = nn.Linear(64, 64, bias=bias_of_values)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = (self.q(x), self.k(x), self.v(x))
        heads = (row.view(2, -1, 4, 16).transpose(1, 2) for row in rows)
        return nn.functional.scaled_dot_product_attention(*heads)


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(32, 24) for _ in range(3))
        self.second = nn.ModuleList(nn.Linear(24, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sum(b(torch.relu(a(x))) for a, b in zip(self.first, self.second))


def launches(model: nn.Module, x: torch.Tensor, **options: Any) -> float:
    torch._dynamo.reset()
    rounding = 1e-5 if x.dtype == torch.float32 else 1e-2
    compiled = torch.compile(model, backend="gex", options=options)
    with torch.no_grad(), gex.collect() as graphs:
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x), rtol=rounding, atol=rounding)
    counters = graphs[0].runner.counters
    return counters["launches"] / counters["calls"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias_of_values", [True, False])
def test_queries_keys_and_values_with_biases(dtype: torch.dtype, bias_of_values: bool) -> None:
    model = Attention(bias_of_values).eval().to(dtype)
    x = torch.randn(2, 24, 64).to(dtype)
    # Sums of bf16 products with a bias are rounded once, after it: two kinds of matmuls.
    products = 2 if dtype == torch.bfloat16 and not bias_of_values else 1
    assert launches(model, x, opt_level=3, frozen_parameter=True) == products + 1
    assert launches(model, x, opt_level=3) == 3 + 1
    assert launches(model, x, opt_level=2, frozen_parameter=True) == 3 + 1


def test_matmuls_returned_after_their_bias_are_not_merged() -> None:
    linears = nn.ModuleList(nn.Linear(16, 16) for _ in range(3)).eval()

    class Three(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linears = linears

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [linear(x).view(-1, 4, 4) for linear in self.linears]

    assert launches(Three(), torch.randn(5, 16), opt_level=3, frozen_parameter=True) == 3


def test_equal_activations_are_done_once() -> None:
    model, x = Experts().eval(), torch.randn(7, 32)
    merged = launches(model, x, opt_level=3, frozen_parameter=True)
    apart = launches(
        model, x, opt_level=3, frozen_parameter=True, disabled_passes=["merge-matmuls"]
    )
    assert merged == apart - 2


def test_mutable_biases_are_read_by_the_merged_matmul() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((16, n), np.float32) for n in (8, 8, 24)]
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", ["rows", 16])
    biases = [
        builder.CreateInput(k + 1, f"b{k}", "f32", [w.shape[1]]) for k, w in enumerate(weights)
    ]
    a, b, c = (x @ w + bias for w, bias in zip(weights, biases))
    graph = builder.Build([es.softmax(es.cat([a * b, c], axis=1), axis=1)])
    merged, apart = graph.compile(level=3), graph.compile(level=2)
    for rows in (1, 9):
        arrays = [rng.standard_normal(shape, np.float32) for shape in ((rows, 16), 8, 8, 24)]
        np.testing.assert_allclose(merged.run(arrays)[0], apart.run(arrays)[0], 1e-4)
    assert merged.print("graph").count("matmul(") == 1
    assert merged.counters()["launches"] == 2 * 2
    assert apart.counters()["launches"] == 2 * 4
