"""`gex top`: the compiled functions of running processes, in a terminal."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time
from typing import Any

from gex.report import live

# Older files belong to processes that ended without removing theirs.
_STALE_SECONDS = 10.0

_HEAD = (
    f"{'pid':>8} {'graph':<18} {'calls':>9} {'calls/s':>9} {'p50 ms':>9} {'p99 ms':>9} "
    f"{'captures':>8} {'MiB':>8} {'PyTorch':>7}  function"
)


def states(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The latest statistics of running processes."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # it ended, or is being written by an older version
        if time.time() - state["time"] < _STALE_SECONDS:
            found.append(state)
    return found


def lines(now: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[str]:
    """A table; calls per second are computed from the previous state."""
    earlier = {
        (state["pid"], graph["name"]): (state["time"], graph["calls"])
        for state in before
        for graph in state["graphs"]
    }
    rows = [_HEAD]
    for state in now:
        for graph in sorted(state["graphs"], key=lambda g: -g["calls"]):
            rows.append(_row(state, graph, earlier.get((state["pid"], graph["name"]))))
    return rows


def _row(state: dict[str, Any], graph: dict[str, Any], before: tuple[float, int] | None) -> str:
    rate = "-"
    if before is not None and state["time"] > before[0]:
        rate = f"{(graph['calls'] - before[1]) / (state['time'] - before[0]):.1f}"
    times = sorted(graph["times"])
    middle, high = (
        (f"{times[int(len(times) * share)] / 1e6:.3f}" for share in (0.5, 0.99))
        if times
        else ("-", "-")
    )
    return (
        f"{state['pid']:>8} {graph['name'][:18]:<18} {graph['calls']:>9} {rate:>9} {middle:>9} "
        f"{high:>9} {graph['captures']:>8} {graph['arena_bytes'] / 2**20:>8.1f} "
        f"{graph['fallbacks']:>7}  {graph['of']}"
    )


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="gex top")
    parser.add_argument("--once", action="store_true", help="print the table once and end")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two tables")
    arguments = parser.parse_args(words)
    on_terminal = sys.stdout.isatty() and not arguments.once
    before: list[dict[str, Any]] = []
    while True:
        now = states(live.folder())
        if not on_terminal and not before and now:
            before = now
            time.sleep(1.5 * live.INTERVAL)  # for calls a second
            continue
        table = lines(now, before)
        if len(table) == 1:
            table.append("no process with GEX_TOP=1 in its environment has compiled anything")
        if not on_terminal:
            print("\n".join(table))
            return 0
        print("\x1b[2J\x1b[H" + "\n".join(table), flush=True)
        before = now
        time.sleep(arguments.interval)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(0)
