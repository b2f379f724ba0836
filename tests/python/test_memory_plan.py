"""Plans of whole models: within 5 % of the lower bound, and below what eager holds at its peak."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import pytest
import torch
from torch import nn

import gex

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))

import memory
from jobs import JOBS


def check_plans(plans: list[dict[str, Any]]) -> None:
    assert plans
    for plan in plans:
        assert plan["lower_bound"] <= plan["arena"] <= plan["without_reuse"]
        assert plan["arena"] <= 1.05 * plan["lower_bound"], plan["why"]
        assert plan["text"].startswith(f"memory: {plan['temporaries']} temporaries, arena ")


@pytest.mark.parametrize(
    "name",
    [
        "mlp",
        "mmoe",
        "wide_deep",
        pytest.param("qwen_tiny", marks=pytest.mark.slow),
        pytest.param("bert", marks=pytest.mark.slow),
        pytest.param("resnet50", marks=pytest.mark.slow),
    ],
)
def test_plan_is_near_its_lower_bound_and_below_eager(name: str) -> None:
    model, inputs, _ = JOBS[name]()
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="gex", options={"frozen_parameter": True})
    with torch.no_grad():
        peak, _ = memory.eager_peak(lambda: model(*inputs[0]))
        plans = memory.plans(lambda: compiled(*inputs[0]))
    check_plans(plans)
    assert plans[0]["arena"] <= peak


def test_plans_of_forward_and_backward() -> None:
    model = nn.Sequential(
        nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.Tanh()
    )
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="gex")
    plans = memory.plans(lambda: compiled(torch.randn(8, 32)).square().sum().backward())
    assert len(plans) == 2
    check_plans(plans)


def test_a_plan_for_each_set_of_sizes() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: torch.softmax(x @ x.t(), -1) @ x, backend="gex", dynamic=True
    )
    with gex.collect() as graphs:
        for rows in (8, 32):
            compiled(torch.randn(rows, 16))
    plans = graphs[0].runner.memory
    assert len(plans) == 2
    check_plans(plans)
    assert plans[0]["arena"] != plans[1]["arena"]
