"""Values on the CPU in graphs for a CUDA device: imported as values of that device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from gex.errors import GraphNotSupported
from gex.importer.graph_device import device_of
from gex.importer.graph_import import GraphImport

CUDA = torch.device("cuda", 0)


def traced(fn: Callable[..., Any], *devices: str) -> GraphModule:
    """The graph of `fn` with 4 x 4 arguments on the given devices, none of which need exist."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    arguments = [
        FakeTensor(mode, torch.empty(4, 4, device="meta"), torch.device(d)) for d in devices
    ]
    with mode:
        return make_fx(fn, tracing_mode="real")(*arguments)


def imported(gm: GraphModule) -> Any:
    return GraphImport(gm, "graph").run()


def devices(gm: GraphModule) -> list[torch.device]:
    values = [node.meta.get("val") for node in gm.graph.nodes]
    return [value.device for value in values if isinstance(value, torch.Tensor)]


def test_a_range_made_on_the_cpu_is_computed_on_the_device() -> None:
    gm = traced(lambda x: (x + (torch.arange(4) * 2).to(CUDA),), "cuda:0")
    before, text = devices(gm), gm.code
    graph = imported(gm)
    assert graph.device == CUDA and not graph.callees
    assert "iota" in graph.graph.text()
    # The graph is as it was: PyTorch may have to run it.
    assert devices(gm) == before and gm.code == text and torch.device("cpu") in before


def test_an_argument_on_the_cpu_is_copied_at_each_call() -> None:
    graph = imported(traced(lambda x, mask: (x * mask.to(CUDA),), "cuda:0", "cpu"))
    given: list[Any] = []

    def runner(arguments: list[Any]) -> list[Any]:
        given.extend(arguments)
        return []

    class OnCpu:
        def to(self, device: torch.device, non_blocking: bool) -> str:
            return f"on {device}"

    graph.adapter.wrap(runner)(["x", OnCpu()])
    assert given == ["x", "on cuda:0"]


def test_results_on_the_cpu_are_copied_at_each_call() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, torch.arange(4) + 1, y, x

    graph = imported(traced(function, "cuda:0", "cpu"))
    assert graph.device == CUDA and not graph.callees

    class Array:
        def __init__(self, name: str) -> None:
            self.name = name

        def to(self, device: torch.device, non_blocking: bool) -> Array:
            return Array(f"{self.name} on {device}")

        def cpu(self) -> Array:
            return Array(f"{self.name} on cpu")

    def runner(arguments: list[Any]) -> list[Any]:
        assert [a.name for a in arguments] == ["x", "y on cuda:0"]
        return [Array("x + 1"), Array("range"), None, arguments[0]]

    results = graph.adapter.wrap(runner)([Array("x"), Array("y")])
    assert [r.name for r in results] == ["x + 1", "range on cpu", "y", "x"]


@pytest.mark.parametrize(
    ("function", "places", "message"),
    [
        (
            lambda x, y: (x + 1, y.view(16)),
            ["cuda:0", "cpu"],
            "result view is a view of memory on the CPU",
        ),
        (lambda x: (x + torch.rand(4).to(CUDA),), ["cuda:0"], "the CPU generator"),
        (
            lambda x, y: (x + 1, y.copy_(y + 1)),
            ["cuda:0", "cpu"],
            "input y_1, which the graph writes",
        ),
        (lambda x, y: (x + 1, y + 1), ["cuda:0", "cuda:1"], "several devices .*cuda:0.*cuda:1"),
    ],
    ids=["view of an argument", "random numbers", "written input", "two devices"],
)
def test_what_is_left_to_pytorch(
    function: Callable[..., Any], places: list[str], message: str
) -> None:
    gm = traced(function, *places)
    before = devices(gm)
    with pytest.raises(GraphNotSupported, match=message):
        imported(gm)
    assert devices(gm) == before


def test_a_graph_without_inputs_has_the_device_of_its_tensors() -> None:
    assert device_of(traced(lambda: torch.zeros(3, device=CUDA))) == CUDA
