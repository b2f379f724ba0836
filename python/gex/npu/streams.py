"""Streams and events on the CPU: work is done when its call returns, so the order is always kept.

While Dynamo traces, each becomes a mark in the graph (`gex.fx_stage.stream_ops`).
"""

from __future__ import annotations

import threading
import time
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from gex import _gex
from gex.captures import error_mode
from gex.compat.tracing import graph_break
from gex.fx_stage import stream_ops
from gex.fx_stage.mark_ops import new_number
from gex.npu.devices import NAME


class Event:
    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.enable_timing = enable_timing
        self.blocking = blocking
        # A string, because Dynamo may treat numeric attributes as dynamic sizes.
        self.name = f"event_{new_number()}"
        self._recorded: int | None = None

    def record(self, stream: Stream | None = None) -> None:
        if is_dynamo_compiling():
            stream_ops.RECORD(self.name, name_in_marks(stream), new_number())
        else:
            self._recorded = time.perf_counter_ns()

    def wait(self, stream: Stream | None = None) -> None:
        """Recorded work is already done, except in a graph."""
        if is_dynamo_compiling():
            stream_ops.WAIT(self.name, name_in_marks(stream), new_number())

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Recorded work is already done."""
        host_waits("event.synchronize()")

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between the two records."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("both events must be made with enable_timing=True")
        if self._recorded is None or end_event._recorded is None:
            raise ValueError("both events must be recorded before the time between them is known")
        return (end_event._recorded - self._recorded) / 1e6

    def __repr__(self) -> str:
        return f"<torch.npu.Event {'recorded' if self._recorded else 'not recorded'}>"


class Stream:
    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self.priority = priority
        self.stream_id = 0 if kwargs.get("default") else new_number()
        self.name = f"stream_{self.stream_id}"  # text, as for events

    @property
    def device(self) -> torch.device:
        return torch.device(NAME, 0)

    @property
    def npu_stream(self) -> int:
        return self.stream_id

    def wait_stream(self, stream: Stream) -> None:
        """The work of the other stream is already done, except in a graph."""
        if is_dynamo_compiling():
            stream_ops.STREAM_WAIT(name_in_marks(self), name_in_marks(stream), new_number())

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def synchronize(self) -> None:
        """The work of the stream is already done."""
        host_waits("stream.synchronize()")

    def query(self) -> bool:
        return True

    def __enter__(self) -> Stream:
        _enter(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _leave()

    def __repr__(self) -> str:
        return f"<torch.npu.Stream device={self.device} npu_stream={self.npu_stream:#x}>"


_default = Stream(default=True)


class _State(threading.local):
    def __init__(self) -> None:
        self.stack = [_default]


_state = _State()


def name_in_marks(stream: Stream | None) -> str:
    """The name used in marks; empty for the stream that the mark is on."""
    return "" if stream is None else stream.name


def _tell_engine() -> None:
    """Selects the stream whose core limit applies to the calls of this thread."""
    _gex.set_current_stream(_state.stack[-1].stream_id)


def _enter(stream: Stream) -> None:
    if is_dynamo_compiling():
        stream_ops.ENTER(name_in_marks(stream), new_number())
    else:
        _state.stack.append(stream)
        _tell_engine()


def _leave() -> None:
    if is_dynamo_compiling():
        stream_ops.EXIT(new_number())
    else:
        _state.stack.pop()
        _tell_engine()


def host_waits(what: str) -> None:
    """Breaks the graph: the host can't wait in the middle of one."""
    if is_dynamo_compiling():
        graph_break(
            f"{what}: the host can't wait in the middle of a graph; order streams by event.wait()"
        )
    else:
        error_mode.unsafe(what)


def current_stream(device: Any = None) -> Stream:
    if not is_dynamo_compiling():
        return _state.stack[-1]
    stream = Stream()
    stream_ops.NOTE(name_in_marks(stream), new_number())
    return stream


def default_stream(device: Any = None) -> Stream:
    return _default


def set_stream(stream: Stream | None) -> None:
    if stream is None:
        return
    if is_dynamo_compiling():
        stream_ops.SET(name_in_marks(stream), new_number())
    else:
        _state.stack[-1] = stream
        _tell_engine()


def keep_for_stream(tensor: torch.Tensor, stream: Stream) -> None:
    """tensor.record_stream(stream): nothing is freed while a call runs."""
    if is_dynamo_compiling():
        stream_ops.KEEPS(tensor, name_in_marks(stream), new_number())


class StreamContext:
    """`with torch.npu.stream(s):`; None leaves the current stream."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        _enter(current_stream() if self.stream is None else self.stream)

    def __exit__(self, *error: Any) -> None:
        _leave()


def stream(stream: Stream | None) -> StreamContext:
    return StreamContext(stream)
