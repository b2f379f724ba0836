"""torchair.scope and torchair.ops: streams by tag, waits, limits and prints inside a model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.compiler import assume_constant_result, is_dynamo_compiling

from gex.fx_stage import effect_ops, scope_ops, stream_ops
from gex.fx_stage.mark_ops import new_number
from gex.npu import streams
from gex.npugraph_ex.scope import limit_core_num
from gex.npugraph_ex.super_kernel import super_kernel_scope_begin, super_kernel_scope_end

_streams: dict[str, streams.Stream] = {}
_events: dict[str, streams.Event] = {}


def _check_tag(what: str, tag: Any) -> None:
    if not isinstance(tag, str) or not tag:
        raise TypeError(f"{what}: the tag must be a str that is not empty, got {tag!r}")


@assume_constant_result
def _name_of_stream(tag: str) -> str:
    return _streams.setdefault(tag, streams.Stream()).name


class npu_stream_switch:
    """`with npu_stream_switch("side"):` runs the block on the stream of that tag."""

    def __init__(self, stream_tag: str, stream_priority: int = 0) -> None:
        if not is_dynamo_compiling():
            _check_tag("npu_stream_switch", stream_tag)
        self._tag = stream_tag

    def __enter__(self) -> None:
        if is_dynamo_compiling():
            stream_ops.ENTER(_name_of_stream(self._tag), new_number())

    def __exit__(self, *error: Any) -> None:
        if is_dynamo_compiling():
            stream_ops.EXIT(new_number())


def npu_wait_tensor(self: torch.Tensor, dependency: torch.Tensor) -> torch.Tensor:
    """`self`; work that reads it starts after `dependency` is computed."""
    if is_dynamo_compiling():
        scope_ops.WAIT([dependency])
    return self


@contextlib.contextmanager
def data_dump() -> Iterator[None]:
    """No effect: the option dump_tensor_data saves the tensors of a whole graph."""
    yield


@contextlib.contextmanager
def op_never_timeout(enable: bool = True) -> Iterator[None]:
    """No effect: operators have no time limit here."""
    yield


class super_kernel:
    """`with super_kernel("name"):` marks what may become one kernel."""

    def __init__(self, scope: str, options: str = "") -> None:
        self._scope = scope

    def __enter__(self) -> None:
        super_kernel_scope_begin(self._scope)

    def __exit__(self, *error: Any) -> None:
        super_kernel_scope_end(self._scope)


def npu_print(*args: Any, summarize_size: int = 3) -> None:
    """Prints each tensor whenever this line runs; texts before a tensor are its name."""
    name = ""
    for value in args:
        if isinstance(value, torch.Tensor):
            effect_ops.print(value, name.strip() or None)
            name = ""
        else:
            name += f"{value} "


def npu_create_tagged_event(tag: str) -> streams.Event:
    """Creates an event that can be found by its tag."""
    _check_tag("npu_create_tagged_event", tag)
    if tag in _events:
        raise ValueError(f"npu_create_tagged_event: an event {tag!r} already exists")
    return _events.setdefault(tag, streams.Event())


def npu_tagged_event_record(event: streams.Event) -> None:
    event.record()


def npu_tagged_event_wait(event: streams.Event) -> None:
    event.wait()


def npu_record_tagged_stream(input: torch.Tensor, tagged_stream: str) -> None:
    """The tensor is used on the stream of that tag: its memory is kept for it."""
    if is_dynamo_compiling():
        stream_ops.KEEPS(input, _name_of_stream(tagged_stream), new_number())


SCOPE = {
    "data_dump": data_dump,
    "limit_core_num": limit_core_num,
    "npu_stream_switch": npu_stream_switch,
    "npu_wait_tensor": npu_wait_tensor,
    "op_never_timeout": op_never_timeout,
    "super_kernel": super_kernel,
}
OPS = {
    "npu_create_tagged_event": npu_create_tagged_event,
    "npu_print": npu_print,
    "npu_record_tagged_stream": npu_record_tagged_stream,
    "npu_tagged_event_record": npu_tagged_event_record,
    "npu_tagged_event_wait": npu_tagged_event_wait,
}
