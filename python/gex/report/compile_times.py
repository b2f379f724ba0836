"""What of a compile's time is Dynamo's, AOTAutograd's and gex's own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from torch._dynamo.utils import compilation_time_metrics, get_metrics_context

from gex.report.graph_report import collect


@contextlib.contextmanager
def backend_timed() -> Iterator[None]:
    """Around all that a backend does for a frame; the first graph's report gets the seconds."""
    in_dynamo = _seconds_since_frame_began()
    start = time.perf_counter()
    with collect() as graphs:
        yield
    took = time.perf_counter() - start
    if graphs:
        own = sum(seconds for graph in graphs for seconds in graph.times.values())
        graphs[0].seconds["dynamo"] = in_dynamo
        graphs[0].seconds["aot"] = max(0.0, took - own)


def seconds_compiling() -> float:
    """All that PyTorch has spent on compiling frames in this process, backends included."""
    return sum(compilation_time_metrics.get("_compile.compile_inner", ()))


def _seconds_since_frame_began() -> float:
    context = get_metrics_context()
    if not context.in_progress():
        return 0.0
    return max(0.0, (time.time_ns() - context._start_time_ns) / 1e9)
