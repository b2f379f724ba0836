"""Updates expressed as calls: calls between `graph_task_update_begin` and `_end` give new
arguments to the calls of a group, recorded between `graph_task_group_begin` and `_end`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gex.compat.fake_tensors import TorchDispatchMode
from gex.recording import updates
from gex.recording.graph import NPUGraph, current_graph, current_recorder


@dataclass(eq=False)
class TaskGroup:
    """The handle of a group."""

    graph: NPUGraph
    calls: list[updates.UpdatableCall]


class _Updating(TorchDispatchMode):
    """Takes the arguments of calls without running them."""

    def __init__(self, group: TaskGroup) -> None:
        super().__init__()
        self.group = group
        self.changes: list[updates.Change] = []
        self.num_seen = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if self.num_seen == len(self.group.calls):
            raise RuntimeError(f"update of a task group: {func} comes after its last call")
        call = self.group.calls[self.num_seen]
        if str(func) != call.op:
            raise RuntimeError(f"update of a task group: {call.op} was recorded here, not {func}")
        self.num_seen += 1
        for key, value in updates.by_name(func, args, kwargs or {}).items():
            if key in call.keys:
                self.changes.append((call, key, value))
        return call.result_in_place_of_a_run(args, kwargs or {})


class _State(threading.local):
    def __init__(self) -> None:
        self.updating: _Updating | None = None


_state = _State()


def graph_task_group_begin(stream: Any = None) -> None:
    """Makes the following recorded calls updatable by calls."""
    current_recorder("graph_task_group_begin").begin_group()


def graph_task_group_end(stream: Any = None) -> TaskGroup:
    recorder = current_recorder("graph_task_group_end")
    graph = current_graph()
    assert graph is not None
    return TaskGroup(graph, recorder.end_group())


def graph_task_update_begin(stream: Any, handle: TaskGroup) -> None:
    if not isinstance(handle, TaskGroup):
        raise TypeError(f"the handle must come from graph_task_group_end, got {type(handle)}")
    if _state.updating is not None:
        raise RuntimeError("graph_task_update_begin() inside of an update: end that first")
    _state.updating = _Updating(handle)
    _state.updating.__enter__()


def graph_task_update_end(stream: Any = None) -> None:
    updating, _state.updating = _state.updating, None
    if updating is None:
        raise RuntimeError("graph_task_update_end() without graph_task_update_begin()")
    updating.__exit__(None, None, None)
    calls = updating.group.calls
    if updating.num_seen != len(calls):
        raise RuntimeError(
            f"update of a task group: {updating.num_seen} of its {len(calls)} calls were made"
        )
    updating.group.graph.update_calls(updating.changes)
