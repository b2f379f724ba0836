"""Logs what each call of a compiled graph did, at level DEBUG."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from gex.debug.logs import logger

Compiled = Callable[[list[Any]], Sequence[Any]]
_OVERHEADS = {
    "key generation": "key_ns",
    "input processing": "inputs_ns",
    "parameter update": "parameters_ns",
}
_TOLD = ("captures", "replays", "evictions", "uncaptured", "rebinds")


def wanted() -> bool:
    return logger.isEnabledFor(logging.DEBUG)


def logged(compiled: Compiled, runner: Any, graph_name: str) -> Compiled:
    runner.measure_overhead(True)

    def run(arguments: list[Any]) -> Sequence[Any]:
        before = dict(runner.counters)
        start = time.perf_counter_ns()
        results = compiled(arguments)
        took = time.perf_counter_ns() - start
        _tell(graph_name, before, runner, took)
        return results

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _tell(graph_name: str, before: dict[str, int], runner: Any, took: int) -> None:
    counters = runner.counters
    since = {name: counters.get(name, 0) - before.get(name, 0) for name in _TOLD}
    planning = counters.get("plan_ns", 0) - before.get("plan_ns", 0)
    captures = runner.captures
    if since["captures"]:
        last = captures[0] if captures else {"key": [], "reason": ""}
        logger.debug("%s: key %s not found, captured: %s", graph_name, last["key"], last["reason"])
    elif since["replays"]:
        logger.debug("%s: key %s found, no recapture needed", graph_name, captures[0]["key"])
    else:
        logger.debug("%s: ran uncaptured", graph_name)
    total = ", ".join(f"{name} {counters.get(name, 0)}" for name in _TOLD)
    logger.debug("%s: so far %s", graph_name, total)
    overhead = runner.overhead
    for what, part in _OVERHEADS.items():
        logger.debug(
            "[npugraph_ex overhead] %s: %s %.1f us", graph_name, what, overhead[part] / 1e3
        )
    logger.debug(
        "%s: call %.1f us, of it planning for a new key %.1f us",
        graph_name,
        took / 1000,
        planning / 1000,
    )
    logger.debug(
        "%s: memory of temporaries %d bytes, lower bound %d bytes",
        graph_name,
        counters.get("arena_bytes", 0),
        counters.get("arena_lower_bound", 0),
    )
