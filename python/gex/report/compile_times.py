"""Splits compile time into Dynamo's, AOTAutograd's and gex's parts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from gex.compat.tracing import seconds_since_frame_began
from gex.report.graph_report import collect


@contextlib.contextmanager
def backend_timed() -> Iterator[None]:
    """Context around all work of a backend for a frame; the first graph's report gets the
    seconds."""
    in_dynamo = seconds_since_frame_began()
    start = time.perf_counter()
    with collect() as graphs:
        yield
    took = time.perf_counter() - start
    if graphs:
        own = sum(seconds for graph in graphs for seconds in graph.times.values())
        graphs[0].seconds["dynamo"] = in_dynamo
        graphs[0].seconds["aot"] = max(0.0, took - own)
