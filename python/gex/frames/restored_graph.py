"""Graphs that another process compiled, ready to be called."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import torch

from gex import report
from gex.cache.saved_graph import SavedGraph
from gex.options.table import Config
from gex.pipeline.runner import RunnerRequest, make_runner
from gex.report import fallback

_numbers = itertools.count(1)


def callable_of(
    saved: SavedGraph, backend: str, config: Config, cache_dir: str
) -> Callable[..., Any]:
    """`cache_dir` has the programs; "": the folder of the environment."""
    start = time.perf_counter()
    graph_report = report.GraphReport(f"cached_{next(_numbers)}", backend)
    report.add(graph_report)
    graph_report.take(saved.outcome)
    fallback.warn_if_any(graph_report)
    runner = make_runner(
        RunnerRequest(
            saved.restored(), config, static=saved.static, cache_dir=cache_dir, backend=backend
        )
    )
    graph_report.runner = runner
    graph_report.capture_limit = config.get("capture_limit")
    graph_report.seconds["import"] = time.perf_counter() - start
    written = saved.written

    def call(*arguments: Any) -> Any:
        if written:
            changed = [arguments[i] for i in written if not arguments[i].is_inference()]
            torch.autograd.graph.increment_version(changed)
        return runner(list(arguments))

    return call
