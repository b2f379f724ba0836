"""Single operations and small compositions on the CPU, at two sizes each: gex beside eager mode.

Processor time of one thread, the least of several rounds in which both take turns; a ratio above 1
means that gex is slower. Inference runs through gex.compile, cases with gradients (marked `grad`)
through torch.compile. Results are compared with eager mode's; `call` marks operations that run
through PyTorch. Prints the table, slowest first, and a summary.

GEX_NUM_THREADS=1 PYTHONPATH=build/python python bench/ops.py [--only REGEX] [--seconds S]
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from ops_cases import Case, elementwise, reductions, tensors
from ops_models import attention, convolutions, pools, products, recurrent
from ops_shapes import indexing, norms, shapes

import gex

FAMILIES: dict[str, Callable[[], list[Case]]] = {
    family.__name__: family
    for family in (
        elementwise,
        reductions,
        indexing,
        shapes,
        norms,
        pools,
        convolutions,
        attention,
        recurrent,
        products,
    )
}
# Relative to the largest element of the result.
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-10, torch.float16: 4e-3, torch.bfloat16: 3e-2}
SLOWER = 1.1
ROUNDS = 6

Call = Callable[[], Any]


@dataclass
class Row:
    family: str
    name: str
    size: str
    eager_us: float
    gex_us: float
    note: str  # why a ratio is not to be trusted: `call`, a difference, an error

    @property
    def ratio(self) -> float:
        return self.gex_us / self.eager_us


def flat(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    return [x for part in result for x in flat(part)]


def difference(ours: Any, theirs: Any) -> str:
    """Where results differ by more than rounding; empty: nowhere."""
    for k, (a, b) in enumerate(zip(flat(ours), flat(theirs), strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {k} is {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        if not b.is_floating_point():
            if not torch.equal(a, b):
                return f"result {k}: {int((a != b).sum())} of {b.numel()} differ"
            continue
        scale = (
            float(b.detach().abs().nan_to_num(posinf=0).max().clamp_min(1e-3)) if b.numel() else 1
        )
        limit = TOLERANCE[b.dtype] * scale
        if not torch.allclose(a, b, rtol=TOLERANCE[b.dtype], atol=limit, equal_nan=True):
            return f"result {k}: off by {float((a - b).abs().max()) / scale:.1g} of the largest"
    return ""


def with_gradients(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Call:
    """The forward pass and the gradients of what can have some."""
    roots = [x for x in inputs if x.requires_grad]
    module = getattr(function, "_orig_mod", function)
    if isinstance(module, torch.nn.Module):
        roots += list(module.parameters())

    def call() -> Any:
        result = function(*inputs)
        return [result, *torch.autograd.grad(result, roots, seeds)]

    seeds = torch.randn_like(function(*inputs).detach())
    return call


def pair_of(case: Case, words: str) -> tuple[Call, Call, bool]:
    """Eager mode, gex, and whether an operation of gex runs through PyTorch."""
    torch.manual_seed(0)
    inputs, function = tensors(words), case.make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if case.train:
            inputs = tuple(x.requires_grad_(x.is_floating_point()) for x in inputs)
            torch._dynamo.reset()
            torch.manual_seed(1)  # the same seeds for both
            ours = with_gradients(torch.compile(function, backend="npugraph_ex"), inputs)
            ours()
            torch.manual_seed(1)
            eager = with_gradients(function, inputs)
        else:
            compiled = gex.compile(function, inputs)

            def ours() -> Any:
                return compiled(*inputs)

            def eager() -> Any:
                return function(*inputs)

    return eager, ours, any(isinstance(w.message, gex.FallbackWarning) for w in caught)


def least(call: Call, seconds: float) -> float:
    """Processor time of a call in microseconds."""
    start = time.process_time()
    call()
    count = max(1, min(100, int(1e-3 / max(time.process_time() - start, 1e-7))))
    best, begin = float("inf"), time.process_time()
    while time.process_time() - begin < seconds:
        start = time.process_time()
        for _ in range(count):
            call()
        best = min(best, (time.process_time() - start) / count)
    return best * 1e6


def measure(family: str, case: Case, size: str, seconds: float) -> Row:
    row = Row(family, case.name + (" grad" if case.train else ""), size, float("nan"), 0.0, "")
    try:
        with torch.set_grad_enabled(case.train):
            eager, ours, falls_back = pair_of(case, getattr(case, size))
            row.note = difference(ours(), eager())
            if not row.note and falls_back:
                row.note = "call"
            pairs = [
                (least(eager, seconds / ROUNDS), least(ours, seconds / ROUNDS))
                for _ in range(ROUNDS)
            ]
        row.eager_us, row.gex_us = (min(times) for times in zip(*pairs, strict=True))
    except Exception as problem:  # the others are still worth measuring
        row.note = f"{type(problem).__name__}: {str(problem).strip().splitlines()[0][:90]}"
    return row


def line(row: Row) -> str:
    name = f"{row.name} ({row.size})"
    return f"{name:<46}{row.eager_us:10.1f}{row.gex_us:10.1f}{row.ratio:8.2f}  {row.note}"


def summary(rows: list[Row]) -> str:
    measured = [row.ratio for row in rows if row.ratio == row.ratio]
    if not measured:
        return "nothing was measured"
    slower = sum(ratio > SLOWER for ratio in measured)
    return (
        f"{len(rows)} measurements: median ratio {statistics.median(measured):.2f}, "
        f"{slower} over {SLOWER}, {sum(ratio > 1.5 for ratio in measured)} over 1.5; "
        f"{sum(row.note == 'call' for row in rows)} through PyTorch; "
        f"{sum(row.note not in ('', 'call') for row in rows)} with differences or errors"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression for 'family: name'")
    parser.add_argument("--size", choices=["small", "large"], help="one of the two sizes")
    parser.add_argument("--seconds", type=float, default=0.12, help="of each backend and case")
    parser.add_argument("--json", type=Path, help="a file for the rows")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[Row] = []
    for family, cases in FAMILIES.items():
        for case in cases():
            if not re.search(arguments.only, f"{family}: {case.name}{' grad' * case.train}"):
                continue
            for size in [arguments.size] if arguments.size else ["small", "large"]:
                rows.append(measure(family, case, size, arguments.seconds))
                print(line(rows[-1]), file=sys.stderr)
    rows.sort(key=lambda row: -row.ratio if row.ratio == row.ratio else -float("inf"))
    print(f"{'us':<46}{'eager':>10}{'gex':>10}{'ratio':>8}")
    print("\n".join(line(row) for row in rows))
    print(summary(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
