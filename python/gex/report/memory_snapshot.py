"""`gex.memory_snapshot`: the memory of compiled graphs in the format of PyTorch's memory viewer."""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any

from gex import _gex
from gex.report.explanation import graphs_of
from gex.report.graph_report import GraphReport, reports

# Arenas are shown one after the other from here on: several graphs share the same memory.
_FIRST_ADDRESS = 1 << 40
_PAGE = 1 << 21
_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d+)(?: in (?P<function>.+))?")

Frame = dict[str, Any]


def memory_snapshot(
    path: str | os.PathLike[str] | None = None, fn: Callable[..., Any] | None = None
) -> dict[str, Any]:
    """The temporaries of one call of each compiled graph, in the form of torch.cuda's snapshots.

    The segments are the arenas as they are when the most is in use; the trace has the life of every
    value, in the order of the steps, with the user's line. `fn`: only the graphs of this compiled
    function. With a path the snapshot is written there, for https://pytorch.org/memory_viz.
    """
    if callable(path):
        raise TypeError("gex.memory_snapshot takes a path first: pass the function as fn=...")
    of_export = getattr(fn, "report", None)
    if fn is None:
        graphs: Sequence[GraphReport] = reports()
    else:
        graphs = [of_export] if isinstance(of_export, GraphReport) else graphs_of(fn)
    snapshot: dict[str, Any] = {"segments": [], "device_traces": [[]]}
    address = _FIRST_ADDRESS
    for graph in graphs:
        text = None if graph.runner is None else _gex.graph_model(graph.runner, None, False)
        if text is None:
            continue
        model = json.loads(text)
        if model["memory"]["total"] > 0:
            address = _add_graph(snapshot, graph.name, model, address)
    if path is not None:
        with open(path, "wb") as file:
            pickle.dump(snapshot, file)
    return snapshot


def _frames(graph: str, model: dict[str, Any], buffer: int) -> list[Frame]:
    """The launch that writes the value, and the user's line, innermost first."""
    step = next((s for s in model["steps"] if buffer in s["writes"]), None)
    name = model["buffers"][buffer]["name"] or f"value {buffer}"
    frames = [{"filename": graph, "line": 0, "name": name}]
    if step is None:
        return frames
    frames.append({"filename": graph, "line": 0, "name": step["name"]})
    place = _PLACE.fullmatch(step.get("at") or "")
    if place is not None:
        function = place["function"] or ""
        frames.append({"filename": place["file"], "line": int(place["line"]), "name": function})
    return frames


def _add_graph(snapshot: dict[str, Any], name: str, model: dict[str, Any], address: int) -> int:
    """Returns the first address after the graph's arena."""
    memory = model["memory"]
    rows = [row for row in memory["rows"] if row[2] > 0]
    total = max(memory["total"], *(offset + size for _, offset, size, _, _ in rows))
    frames = {buffer: _frames(name, model, buffer) for buffer, *_ in rows}
    whole = {"filename": name, "line": 0, "name": "arena"}
    trace = snapshot["device_traces"][0]

    def add(action: str, at: int, size: int, at_frames: list[Frame]) -> None:
        entry = {"action": action, "addr": at, "size": size, "stream": 0, "frames": at_frames}
        trace.append({**entry, "time_us": len(trace), "pool_id": (0, 0)})

    add("segment_alloc", address, total, [whole])
    for position in range(memory["positions"] + 1):
        for buffer, offset, size, _, last in rows:
            if last + 1 == position:
                add("free_requested", address + offset, size, frames[buffer])
                add("free_completed", address + offset, size, frames[buffer])
        for buffer, offset, size, first, _ in rows:
            if first == position:
                add("alloc", address + offset, size, frames[buffer])
    live = max(
        ([r for r in rows if r[3] <= p <= r[4]] for p in range(memory["positions"])),
        key=lambda held: sum(row[2] for row in held),
    )
    snapshot["segments"].append(_segment(address, total, live, frames))
    return address + (total + _PAGE - 1) // _PAGE * _PAGE


def _segment(
    address: int, total: int, live: list[list[int]], frames: dict[int, list[Frame]]
) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    end = 0

    def add(begin: int, size: int, buffer: int | None) -> None:
        blocks.append(
            {
                "address": address + begin,
                "size": size,
                "requested_size": size,
                "state": "inactive" if buffer is None else "active_allocated",
                "frames": [] if buffer is None else frames[buffer],
            }
        )

    for buffer, offset, size, _, _ in sorted(live, key=lambda row: row[1]):
        if offset < end:
            continue  # the same memory under another name
        if offset > end:
            add(end, offset - end, None)
        add(offset, size, buffer)
        end = offset + size
    if end < total:
        add(end, total - end, None)
    used = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    return {
        "device": 0,
        "address": address,
        "total_size": total,
        "allocated_size": used,
        "active_size": used,
        "requested_size": used,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }
