"""The cost of a first call: one trace if possible, and a table of the time per stage."""

from __future__ import annotations

import sys
import time

import pytest
import torch
from torch import nn
from torch._dynamo.utils import compilation_time_metrics

import gex
from conftest import assert_same
from gex import nested_regions

STAGES = ["dynamo", "aot", "import", "passes", "fuse", "code", "plan", "run"]


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = 0.5
        self.eps = 1e-3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x) * self.scale
        return y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)


def retraces() -> int:
    """How often Dynamo restarted a frame."""
    return len(compilation_time_metrics.get("compile_attempt_1", ()))


@pytest.mark.parametrize("grad", [False, True])
def test_floats_of_modules_are_constants_after_one_trace(grad: bool) -> None:
    model = Scaled().requires_grad_(grad)
    compiled = torch.compile(model, backend="gex", fullgraph=True, dynamic=True)
    before = retraces()
    for length in (3, 5):
        x = torch.randn(length, 4)
        assert_same(compiled(x), model(x))
    assert retraces() == before


class Switched(nn.Module):
    """Uses floats only in conditions."""

    def __init__(self) -> None:
        super().__init__()
        self.probability = 0.0
        self.times = 3.0

    def forward(self, x: torch.Tensor, limit: float = 2.0) -> torch.Tensor:
        x = x + 1 if self.probability > 0 else x - 1
        x = x * 2 if limit > 1 else x * 3
        return x * int(self.times)


@torch.no_grad()
def test_floats_used_only_in_conditions_need_no_second_trace() -> None:
    model, x = Switched(), torch.randn(3, 4)
    compiled = torch.compile(model, backend="gex", fullgraph=True, dynamic=True)
    before = retraces()
    for probability, times, limit in ((0.0, 3.0, 2.0), (0.5, 3.0, 2.0), (0.0, 4.5, 0.5)):
        model.probability, model.times = probability, times
        assert_same(compiled(x, limit), model(x, limit))
    assert retraces() == before


@torch.no_grad()
def test_a_float_that_changes_is_noticed() -> None:
    model = Scaled()
    compiled = torch.compile(model, backend="gex", fullgraph=True, dynamic=True)
    x = torch.randn(3, 4)
    for scale, eps in ((0.5, 1e-3), (0.25, 1e-3), (0.25, 0.5), (0.5, 1e-3)):
        model.scale, model.eps = scale, eps
        assert_same(compiled(x), model(x))


@torch.no_grad()
def test_table_adds_up_to_the_first_call() -> None:
    model = Scaled()
    start = time.perf_counter()
    explanation = gex.explain(model, torch.randn(3, 4))
    took = time.perf_counter() - start
    assert list(explanation.seconds) == STAGES
    assert all(seconds >= 0 for seconds in explanation.seconds.values())
    assert all(explanation.seconds[stage] > 0 for stage in STAGES)
    assert sum(explanation.seconds.values()) <= took
    assert explanation.table() in str(explanation)
    assert explanation.table().count("\n") == len(STAGES)
    (graph,) = explanation.graphs
    for stage in STAGES[2:-1]:
        assert graph.times[stage] == explanation.seconds[stage]
    assert 0 < graph.times["dynamo"] <= took


@torch.no_grad()
def test_explain_accepts_compiled_functions() -> None:
    model = Scaled()
    compiled = torch.compile(model, backend="npugraph_ex", dynamic=True)
    explanation = gex.explain(compiled, torch.randn(3, 4))
    assert [graph.backend for graph in explanation.graphs] == ["npugraph_ex"]
    again = gex.explain(compiled, torch.randn(3, 4))
    assert again.graphs == []
    assert again.seconds["run"] == sum(again.seconds.values()) > 0


def test_versions_that_can_not_trace_a_region_once_report_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gex.nested_regions.dynamo_trace", None)
    monkeypatch.delattr(nested_regions, "dynamo_trace", raising=False)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)))
    x = torch.randn(2, 4)
    with gex.regions(model) as found:
        assert found.blocks == []
        assert found.reasons == {
            "Sequential": f"PyTorch {torch.__version__} does not trace regions once"
        }
        assert_same(torch.compile(model, backend="gex")(x), model(x))


def test_explain_finds_functions_that_dynamo_puts_a_frame_around() -> None:
    fn = torch.compile(torch.nn.functional.softmax, backend="npugraph_ex")
    with torch.no_grad():
        fn(torch.randn(3, 4), dim=-1)
    (graph,) = gex.explain(fn).graphs
    assert graph.origin is not None
    assert graph.origin.text().startswith("softmax (functional.py:")
