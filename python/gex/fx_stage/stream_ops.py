"""What streams and events become while Dynamo traces: marks in the graph.

Each mark has a number of its own, or PyTorch would take two equal ones for one. An empty name is
the stream that the mark stands on. `note` names that stream for marks that come later.
"""

from __future__ import annotations

from gex.fx_stage.mark_ops import define_mark

ENTER = define_mark("stream_enter(str stream, int mark) -> ()")
EXIT = define_mark("stream_exit(int mark) -> ()")
SET = define_mark("stream_set(str stream, int mark) -> ()")
NOTE = define_mark("stream_note(str name, int mark) -> ()")
RECORD = define_mark("event_record(str event, str stream, int mark) -> ()")
WAIT = define_mark("event_wait(str event, str stream, int mark) -> ()")
STREAM_WAIT = define_mark("stream_wait(str waiting, str awaited, int mark) -> ()")
KEEPS = define_mark("stream_keeps(Tensor x, str stream, int mark) -> ()")
STREAM_MARKS = {ENTER, EXIT, SET, NOTE, RECORD, WAIT, STREAM_WAIT, KEEPS}
