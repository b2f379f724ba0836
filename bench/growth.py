"""How compile time and the memory plan grow with the number of nodes, up to 100,000.

Graphs are made of repeated parts and compiled by `gex explain` in a process of its own. For each
size: seconds of processor time beyond those of an empty graph, microseconds a node, the planned
arena over its lower bound. The last column is the growth since the previous size as a power of the
number of nodes: 1 is linear.

    python bench/growth.py --gex build/bin/gex
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from results import ROOT, add_option, record

SIZES = (1000, 3000, 10_000, 30_000, 100_000)
Text = tuple[list[str], list[str], str, str]  # inputs, nodes, result, its type


class Writer:
    """Nodes in gex's text, each with a number as its name."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, op: str, operands: str, kind: str, attributes: str = "") -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {op}({operands}) {attributes}: {kind}")
        return name


def layers(nodes: int) -> Text:
    """Layers with residuals: a scale, a product, a bias, an activation."""
    write, row = Writer(), "f32[32, 64]"
    inputs = [f"%x: {row}", "%w: f32[64, 64]", "%b: f32[64]", "%g: f32[64]"]
    x = "%x"
    while len(write.lines) < nodes:
        y = write.add("mul", f"{x}, %g", row)
        y = write.add("matmul", f"{y}, %w", row)
        y = write.add("add", f"{y}, %b", row)
        y = write.add("relu", y, row)
        x = write.add("add", f"{x}, {y}", row)
    return inputs, write.lines, x, row


def elements(nodes: int) -> Text:
    """Elementwise nodes alone, with sums after every hundred."""
    write, row = Writer(), "f32[64, 256]"
    x = "%x"
    while len(write.lines) < nodes:
        for _ in range(32):
            y = write.add("mul", f"{x}, %x", row)
            y = write.add("tanh", y, row)
            x = write.add("add", f"{x}, {y}", row)
        total = write.add("reduce_sum", x, "f32[64, 1]", "{axes = [1], keepdim = true} ")
        x = write.add("sub", f"{x}, {total}", row)
    return [f"%x: {row}"], write.lines, x, row


def skips(nodes: int) -> Text:
    """Values of many sizes, some of which live for a long time: nested U-Nets."""
    write, lot = Writer(), random.Random(0)
    inputs = ["%x: f32[64, 64]"]
    sizes = (16, 24, 40, 64, 96)
    inputs += [f"%w{a}_{b}: f32[{a}, {b}]" for a in sizes for b in sizes]
    x, width = "%x", 64
    while len(write.lines) < nodes:
        kept: list[tuple[str, int]] = []
        for _ in range(lot.randrange(2, 8)):
            kept.append((x, width))
            wide = lot.choice(sizes)
            x = write.add("matmul", f"{x}, %w{width}_{wide}", f"f32[64, {wide}]")
            x = write.add("tanh", x, f"f32[64, {wide}]")
            width = wide
        while kept:
            skip, wide = kept.pop()
            x = write.add("matmul", f"{x}, %w{width}_{wide}", f"f32[64, {wide}]")
            x = write.add("add", f"{x}, {skip}", f"f32[64, {wide}]")
            width = wide
    return inputs, write.lines, x, f"f32[64, {width}]"


KINDS: dict[str, Callable[[int], Text]] = {f.__name__: f for f in (layers, elements, skips)}


def text_of(made: Text) -> str:
    inputs, lines, result, kind = made
    head = f"graph growth({', '.join(inputs)}) -> ({kind}) {{"
    return "\n".join([head, *lines, f"  return {result}", "}"]) + "\n"


def explain(gex: Path, text: str) -> tuple[float, dict[str, Any]]:
    """Seconds of processor time, and what `gex explain` says."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "graph.gex", Path(folder) / "out.json"
        path.write_text(text)
        environment = dict(os.environ, GEX_THREADS="1")
        before = os.times()
        with out.open("w") as file:
            subprocess.run(
                [gex, "explain", path, "--json"], check=True, stdout=file, env=environment
            )
        after = os.times()
        seconds = after.children_user + after.children_system
        seconds -= before.children_user + before.children_system
        return seconds, json.loads(out.read_text())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--gex", type=Path, default=ROOT / "build" / "bin" / "gex")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--stages", action="store_true", help="also milliseconds of each stage")
    add_option(parser)
    arguments = parser.parse_args()
    empty = "graph empty(%x: f32[4]) -> (f32[4]) {\n  %y = neg(%x) : f32[4]\n  return %y\n}\n"
    start = explain(arguments.gex, empty)[0]
    rows: dict[str, dict[str, float]] = {}
    print(f"{'kind':<10}{'nodes':>8}{'seconds':>10}{'us/node':>9}{'arena/bound':>13}{'power':>7}")
    for kind in arguments.kinds.split(","):
        last: tuple[int, float] | None = None
        for size in arguments.sizes:
            made = KINDS[kind](size)
            seconds, found = explain(arguments.gex, text_of(made))
            seconds -= start
            memory, nodes = found["memory"], len(made[1])
            bound = memory["lower_bound_bytes"]
            ratio = memory["arena_bytes"] / bound if bound else 1.0
            power = ""
            if last is not None:
                power = f"{math.log(seconds / last[1]) / math.log(nodes / last[0]):.2f}"
            last = (nodes, seconds)
            each = seconds / nodes * 1e6
            print(
                f"{kind:<10}{nodes:>8}{seconds:>10.2f}{each:>9.1f}{ratio:>13.4f}{power:>7}",
                flush=True,
            )
            if arguments.stages:
                for stage, milliseconds in found["stages_ms"].items():
                    print(f"    {stage:<12}{milliseconds:>12.1f} ms")
            rows.setdefault(f"{size:,} nodes", {})[kind] = each
    if arguments.results:
        record(arguments.results, "growth", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
