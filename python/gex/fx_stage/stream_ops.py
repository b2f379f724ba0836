"""Marks that represent streams and events while Dynamo traces.

Each mark has a unique number, because PyTorch merges equal ones. An empty name is the stream that
the mark is on. `note` names that stream for later marks.
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
