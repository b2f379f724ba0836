"""Backend npugraphs on a GPU: which calls are captured, what they read and what they give back.

The recording used here runs the function again into the same results, as a graph of CUDA would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from gex.captures import torch_graphs
from gex.captures.torch_graphs import CapturedGraph, CaptureFailed

CPU = torch.device("cpu")


class Repeated:
    def __init__(self, run: Callable[[], Sequence[Any]], device: torch.device) -> None:
        self._run = run
        self.results = run()

    def replay(self) -> None:
        for result, new in zip(self.results, self._run()):
            if isinstance(result, torch.Tensor):
                result.untyped_storage().copy_(new.untyped_storage())


def _graph(function: Callable[..., Any], *example: torch.Tensor) -> GraphModule:
    return make_fx(function)(*example)


def _captured(
    gm: GraphModule, record: Any = Repeated, notes: list[str] | None = None
) -> CapturedGraph:
    return CapturedGraph(
        lambda arguments: list(gm(*arguments)), gm, CPU, [] if notes is None else notes, record
    )


@pytest.fixture(autouse=True)
def fresh_statistics() -> None:
    torch_graphs.statistics.clear()


def test_later_calls_are_replayed_and_results_are_kept() -> None:
    weight = torch.randn(4, 4)
    fn = _captured(_graph(lambda x, w: [x @ w, (x + 1).t()], torch.randn(3, 4), weight))
    inputs = [torch.randn(3, 4) for _ in range(10)]
    kept = [fn([x, weight]) for x in inputs]
    for x, (product, turned) in zip(inputs, kept):
        assert torch.equal(product, x @ weight)
        assert torch.equal(turned, (x + 1).t()) and turned.stride() == (1, 4)
    assert dict(torch_graphs.statistics) == {"op by op": 1, "captures": 1, "replays": 9}


def test_each_size_has_a_capture_and_the_oldest_is_evicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch_graphs, "LIMIT", 2)
    fn = _captured(_graph(lambda x: [x * 2], torch.randn(3)))
    for size in (3, 4, 3, 4, 5, 5, 4):
        x = torch.randn(size)
        assert torch.equal(fn([x])[0], x * 2)
    assert torch_graphs.statistics["captures"] == 3
    assert len(fn._entries) == 2


def test_an_argument_that_moves_is_copied_from_then_on() -> None:
    first, second, third = (torch.randn(4) for _ in range(3))
    fn = _captured(_graph(lambda x, w: [x * w], first, second))
    x = torch.randn(4)
    for weight in (first, first, first, second, third, first):
        assert torch.equal(fn([x, weight])[0], x * weight)
    assert torch_graphs.statistics["captures"] == 2


def test_written_arguments_and_arguments_that_are_results() -> None:
    def function(cache: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
        cache.copy_(cache + x)
        return [cache * 2, x]

    fn = _captured(_graph(function, torch.zeros(3), torch.randn(3)))
    for _ in range(5):
        cache, x = torch.randn(3), torch.randn(3)
        want = cache + x
        doubled, same = fn([cache, x])
        assert torch.equal(cache, want) and torch.equal(doubled, want * 2)
        assert same is x


def test_results_that_share_memory_share_it_in_each_call() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        y = x + 1
        return [y, y[1:], y[:1].expand(3)]

    fn = _captured(_graph(function, torch.randn(4)))
    for _ in range(4):
        x = torch.randn(4)
        whole, part, wide = fn([x])
        assert torch.equal(whole, x + 1) and torch.equal(part, (x + 1)[1:])
        assert part.data_ptr() == whole[1:].data_ptr() and wide.stride() == (0,)
        whole.zero_()
        assert not part.any() and not wide.any()


def test_what_can_not_be_captured_runs_op_by_op_and_says_why() -> None:
    def refuse(run: Any, device: torch.device) -> Any:
        raise CaptureFailed("operation not permitted when stream is capturing")

    notes: list[str] = []
    fn = _captured(_graph(lambda x: [x * 2], torch.randn(3)), refuse, notes)
    for _ in range(8):
        x = torch.randn(3)
        assert torch.equal(fn([x])[0], x * 2)
    assert torch_graphs.statistics["failures"] == 3
    assert torch_graphs.statistics["op by op"] == 8
    assert "not permitted" in notes[0]


def test_graphs_of_the_cpu_are_left_alone() -> None:
    gm = _graph(lambda x: [x * 2], torch.randn(3))
    assert torch_graphs.captured(lambda a: a, gm, CPU, []) is None
