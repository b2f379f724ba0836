"""Streams and events inside compiled functions: marks in the graph, unchanged values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import gex
from conftest import assert_same, last_report
from gex.fx_stage.scope_ops import RECORD, SCOPE_ENTER, SCOPE_EXIT, WAIT
from gex.npu import streams
from gex.npu.streams import Event, Stream, current_stream, keep_for_stream, set_stream, stream

Function = Callable[..., Any]


def compile_fn(fn: Function, **options: Any) -> Function:
    return torch.compile(fn, backend="npugraph_ex", fullgraph=True, options=options)


def check(fn: Function, *args: torch.Tensor, calls: int = 3) -> gex.GraphReport:
    """Compiled and eager agree in every call; the report of the one graph."""
    compiled = compile_fn(fn)
    with gex.collect() as graphs:
        for _ in range(calls):
            data = [torch.randn_like(x) for x in args]
            assert_same(compiled(*(x.clone() for x in data)), fn(*(x.clone() for x in data)))
    assert len(graphs) == 1
    assert not graphs[0].calls
    return graphs[0]


x3 = torch.randn(3, 3)


def test_case_53_a_pass_puts_nodes_on_a_stream_and_orders_them(device: str) -> None:
    def on_side_stream(gm: torch.fx.GraphModule, _: Any, __: Any) -> None:
        graph = gm.graph
        mm, absolute, sub = (
            graph.find_nodes(op="call_function", target=target)[0]
            for target in (
                torch.ops.aten.mm.default,
                torch.ops.aten.abs.default,
                torch.ops.aten.sub.Tensor,
            )
        )
        with graph.inserting_before(mm):
            graph.call_function(SCOPE_ENTER, (["_user_stream_label"], ["stream_1"]))
        with graph.inserting_after(absolute):
            event = graph.call_function(RECORD)
        with graph.inserting_after(event):
            graph.call_function(SCOPE_EXIT)
        with graph.inserting_before(sub):
            graph.call_function(WAIT, ([event],))

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ y).abs() - x

    x, y = torch.randn(2, 3, 3, device=device)
    compiled = compile_fn(fn, post_grad_custom_pre_pass=on_side_stream)
    assert_same(compiled(x, y), fn(x, y))
    assert last_report().streams.nodes == {"stream_1": 2, "": 1}


def test_case_54_nested_streams_without_events_are_joined(device: str) -> None:
    one, two = Stream(), Stream()

    def fn(x: torch.Tensor) -> torch.Tensor:
        with stream(one):
            y = x * 2
            with stream(two):
                z = x @ x
            y = y + 1
        return y + z

    report = check(fn, x3.to(device))
    assert report.streams.nodes == {
        f"stream_{one.stream_id}": 2,
        f"stream_{two.stream_id}": 1,
        "": 1,
    }
    assert report.text().count("joined before the results") == 2


def test_case_55_events_in_all_forms(device: str) -> None:
    outside, side, other = Event(), Stream(), Stream()

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y = x + 1
        outside.record()
        with stream(side):
            outside.wait(side)
            z = y @ y
            keep_for_stream(y, side)
            inside = side.record_event()
            with stream(other):
                other.wait_event(inside)
                t = z * 2
        current_stream().wait_stream(other)
        return y, z, t

    report = check(fn, x3.to(device), calls=100)
    side_name, other_name = f"stream_{side.stream_id}", f"stream_{other.stream_id}"
    assert report.streams.waits == [(side_name, ""), (other_name, side_name), ("", other_name)]
    assert f"stream {side_name} waits for that of the caller" in report.text()
    assert report.runner.counters["captures"] == 1


def test_case_56_set_stream_goes_back_to_one_that_is_set(device: str) -> None:
    one, two, three = Stream(), Stream(), Stream()

    def fn(x: torch.Tensor) -> torch.Tensor:
        entry = current_stream()
        set_stream(one)
        y = x * 2
        set_stream(two)
        y = y + 1
        set_stream(three)
        y = y @ x
        set_stream(one)
        y = y - 1
        set_stream(entry)
        return y * 3

    names = [f"stream_{s.stream_id}" for s in (one, two, three)]
    assert check(fn, x3.to(device)).streams.nodes == {names[0]: 2, names[1]: 1, names[2]: 1, "": 1}
    assert streams.current_stream() is streams.default_stream()


def test_case_56_a_stream_that_is_not_left_is_an_error(device: str) -> None:
    side = Stream()

    def fn(x: torch.Tensor) -> torch.Tensor:
        set_stream(side)
        return x * 2

    with pytest.raises(Exception, match=f"ends on stream 'stream_{side.stream_id}'.*set that"):
        compile_fn(fn)(x3.to(device))


def test_case_57_streams_of_a_branch_do_not_grow_with_calls(device: str) -> None:
    one, two = Stream(), Stream()

    def fn(x: torch.Tensor, both: bool) -> torch.Tensor:
        with stream(one):
            y = x * 2
        if both:
            with stream(two):
                y = y @ x
        return y + 1

    compiled = compile_fn(fn)
    with gex.collect() as graphs:
        for both in (True, False, True, False):
            assert_same(compiled(x3.to(device), both), fn(x3.to(device), both))
    assert [len(graph.streams.side) for graph in graphs] == [2, 1]


def test_case_58_writing_in_place_on_another_stream_is_safe_with_and_without_events(
    device: str,
) -> None:
    side, event = Stream(), Event()

    def protected(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        event.record()
        with stream(side):
            event.wait()
            y.mul_(2)
            event.record()
        event.wait()
        return y + x

    def unprotected(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with stream(side):
            y.mul_(2)
        return y + x

    for fn in (protected, unprotected):
        check(fn, x3.to(device))


def test_case_37_a_concatenation_over_three_streams(device: str) -> None:
    one, two, three = Stream(), Stream(), Stream()

    def fn(x: torch.Tensor) -> torch.Tensor:
        with stream(one):
            a = x.exp()
        with stream(two):
            b = x.sin()
        with stream(three):
            c = x * 2
        return torch.cat([a, b, c])

    report = check(fn, x3.to(device))
    assert len(report.streams.side) == 3


def test_gradients_through_streams(device: str) -> None:
    side = Stream()
    w = torch.randn(3, 3, requires_grad=True, device=device)

    def fn(x: torch.Tensor) -> torch.Tensor:
        with stream(side):
            y = x @ w
            with stream(Stream()):
                y = y * 2
        return y.sum()

    want = torch.autograd.grad(fn(x3.to(device)), w)
    compiled = compile_fn(fn)
    for _ in range(3):
        assert_same(torch.autograd.grad(compiled(x3.to(device)), w), want)


def test_a_stream_inside_an_unnamed_stream_keeps_its_position(device: str) -> None:
    side = Stream()

    def fn(x: torch.Tensor) -> torch.Tensor:
        with stream(side), stream(None):
            y = x * 2
        with stream(streams.default_stream()):
            return y + 1

    assert check(fn, x3.to(device)).streams.nodes == {f"stream_{side.stream_id}": 1, "": 1}
