"""A capture as a trace for chrome://tracing and Perfetto.

One event per step, in program order on its stream's row. `args` has the task's number, its kind,
the user's line and, if applicable, event, grid, cores and whether it communicates.
"""

from __future__ import annotations

import datetime
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

# Steps that require other processes to reach the same point.
_COMMUNICATES = ("c10d", "gex_messages", "hccl", "hcom", "nccl")


def communicates(name: str) -> bool:
    """Waiting for an operation started earlier takes no core."""
    return any(word in name for word in _COMMUNICATES) and "wait_tensor" not in name


def trace_of(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    cores = torch.get_num_threads()
    events = []
    for task, step in enumerate(steps):
        args = {
            "task id": task,
            "kind": step["kind"],
            "line": step["line"],
            "communication": communicates(step["name"]),
        }
        args |= {key: step[key] for key in ("event", "grid", "bytes") if step.get(key) is not None}
        if step["kind"] in ("launch", "call"):
            args["cores"] = min(cores, step.get("grid") or cores)
        events.append(
            {
                "name": step["name"],
                "ph": "X",
                "pid": 0,
                "tid": step["stream"],
                "ts": task,
                "dur": 1,
                "args": args,
            }
        )
    return {"traceEvents": events, "total cores": cores}


class CaptureTraces:
    """The captures of one graph, each written once."""

    def __init__(self, folder: pathlib.Path, graph_name: str) -> None:
        self._folder = folder
        self._graph_name = graph_name
        self._seen: set[tuple[int, ...]] = set()
        self.files: list[pathlib.Path] = []

    def write_new(self, runner: Any) -> Iterator[tuple[int, str]]:
        """Writes the captures made since the last call; yields the number and memory plan of
        each."""
        keys = [tuple(capture["key"]) for capture in runner.captures]
        if all(key in self._seen for key in keys):
            return
        # The newest come first.
        for key, steps, memory in reversed(list(zip(keys, runner.steps, runner.memory))):
            if key in self._seen:
                continue
            number = len(self._seen)
            self._seen.add(key)
            file = self._folder / self._file_name(number)
            file.write_text(json.dumps(trace_of(steps), indent=1), encoding="utf-8")
            self.files.append(file)
            yield number, memory["text"]

    def _file_name(self, number: int) -> str:
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d%H%M%S%f")
        return f"{self._graph_name}_id_{number}_rank_0_pid_{os.getpid()}_ts_{now}.json"
