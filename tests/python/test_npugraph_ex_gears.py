"""Gears, and what `gex.explain` and `gex.warmup` do with captures."""

from __future__ import annotations

import functools
import io
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import gex
from conftest import assert_same, last_report
from gex.options.table import GEX_OPTIONS, NPUGRAPH_EX_OPTIONS, Config
from graph_counts import compiled


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def attention(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.transpose(1, 2)).softmax(-1) @ x


def keys() -> list[list[int]]:
    return [capture["key"] for capture in last_report().runner.captures]


def run(fn: Any, *shapes: tuple[int, ...], device: str) -> None:
    for shape in shapes:
        x = torch.randn(*shape, device=device)
        assert_same(fn(x), attention(x), tolerance=1e-4)


def test_automatic_gears_begin_with_the_third_size(device: str) -> None:
    fn = compiled(attention, dynamic=True)
    run(fn, (2, 21, 4), (2, 22, 4), (2, 24, 4), (2, 25, 4), (2, 31, 4), (2, 22, 4), device=device)
    assert len(keys()) == 3
    assert any(32 in key for key in keys())


def test_without_gears_each_size_has_its_capture(device: str) -> None:
    fn = compiled(attention, dynamic=True, gears=None)
    run(fn, *((2, n, 4) for n in range(21, 27)), device=device)
    assert len(keys()) == 6


def test_gears_of_one_dim_by_the_name_of_the_argument(device: str) -> None:
    fn = compiled(attention, dynamic=True, gears={"x": {1: [16, 64]}})
    run(fn, *((3, n, 4) for n in (5, 9, 16, 17, 60, 70)), device=device)
    sizes = sorted(max(key) for key in keys())
    assert sizes == [16, 64, 70], "70 is above the last gear"


def test_gears_of_dims_that_change_together(device: str) -> None:
    gears = {(("x", 0), ("x", 1)): [(2, 64), (8, 16)]}
    fn = compiled(attention, dynamic=True, gears=gears)
    run(fn, (2, 50, 4), (2, 33, 4), (7, 9, 4), (8, 16, 4), device=device)
    assert sorted(sorted(set(key) & {2, 64, 8, 16}) for key in keys()) == [[2, 64], [8, 16]]


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ("none", ValueError, "'auto', None or sizes"),
        (3, TypeError, "list of sizes"),
        ([], TypeError, "expected a list of sizes"),
        ([4, 4], ValueError, "listed twice"),
        ([0, 4], ValueError, "must be positive"),
        (["4"], TypeError, "ints"),
        ({"x": {"0": [4]}}, TypeError, "a dim must be an int"),
        ({3: [4]}, TypeError, "does not name a size"),
        ({(("x", 0), ("x", 1)): [(4, 4), (5,)]}, ValueError, "must have 2 sizes"),
    ],
)
@pytest.mark.parametrize("table", [GEX_OPTIONS, NPUGRAPH_EX_OPTIONS], ids=["gex", "npugraph_ex"])
def test_wrong_gears_are_refused(table: Any, value: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        Config(table, {"gears": value})


def test_a_capture_has_a_readable_reason(device: str) -> None:
    fn = compiled(attention, dynamic=True)
    run(fn, (2, 20, 4), (2, 22, 4), (2, 24, 4), (2, 25, 4), device=device)
    explanation = gex.explain(fn)
    reasons = [capture["reason"] for capture in explanation.captures]
    assert "dim 1 of input 0 was 22, now 24; gear 32 covers both" in reasons
    text = str(explanation)
    assert "input 0 is x" in text
    assert "first call" in text
    assert "attention (test_npugraph_ex_gears.py:" in text


def test_explain_without_arguments_calls_nothing(device: str) -> None:
    calls = []

    @torch._dynamo.disable
    def note() -> None:
        calls.append(1)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).relu()
        note()
        return y + 1

    fn = torch.compile(function, backend="npugraph_ex")
    fn(torch.ones(3, device=device))
    explanation = gex.explain(fn)
    assert calls == [1]
    assert len(explanation.graphs) == 2, "before and after the graph break"
    assert all(g.origin.code.co_filename == __file__ for g in explanation.graphs)


def test_recompiles_are_explained(device: str) -> None:
    def function(x: torch.Tensor, flag: bool) -> torch.Tensor:
        return x * 2 if flag else x + 1

    fn = compiled(function)
    x = torch.ones(3, device=device)
    fn(x, True)
    assert gex.explain(fn).recompiles == []
    fn(x, False)
    (reason,) = gex.explain(fn).recompiles
    assert "flag" in reason
    assert "compiled again because" in str(gex.explain(fn))


def test_modules_are_explained_and_others_graphs_left_out(device: str) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x).relu()

    for module in (Model(), nn.Sequential(nn.Linear(3, 3), nn.ReLU())):
        model = compiled(module.to(device))
        model(torch.ones(2, 3, device=device))
        compiled(lambda x: x + 1)(torch.ones(2, device=device))
        (graph,) = gex.explain(model).graphs
        assert graph.runner.counters["calls"] == 1
    assert "of Sequential, compile" in str(gex.explain(model))


def _decorated(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *args, **kwargs)

    return wrapper


class _Scale(nn.Module):
    @_decorated
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class _Shift(nn.Module):
    @_decorated
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 2


def test_modules_whose_methods_share_a_decorator_are_distinguished(device: str) -> None:
    scale, shift = compiled(_Scale()), compiled(_Shift())
    x = torch.ones(2, device=device)
    for model, calls in ((scale, 1), (shift, 2)):
        for _ in range(calls):
            model(x)
    for model, calls in ((scale, 1), (shift, 2)):
        (graph,) = gex.explain(model).graphs
        assert graph.runner.counters["calls"] == calls


def test_an_uncalled_function_can_only_be_explained_with_arguments(device: str) -> None:
    fn = compiled(lambda x: x.exp())
    with pytest.raises(TypeError, match=r"nothing is compiled yet.*'x'.*gex.explain\(fn, x"):
        gex.explain(fn)
    assert len(gex.explain(fn, torch.ones(2, device=device)).graphs) == 1


def test_calls_through_pytorch_are_explained_with_their_line(device: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvalsh(x @ x.t()) + 1

    fn = compiled(function)
    fn(torch.randn(3, 3, device=device))
    text = str(gex.explain(fn))
    assert "test_npugraph_ex_gears.py" in text
    assert "eigh" in text


def test_warmup_leaves_no_capture_for_later_calls(device: str) -> None:
    fn = compiled(attention, dynamic=True, gears=[16, 64])
    ran = gex.warmup(fn, shapes=[(2, 16, 4), (2, 64, 4)])
    assert ran == [[(2, 16, 4)], [(2, 64, 4)]]
    made = last_report().runner.counters["captures"]
    run(fn, *((2, n, 4) for n in (3, 15, 40, 64, 9)), device=device)
    assert last_report().runner.counters["captures"] == made == 2
    assert last_report().runner.counters["replays"] == 5


def test_warmup_takes_dtypes_and_other_arguments_from_the_example(device: str) -> None:
    table = nn.Embedding(20, 4, device=device)
    fn = compiled(lambda ids, mask, scale: (table(ids) * mask).sum() * scale, dynamic=True)
    example = (torch.zeros(2, 3, dtype=torch.long, device=device), torch.ones(4, device=device), 2)
    gex.warmup(fn, shapes=[(2, 5), [(3, 7), (4,)]], example=example)
    assert last_report().runner.counters["calls"] == 2
    assert torch.equal(example[1], torch.ones(4, device=device)), "examples are left alone"
    with pytest.raises(ValueError, match="3 shapes for an example of 2 tensors"):
        gex.warmup(fn, shapes=[[(2, 5), (4,), (1,)]], example=example)
    with pytest.raises(TypeError, match="neither a shape"):
        gex.warmup(fn, shapes=["16"])


def test_warmup_shows_a_bar_on_request(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    shown = io.StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    fn = compiled(lambda x: x + 1, dynamic=True)
    gex.warmup(fn, shapes=[(3,), (4,)], progress=False)
    assert shown.getvalue() == ""
    gex.warmup(fn, shapes=[(3,), (4,)], progress=True)
    assert "1/2" in shown.getvalue()
    assert "2/2" in shown.getvalue()


def test_hot_sizes_within_a_gear_get_static_code_of_their_own(device: str) -> None:
    fn = compiled(attention, dynamic=True, gears=[64])
    run(fn, *([(2, 48, 4)] * 3 + [(2, 30, 4)] * 3), device=device)
    runner = last_report().runner
    deadline = time.monotonic() + 30
    while not runner.counters["specialised"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert runner.counters["specialised"]
    run(fn, (2, 48, 4), (2, 30, 4), (2, 64, 4), (2, 7, 4), device=device)
    assert len(keys()) == 1


def test_pools_and_precapture_are_in_the_api() -> None:
    from gex import npugraph_ex

    assert npugraph_ex.precapture is gex.warmup
    one, other = npugraph_ex.graph_pool_handle(), npugraph_ex.graph_pool_handle()
    assert one != other
    assert 0 in one
