"""capture_error_mode: waiting for the device while a graph is being captured."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch

from conftest import assert_same
from gex.npu.streams import Event, Stream
from gex.recording import NPUGraph, graph, is_current_stream_capturing
from graph_counts import compiled, count

MODES = ("global", "thread_local", "relaxed")
WAITS = {"stream": lambda: Stream().synchronize(), "event": lambda: Event().synchronize()}


def in_another_thread(action: Callable[[], object]) -> Exception | None:
    """What it raised there."""
    raised: list[Exception] = []

    def run() -> None:
        try:
            action()
        except RuntimeError as problem:
            raised.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised[0] if raised else None


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("mode", MODES)
def test_waiting_in_the_thread_that_records(
    mode: str, wait: Callable[[], None], device: str
) -> None:
    x = torch.ones(3, device=device)
    g = NPUGraph()
    if mode == "relaxed":
        with graph(g, capture_error_mode=mode):
            wait()
            y = x + 1
        g.replay()
        assert y.tolist() == [2, 2, 2]
        return
    told = r"synchronize\(\) while an NPUGraph is being captured"
    with pytest.raises(RuntimeError, match=told), graph(g, capture_error_mode=mode):
        x += 1
        wait()
    assert x.tolist() == [1, 1, 1]
    assert not is_current_stream_capturing()
    wait()


@pytest.mark.parametrize("mode", MODES)
def test_waiting_in_another_thread_while_this_one_records(mode: str, device: str) -> None:
    x = torch.ones(3, device=device)
    g = NPUGraph()
    g.capture_begin(capture_error_mode=mode)
    y = x + 1
    problem = in_another_thread(WAITS["stream"])
    if mode == "global":
        assert "by another thread" in str(problem)
        assert "'thread_local'" in str(problem)
        with pytest.raises(RuntimeError, match=r"invalid: stream.synchronize\(\)"):
            g.capture_end()
    else:
        assert problem is None
        g.capture_end()
        g.replay()
        assert y.tolist() == [2, 2, 2]


def test_another_thread_computes_and_is_not_recorded(device: str) -> None:
    x = torch.ones(3, device=device)
    other = torch.zeros(3, device=device)
    g = NPUGraph()
    with graph(g):
        assert is_current_stream_capturing()
        seen: list[bool] = []
        assert in_another_thread(lambda: seen.append(is_current_stream_capturing())) is None
        assert in_another_thread(lambda: other.add_(1)) is None
        y = x * 2
    assert seen == [False]
    g.replay()
    assert other.tolist() == [1, 1, 1]
    assert y.tolist() == [2, 2, 2]


@pytest.fixture
def waiting_op() -> Iterator[list[Callable[[], object]]]:
    """test_modes::waits does what is in the list whenever it runs."""
    actions: list[Callable[[], object]] = []
    library = torch.library.Library("test_modes", "FRAGMENT")
    library.define("waits(Tensor x) -> Tensor")

    def waits(x: torch.Tensor) -> torch.Tensor:
        for action in actions:
            action()
        return x + 1

    library.impl("waits", waits, "CompositeExplicitAutograd")
    torch.library.register_fake("test_modes::waits", torch.empty_like, lib=library)
    yield actions
    library._destroy()


@torch.no_grad()
@pytest.mark.parametrize("mode", MODES)
def test_an_operator_of_the_graph_that_waits(
    mode: str, waiting_op: list[Callable[[], object]], device: str
) -> None:
    waiting_op.append(WAITS["stream"])

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.test_modes.waits(x * 2) * 3

    fn = compiled(function, dynamic=True, capture_error_mode=mode)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for rows in (3, 3, 5):
            x = torch.randn(rows, 2, device=device)
            assert_same(fn(x), function(x))
    messages = [str(w.message) for w in told if "a captured graph can't contain" in str(w.message)]
    assert len(messages) == (0 if mode == "relaxed" else 1)
    for message in messages:
        assert re.search(r"test_modes.waits.default at .*error_mode.py:\d+", message)
        assert "stream.synchronize()" in message
    assert count("captured") == 2


@torch.no_grad()
@pytest.mark.parametrize("mode", MODES)
def test_another_thread_that_waits_while_a_graph_is_captured(
    mode: str, waiting_op: list[Callable[[], object]], device: str
) -> None:
    problems: list[Exception | None] = []
    waiting_op.append(lambda: problems.append(in_another_thread(WAITS["event"])))
    fn = compiled(lambda x: torch.ops.test_modes.waits(x) * 3, capture_error_mode=mode)
    x = torch.randn(3, device=device)
    for _ in range(2):
        assert_same(fn(x), (x + 1) * 3)
    captured, replayed = problems
    assert (captured is not None) == (mode == "global")
    assert replayed is None
