"""The option `deadlock_check`: checks whether communication kernels of a capture may wait for each
other forever.

A communication kernel must have all its cores at once. Two of them on different streams, not
ordered by streams and events, that together need more cores than available can each hold what the
other waits for. Vector clocks over records and waits determine the order.
"""

from __future__ import annotations

import itertools
import json
import pathlib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Event = dict[str, Any]
Clock = dict[Any, int]  # by stream: number of its tasks that come before


@dataclass(frozen=True)
class Kernel:
    """A communication kernel, and the clock at its start."""

    event: Event
    clock: Mapping[Any, int]

    @property
    def stream(self) -> Any:
        return self.event["tid"]

    @property
    def cores(self) -> int:
        return int(self.event["args"].get("cores", 1))

    def before(self, other: Kernel) -> bool:
        return self.clock[self.stream] <= other.clock.get(self.stream, 0)

    @property
    def text(self) -> str:
        task = self.event["args"].get("task id")
        return f"stream {self.stream}, task {task}, {self.event['name']}, {self.cores} cores"


def relevant(events: Sequence[Event]) -> list[Event]:
    """Records, waits and communication kernels."""
    return [
        event
        for event in events
        if event["args"].get("kind") in ("record", "wait") or event["args"].get("communication")
    ]


def clocked(events: Sequence[Event]) -> list[Kernel]:
    """Communication kernels with their clocks: streams run in order, waits come after records."""
    waiting: dict[Any, deque[Event]] = defaultdict(deque)
    for event in events:
        waiting[event["tid"]].append(event)
    clocks: dict[Any, Clock] = {stream: {} for stream in waiting}
    expected = {e["args"]["event"] for e in events if e["args"].get("kind") == "record"}
    recorded: dict[Any, Clock] = {}
    kernels = []
    while any(waiting.values()):
        ready = [stream for stream, tasks in waiting.items() if tasks]
        runnable = [
            stream for stream in ready if not _must_wait(waiting[stream][0], recorded, expected)
        ]
        # If every stream waits for another, that is a cycle of waits: continue as if recorded.
        stream = (runnable or ready)[0]
        event, clock = waiting[stream].popleft(), clocks[stream]
        clock[stream] = clock.get(stream, 0) + 1
        kind = event["args"].get("kind")
        if kind == "record":
            recorded[event["args"]["event"]] = dict(clock)
        elif kind == "wait":
            for other, count in recorded.get(event["args"]["event"], {}).items():
                clock[other] = max(clock.get(other, 0), count)
        else:
            kernels.append(Kernel(event, dict(clock)))
    return kernels


def _must_wait(event: Event, recorded: Mapping[Any, Clock], expected: set[Any]) -> bool:
    if event["args"].get("kind") != "wait":
        return False
    number = event["args"]["event"]
    return number in expected and number not in recorded


def conflicts(events: Sequence[Event], total_cores: int) -> list[tuple[Kernel, Kernel]]:
    return [
        (a, b)
        for a, b in itertools.combinations(clocked(relevant(events)), 2)
        if a.stream != b.stream
        and not a.before(b)
        and not b.before(a)
        and a.cores + b.cores > total_cores
    ]


def check(path: pathlib.Path) -> list[tuple[Kernel, Kernel]]:
    """Checks a trace of a capture, writes the relevant events beside it and prints the result."""
    trace = json.loads(path.read_text(encoding="utf-8"))
    total = int(trace["total cores"])
    events = relevant(trace["traceEvents"])
    filtered = path.with_name(f"{path.stem}_filtered.json")
    filtered.write_text(json.dumps({**trace, "traceEvents": events}, indent=1), encoding="utf-8")
    pairs = conflicts(events, total)
    if not pairs:
        print(f"deadlock check of {path.name}: no deadlock risk was detected", flush=True)
        return pairs
    for event in {id(k.event): k.event for pair in pairs for k in pair}.values():
        event["name"] = f"dead_lock_{event['name']}"
    marked = path.with_name(f"{path.stem}_filtered_deadlock_check.json")
    marked.write_text(json.dumps({**trace, "traceEvents": events}, indent=1), encoding="utf-8")
    print(f"deadlock check of {path.name}: {len(pairs)} pairs may wait for each other", flush=True)
    for a, b in pairs:
        print(f"  {a.text} and {b.text}: {a.cores + b.cores} of {total} cores", flush=True)
    return pairs
