"""Streams and events on the CPU: work is done when its call returns, so order is always kept."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import torch

from gex.npu.devices import NAME

_ids = itertools.count(1)


class Event:
    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.enable_timing = enable_timing
        self.blocking = blocking
        self._recorded: int | None = None

    def record(self, stream: Stream | None = None) -> None:
        self._recorded = time.perf_counter_ns()

    def wait(self, stream: Stream | None = None) -> None:
        """What was recorded is done already."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """What was recorded is done already."""

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
        self.stream_id = 0 if kwargs.get("default") else next(_ids)

    @property
    def device(self) -> torch.device:
        return torch.device(NAME, 0)

    @property
    def npu_stream(self) -> int:
        return self.stream_id

    def wait_stream(self, stream: Stream) -> None:
        """What the other stream was given is done already."""

    def wait_event(self, event: Event) -> None:
        """What was recorded is done already."""

    def record_event(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def synchronize(self) -> None:
        """What the stream was given is done already."""

    def query(self) -> bool:
        return True

    def __enter__(self) -> Stream:
        _state.stack.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _state.stack.pop()

    def __repr__(self) -> str:
        return f"<torch.npu.Stream device={self.device} npu_stream={self.npu_stream:#x}>"


_default = Stream(default=True)


class _State(threading.local):
    def __init__(self) -> None:
        self.stack = [_default]


_state = _State()


def current_stream(device: Any = None) -> Stream:
    return _state.stack[-1]


def default_stream(device: Any = None) -> Stream:
    return _default


def set_stream(stream: Stream | None) -> None:
    if stream is not None:
        _state.stack[-1] = stream


class StreamContext:
    """`with torch.npu.stream(s):`; None leaves the current stream."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        _state.stack.append(current_stream() if self.stream is None else self.stream)

    def __exit__(self, *error: Any) -> None:
        _state.stack.pop()


def stream(stream: Stream | None) -> StreamContext:
    return StreamContext(stream)
