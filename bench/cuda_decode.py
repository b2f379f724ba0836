"""The variants of a decoder's step on one GPU, side by side: tokens per second, kernels, cycles.

    python bench/cuda_decode.py [--layers 28] [--tokens 128] [--dtype float16] [--seconds 330]
                                [--variants REGEX] [--no-cycles] [--json FILE]

Model and job are decode of cuda_models.py. Every variant is a set of environment variables that
choose how the same Program runs; all of them run in one process with one model. The tokens of each
are compared with those of the first. Variants that don't begin within --seconds are left out and
named. At last the SuperKernel runs once more with clocks: cycles that blocks spent in the phases of
a step, summed over phases of the same launches.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cuda_models
import torch

SUPER = {"GEX_SUPER_KERNEL": "1"}
VARIANTS: dict[str, dict[str, str]] = {
    "graph": {},
    "graph, small launches repeated": {"GEX_REPEAT_LAUNCHES": "1"},
    "SuperKernel": SUPER,
    "SuperKernel without ring": SUPER | {"GEX_SUPER_KERNEL_RING": "0"},
    "ring 10 slots, 4 and 6 in flight": SUPER | {"GEX_SUPER_KERNEL_RING": "10,4,6,4"},
    "ring 10 slots, 2 in flight always": SUPER | {"GEX_SUPER_KERNEL_RING": "10,2,2,4"},
    "ring 10 slots, 6 in registers": SUPER | {"GEX_SUPER_KERNEL_RING": "10,2,5,6"},
    "ring 10 slots, 2 in registers": SUPER | {"GEX_SUPER_KERNEL_RING": "10,2,5,2"},
    "ring 7 slots": SUPER | {"GEX_SUPER_KERNEL_RING": "7,2,5,4"},
    "ring 12 slots": SUPER | {"GEX_SUPER_KERNEL_RING": "12,2,5,4"},
}
CLOCKS = SUPER | {"GEX_SUPER_KERNEL_CLOCKS": "1"}
# Where the cycles of a phase are spent, in this order (ring_helpers.cpp, GEX_MARK).
SPENT = ("weights", "waits", "operands", "products", "results", "end")
CYCLES = re.compile(r"gex_cycles (\d+) (\d+) (\d+) (-?\d+) (\d+) (\d+)((?: \d+)+)")


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """Sets the variables; all others that variants use are unset."""
    names = {name for variant in [*VARIANTS.values(), CLOCKS] for name in variant}
    saved = {name: os.environ.pop(name) for name in names if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(saved)


def kernels_of(program: str) -> int:
    """Kernels, fills and copies of a step in the text of a Program."""
    steps = re.findall(r"^  (launch|fill|copy) (.*)$", program, re.MULTILINE)
    joined = re.compile(r" with_previous| phase [1-9]")
    return sum(1 for _, rest in steps if not joined.search(rest))


def measure(model: Any, tokens: int) -> tuple[dict[str, Any], list[int]]:
    from gex import report

    torch._dynamo.reset()
    compiled = torch.compile(model, backend="npugraph_ex", fullgraph=True)
    times = []
    given: list[int] = []
    for _ in range(4):
        given, seconds = cuda_models.decode(model, compiled, tokens)
        times.append(seconds)
    row = {
        "tokens_per_s": round(tokens / min(times[1:]), 1),
        "first_s": round(times[0], 2),
        "kernels": kernels_of(report.reports()[-1].runner.text("program")),
    }
    return row, given


def flush() -> None:
    """The driver prints through C's standard output."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


def printed_by(run: Callable[[], object]) -> str:
    """What kernels print meanwhile: the driver writes to the process's standard output."""
    flush()
    saved = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            run()
            torch.cuda.synchronize()
        finally:
            flush()
            os.dup2(saved, 1)
            os.close(saved)
        file.seek(0)
        return file.read().decode()


def phases_of(text: str, tokens: int) -> list[dict[str, Any]]:
    """Average cycles of a block in all phases of a step that run the same launches."""
    clocks: dict[tuple[int, ...], list[list[int]]] = defaultdict(list)
    firsts: dict[tuple[int, ...], int] = {}
    blocks = set()
    for found in CYCLES.finditer(text):
        block, phase, *launches = map(int, found.groups()[:6])
        key = tuple(launches)
        clocks[key].append([int(clock) for clock in found[7].split()])
        firsts[key] = min(firsts.get(key, phase), phase)
        blocks.add(block)
    runs = len(blocks) * tokens
    rows = []
    for key, values in sorted(clocks.items(), key=lambda item: firsts[item[0]]):
        products, kind, total, depth = key
        what = (
            f"products, {total} tiles, depth {depth}"
            if products
            else f"launch {kind}, {total} blocks"
        )
        ends = [round(sum(clock) / len(values)) for clock in zip(*values)]
        spent = [end - begin for begin, end in zip([0, *ends], ends)]
        rows.append(
            {
                "first_phase": firsts[key],
                "what": what,
                "cycles_each": ends[-1],
                "spent": dict(zip(SPENT, spent)),
                "times": round(len(values) / runs, 1),
                "cycles_a_step": round(sum(clock[-1] for clock in values) / runs),
            }
        )
    return rows


def cycles(model: Any, tokens: int) -> list[dict[str, Any]]:
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="npugraph_ex", fullgraph=True)
    cuda_models.decode(model, compiled, 4)
    text = printed_by(lambda: cuda_models.decode(model, compiled, tokens))
    return phases_of(text, tokens - 1)  # the prompt is in eager mode


def main() -> None:
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--seconds", type=float, default=330)
    parser.add_argument("--variants", default="")
    parser.add_argument("--no-cycles", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    model = cuda_models.make_model(
        options.layers, getattr(torch, options.dtype), options.vocabulary
    )
    rows: list[dict[str, Any]] = []
    expected: list[int] | None = None
    print(f"{'variant':38} {'tokens/s':>9} {'kernels':>8} {'first s':>8}  equal tokens")
    for name, variables in VARIANTS.items():
        if not re.search(options.variants, name):
            continue
        if time.monotonic() - begin > options.seconds:
            print(f"{name:38} left out: no time")
            continue
        with environment(variables):
            row, given = measure(model, options.tokens)
        expected = given if expected is None else expected
        row["equal_tokens"] = sum(a == b for a, b in zip(given, expected))
        rows.append({"variant": name, **row})
        print(
            f"{name:38} {row['tokens_per_s']:9} {row['kernels']:8} {row['first_s']:8}  "
            f"{row['equal_tokens']} of {options.tokens}",
            flush=True,
        )
        cuda_models.write_json(options.json, rows=rows)
    if not options.no_cycles and time.monotonic() - begin < options.seconds:
        with environment(CLOCKS):
            phases = cycles(model, 9)
        for phase in phases:
            print(
                f"phase {phase['first_phase']:4} {phase['what']:34} {phase['cycles_each']:8} cycles"
                f", {phase['times']:5} times, {phase['cycles_a_step']:9} a step; "
                + ", ".join(f"{name} {spent}" for name, spent in phase["spent"].items())
            )
        cuda_models.write_json(options.json, rows=rows, phases=phases)


if __name__ == "__main__":
    main()
