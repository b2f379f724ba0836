"""Writes docs/opinfo.md: the outcome of each operator of PyTorch's sample database.

PYTHONPATH=build/python python tests/python/opinfo_table.py [operator ...]
"""

from __future__ import annotations

import argparse
import multiprocessing
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from op_outcome import KINDS, Outcome, outcome
from op_samples import operators, two_dtypes

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "opinfo.md"
_HEAD = """# Operators

Every operator of PyTorch's own sample database (torch {version}, CPU), f32 and one more dtype: at
most {samples} samples of each, traced, imported, compiled, run, and compared with eager.

- **native**: ops of gex alone. **decomposed**: ops of gex, by PyTorch's decomposition.
- **call**: some node runs as a call through PyTorch, in its position in the program; the reason is
  beside it. **eager**: the graph as a whole runs through PyTorch.
- **untraceable**: PyTorch itself makes no graph of it; torch.compile runs it between two graphs.
- **error**, **wrong**: should not happen.

`python tests/python/opinfo_table.py` writes this page; `make test-all` checks every line of it.

| dtype | {kinds} |
|---|{dashes}
"""


def _run(index: int, samples: int) -> tuple[str, dict[str, Outcome]]:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    op = operators()[index]
    found = {}
    for dtype in two_dtypes(op, index):
        found[str(dtype).removeprefix("torch.")] = outcome(op, dtype, samples)
    return op.formatted_name, found


def _cell(found: tuple[str, Outcome] | None) -> str:
    if found is None:
        return ""
    dtype, o = found
    return o.kind if dtype == "float32" else f"{dtype}: {o.kind}"


def _reason(found: dict[str, Outcome]) -> str:
    reasons: Counter[str] = Counter()
    for o in found.values():
        reasons.update(o.reasons)
    text = "; ".join(r for r, _ in reasons.most_common(2))
    failures = [f for o in found.values() for f in o.failures]
    return " ".join((failures[0] if failures else text).split()).replace("|", "/")[:220]


def _line(name: str, found: dict[str, Outcome]) -> str:
    f32 = [(d, o) for d, o in found.items() if d == "float32"]
    other = [(d, o) for d, o in found.items() if d != "float32"]
    cells = [_cell(f32[0] if f32 else None), _cell(other[0] if other else None)]
    return f"| {name} | {cells[0]} | {cells[1]} | {_reason(found)} |"


def _lines_of_page() -> dict[str, str]:
    """Those of the operators on the page as it is, by name."""
    table = _PAGE.read_text().split("| operator |", 1)[1].splitlines()[2:]
    return {line.split(" | ")[0].removeprefix("| "): line for line in table}


def page(lines: dict[str, str], samples: int) -> str:
    counts: dict[str, Counter[str]] = {"float32": Counter()}
    for line in lines.values():
        _, f32, other, *_ = (cell.strip() for cell in line.strip("|").split("|"))
        if f32:
            counts["float32"][f32] += 1
        if other:
            dtype, kind = other.split(": ")
            counts.setdefault(dtype, Counter())[kind] += 1
    kinds = [k for k in (*KINDS, "no sample") if any(c[k] for c in counts.values())]
    text = _HEAD.format(
        version=torch.__version__.split("+")[0],
        samples=samples,
        kinds=" | ".join(kinds),
        dashes="---|" * len(kinds),
    )
    order = ["float32", "bfloat16", "int64", "bool", "complex64"]
    for dtype in sorted(counts, key=order.index):
        text += f"| {dtype} | " + " | ".join(str(counts[dtype][k]) for k in kinds) + " |\n"
    text += "\n| operator | f32 | other dtype | why not native |\n|---|---|---|---|\n"
    return text + "".join(f"{lines[name]}\n" for name in sorted(lines))


def _call(arguments: tuple[int, int]) -> Any:
    return _run(*arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="whose lines are written anew; all if none is given"
    )
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    wanted = set(arguments.names)
    work = [
        (index, arguments.samples)
        for index, op in enumerate(operators())
        if not wanted or op.formatted_name in wanted
    ]
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        rows = pool.map(_call, work, chunksize=8)
    lines = _lines_of_page() if wanted else {}
    lines.update((name, _line(name, found)) for name, found in rows)
    _PAGE.write_text(page(lines, arguments.samples))
    bad = [name for name, found in rows for o in found.values() if o.failures]
    if bad:
        raise SystemExit(f"wrong or failing: {', '.join(bad)}")


if __name__ == "__main__":
    main()
