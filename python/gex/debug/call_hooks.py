"""Debugging hooks around each call of a compiled graph: files, checks, the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gex.debug import call_log, deadlock
from gex.debug.capture_trace import CaptureTraces
from gex.debug.debug_folder import ModelFolder, PhaseFolder
from gex.options.table import Config

Compiled = Callable[[list[Any]], Sequence[Any]]


def with_call_hooks(
    compiled: Compiled, runner: Any, graph_name: str, files: PhaseFolder | None, config: Config
) -> Compiled:
    """Returns the function itself if nothing is enabled."""
    check_deadlocks = bool(config.get("deadlock_check", False))
    if files is not None:
        files.collect()
    if files is not None or check_deadlocks:
        folder = files.path.parent if files is not None else ModelFolder("model").path
        traces = CaptureTraces(folder, graph_name)
        compiled = _traced(compiled, runner, traces, files, check_deadlocks)
    if call_log.wanted():
        compiled = call_log.logged(compiled, runner, graph_name)
    return compiled


def _traced(
    compiled: Compiled,
    runner: Any,
    traces: CaptureTraces,
    files: PhaseFolder | None,
    check_deadlocks: bool,
) -> Compiled:
    """Writes and checks each new capture."""

    def run(arguments: list[Any]) -> Sequence[Any]:
        results = compiled(arguments)
        if files is not None:
            files.collect()  # with frozen parameters the engine is made at the first call
        for number, plan in traces.write_new(runner):
            if files is not None:
                files.write_plan(number, plan)
            if check_deadlocks:
                deadlock.check(traces.files[-1])
        return results

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
