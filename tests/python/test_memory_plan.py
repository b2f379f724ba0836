"""Memory plans of whole models: within 5 % of the lower bound, and below eager's peak."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gex
from gex import es

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


def scratch_of(model: nn.Module, *inputs: torch.Tensor) -> tuple[int, int]:
    """Bytes of the largest launch, and of all workers together."""
    compiled = torch.compile(model, backend="gex", options={"frozen_parameter": True})
    with torch.no_grad():
        (plan,) = memory.plans(lambda: compiled(*inputs))
    return plan["scratch"], plan["all_scratch"]


def test_products_of_one_block_need_the_scratch_of_one_worker() -> None:
    model, inputs, _ = JOBS["mmoe"]()
    largest, together = scratch_of(model, *inputs[0])
    assert 0 < largest <= together < 1.01 * largest  # rounded up to cache lines


@pytest.mark.parametrize("name", ["mmoe", "wide_deep"])
def test_temporaries_and_scratch_need_less_than_eager_and_its_library(name: str) -> None:
    model, inputs, _ = JOBS[name]()
    with torch.no_grad():
        library = memory.mkl_peak(lambda: model(*inputs[0]))
        if library is None:
            pytest.skip("this PyTorch has no MKL to ask for its memory")
        peak, _ = memory.eager_peak(lambda: model(*inputs[0]))
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="gex", options={"frozen_parameter": True})
        (plan,) = memory.plans(lambda: compiled(*inputs[0]))
    assert plan["arena"] + plan["all_scratch"] <= peak + library


def test_every_worker_has_scratch_for_large_products() -> None:
    largest, together = scratch_of(nn.Linear(700, 900).eval(), torch.randn(400, 700))
    assert largest > 500_000
    assert together == largest * gex._gex.thread_count()


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


def test_without_reuse_no_two_temporaries_share_memory() -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.softmax(x @ x.t(), -1) @ x @ x.t(), -1) @ x

    x = torch.randn(32, 16)
    plans = {}
    results = {}
    for reuse in (True, False):
        torch._dynamo.reset()
        compiled = torch.compile(attend, backend="gex", options={"reuse_memory": reuse})
        with gex.collect() as graphs:
            results[reuse] = compiled(x)
        plans[reuse] = graphs[0].runner.memory[0]
    assert torch.equal(results[True], results[False])
    assert plans[True]["arena"] < plans[False]["arena"] == plans[False]["without_reuse"]
    assert "reuse is switched off" in plans[False]["why"]


def test_a_graph_built_by_hand_without_reuse() -> None:
    builder = es.EsGraphBuilder("chain")
    x = builder.CreateInput(0, "x", "f32", [64])
    graph = builder.Build([es.cumsum(es.cumsum(es.cumsum(es.cumsum(x))))])
    arenas = []
    for reuse in (True, False):
        program = graph.compile(reuse_memory=reuse, fuse=False)
        program.run([np.ones(64, np.float32)])
        arenas.append(program.counters()["arena_bytes"])
    assert arenas == [512, 768]
