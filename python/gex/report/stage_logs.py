"""What became of a graph, for TORCH_LOGS="gex,gex.fusion", TORCH_TRACE and GEX_LOG=torch=info.

The texts are made only if somebody asked for them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from gex import _gex
from gex.compat import torch_logs
from gex.report.graph_report import GraphReport

Compiled = Callable[[list[Any]], Sequence[Any]]

_AREA = "torch"  # of GEX_LOG
logger = logging.getLogger(torch_logs.LOG)


_LEVELS = {"info": logging.INFO, "debug": logging.DEBUG}


def _logs(level: str) -> bool:
    return logger.isEnabledFor(_LEVELS[level]) or _gex.logs(_AREA, level)


def _log(level: str, text: str) -> None:
    logger.log(_LEVELS[level], "%s", text)
    _gex.write_log(_AREA, level, text)


def _passes(runner: Any) -> str:
    return "\n".join(
        f"{name}: changed {count}, {before} -> {after} nodes"
        for name, count, before, after in _gex.pass_changes(runner)
    )


def _fusion(runner: Any) -> str:
    units = [f"{kind} of {nodes} nodes: {label}" for kind, label, nodes in _gex.fused_units(runner)]
    return "\n".join([*units, *runner.remarks])


_TEXTS: dict[str, Callable[[Any], str]] = {
    "gex.passes": _passes,
    "gex.graph": lambda runner: runner.text("graph"),
    "gex.fusion": _fusion,
    "gex.kernels": lambda runner: runner.text("kernels"),
    "gex.program": lambda runner: runner.text("program"),
}


def _wanted() -> bool:
    return torch_logs.is_tracing() or any(
        torch_logs.logger_of(name).isEnabledFor(logging.DEBUG) for name in _TEXTS
    )


def _write_texts(graph: str, runner: Any) -> None:
    for name, text in _TEXTS.items():
        artifact_logger = torch_logs.logger_of(name)
        if artifact_logger.isEnabledFor(logging.DEBUG):
            artifact_logger.debug("%s: %s\n%s", graph, name, text(runner).rstrip())
        if torch_logs.is_tracing():
            trace_name = f"{name.replace('.', '_')}_{graph}"
            torch_logs.trace_text(trace_name, lambda text=text: text(runner))  # type: ignore[misc]


def log_graph(report: GraphReport) -> None:
    """One line for a compiled graph, and one for each operator that runs through PyTorch."""
    if not _logs("info"):
        return
    first, *rest = report.text().splitlines()
    _log("info", first)
    for line in rest if _logs("debug") else ():
        _log("debug", f"{report.name}:{line}")


def with_texts(compiled: Compiled, runner: Any, graph: str) -> Compiled:
    """Logs the texts of a graph that has been compiled. With frozen parameters the engine compiles
    at the first call: then the returned function logs them there."""
    if not _wanted():
        return compiled
    if runner.seconds:
        _write_texts(graph, runner)
        return compiled
    written = False

    def run(arguments: list[Any]) -> Sequence[Any]:
        nonlocal written
        results = compiled(arguments)
        if not written and runner.seconds:
            written = True
            _write_texts(graph, runner)
        return results

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
