"""What streams and events become while Dynamo traces: marks in the graph.

Each mark has a number of its own, or PyTorch would take two equal ones for one. An empty name is
the stream that the mark stands on. `note` names that stream for marks that come later.
"""

from __future__ import annotations

import itertools

import torch
from torch.fx.node import has_side_effect

_SCHEMAS = (
    "stream_enter(str stream, int mark) -> ()",
    "stream_exit(int mark) -> ()",
    "stream_set(str stream, int mark) -> ()",
    "stream_note(str name, int mark) -> ()",
    "event_record(str event, str stream, int mark) -> ()",
    "event_wait(str event, str stream, int mark) -> ()",
    "stream_wait(str waiting, str awaited, int mark) -> ()",
    "stream_keeps(Tensor x, str stream, int mark) -> ()",
)

_library = torch.library.Library("npugraph_ex", "FRAGMENT")


def _nothing(*_: object) -> None:
    pass


for _schema in _SCHEMAS:
    _library.define(_schema)
    _library.impl(_schema.partition("(")[0], _nothing, "CompositeExplicitAutograd")

_ops = torch.ops.npugraph_ex
ENTER = _ops.stream_enter.default
EXIT = _ops.stream_exit.default
SET = _ops.stream_set.default
NOTE = _ops.stream_note.default
RECORD = _ops.event_record.default
WAIT = _ops.event_wait.default
STREAM_WAIT = _ops.stream_wait.default
KEEPS = _ops.stream_keeps.default
STREAM_MARKS = {ENTER, EXIT, SET, NOTE, RECORD, WAIT, STREAM_WAIT, KEEPS}
for _mark in STREAM_MARKS:
    has_side_effect(_mark)

_numbers = itertools.count(1)


@torch._dynamo.assume_constant_result
def new_number() -> int:
    """Of a mark, a stream or an event; the same in every call of a graph."""
    return next(_numbers)
