"""Statistics of the compiled graphs of this process, written once a second for `gex top` if
GEX_TOP=1."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import threading
import time
from typing import Any

from gex import _gex
from gex.report import page
from gex.report.graph_report import GraphReport, reports

INTERVAL = 1.0
# Time of each interval in which calls are traced: enough for the times of typical calls.
SAMPLED = 0.1

_COUNTERS = ("calls", "captures", "launches", "host_calls", "arena_bytes")


def folder() -> pathlib.Path:
    """The folder for this user's processes; only the user can read it."""
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return pathlib.Path(base) / f"gex-top-{os.getuid()}"


def state(keeper: _gex.TraceKeeper | None) -> dict[str, Any]:
    """The statistics of all graphs that can still be called."""
    graphs = [_state_of(graph, keeper) for graph in reports() if graph.runner is not None]
    return {"pid": os.getpid(), "command": sys.argv[0], "time": time.time(), "graphs": graphs}


def _state_of(graph: GraphReport, keeper: _gex.TraceKeeper | None) -> dict[str, Any]:
    counters = graph.runner.counters
    times = [] if keeper is None else keeper.times(graph.runner)
    return {
        "name": graph.name,
        "of": "" if graph.origin is None else graph.origin.text(),
        "fallbacks": len(graph.calls),
        "times": times,
        **{name: counters.get(name, 0) for name in _COUNTERS},
    }


class Publisher(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="gex top", daemon=True)
        self.path = folder() / f"{os.getpid()}.json"
        self._stopped = threading.Event()

    def run(self) -> None:
        folder().mkdir(mode=0o700, exist_ok=True)
        while not self._stopped.wait(INTERVAL - SAMPLED):
            self.publish()

    def publish(self) -> None:
        """Traces calls for a short time, unless a report is being made, and writes the file."""
        keeper = None
        if not page.is_tracing():
            with page.traced() as keeper:
                self._stopped.wait(SAMPLED)
        written = self.path.with_suffix(".new")
        written.write_text(json.dumps(state(keeper)), encoding="utf-8")
        written.replace(self.path)

    def stop(self) -> None:
        self._stopped.set()
        self.join(INTERVAL)
        with contextlib.suppress(OSError):
            self.path.unlink()


def start() -> Publisher:
    publisher = Publisher()
    publisher.start()
    atexit.register(publisher.stop)
    return publisher
