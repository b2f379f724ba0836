"""`gex diff A B`: compares two folders of dumped tensors, in graph order."""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gex.debug.comparison import Comparison, compare, tolerance_of

_INDEX = "index.jsonl"
_TIMESTAMP = re.compile(r"\.\d{10,}$")
_STEP = re.compile(r"_step(\d+)$")


@dataclass(frozen=True)
class Entry:
    """One dumped tensor."""

    key: str  # node and number of its tensor
    path: pathlib.Path
    dtype: str = ""
    target: str = ""
    line: str = ""

    def array(self) -> np.ndarray:
        if self.path.suffix == ".npy":
            return np.load(self.path, allow_pickle=False)
        import torch

        from gex.debug.tensor_dump import as_array

        return as_array(torch.load(self.path, weights_only=True))


@dataclass
class Difference:
    entry: Entry
    result: Comparison


@dataclass
class Report:
    compared: list[Difference] = field(default_factory=list)
    only_first: list[str] = field(default_factory=list)
    only_second: list[str] = field(default_factory=list)

    @property
    def first_mismatch(self) -> Difference | None:
        return next((d for d in self.compared if not d.result.same), None)

    def text(self, everything: bool = False) -> str:
        lines = []
        width = max((len(d.entry.key) for d in self.compared), default=0)
        for d in self.compared:
            if everything or not d.result.same:
                mark = "ok  " if d.result.same else "DIFF"
                lines.append(f"{mark} {d.entry.key:<{width}}  {d.result.text}")
        for names, which in ((self.only_first, "first"), (self.only_second, "second")):
            if names:
                lines.append(f"only in the {which}: {', '.join(names)}")
        wrong = sum(not d.result.same for d in self.compared)
        lines.append(f"{len(self.compared)} tensors compared, {wrong} differ")
        first = self.first_mismatch
        if first is not None:
            where = f" at {first.entry.line}" if first.entry.line else ""
            lines.append(
                f"first mismatch: {first.entry.key} ({first.entry.target or 'unknown op'}){where}: "
                f"{first.result.text}"
            )
        return "\n".join(lines)


def diff(
    first: str | pathlib.Path,
    second: str | pathlib.Path,
    rtol: float | None = None,
    atol: float | None = None,
) -> Report:
    """Compares the tensors of equal nodes, in the order of the first folder's graph."""
    a, b = _entries(pathlib.Path(first)), _entries(pathlib.Path(second))
    report = Report(
        only_first=[key for key in a if key not in b],
        only_second=[key for key in b if key not in a],
    )
    for key, entry in a.items():
        if key not in b:
            continue
        # The coarser dtype of the two determines the tolerance.
        dtypes = (entry.dtype, b[key].dtype)
        limits = [tolerance_of(dtype) for dtype in dtypes]
        relative = rtol if rtol is not None else max(limit[0] for limit in limits)
        absolute = atol if atol is not None else max(limit[1] for limit in limits)
        result = compare(entry.array(), b[key].array(), relative, absolute)
        report.compared.append(Difference(entry, result))
    return report


def _entries(folder: pathlib.Path) -> dict[str, Entry]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder; pass two folders of dumped tensors")
    entries: dict[str, Entry] = {}
    indices = sorted(folder.rglob(_INDEX), key=_natural)
    listed = [entry for index in indices for entry in _listed(index)]
    for entry in listed or _unlisted(folder):
        key, n = entry.key, 1
        while key in entries:  # the same node of another graph or step
            n += 1
            key = f"{entry.key}#{n}"
        entries[key] = Entry(key, entry.path, entry.dtype, entry.target, entry.line)
    if not entries:
        raise FileNotFoundError(f"{folder} contains no dumped tensors (.npy or .pt)")
    return entries


def _natural(path: pathlib.Path) -> list[tuple[int, str]]:
    """Sorts folder 10 after folder 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in path.parts]


def _listed(index: pathlib.Path) -> Iterator[Entry]:
    for line in index.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        path = index.parent / row["file"]
        files = [path] if path.exists() else _steps_of(path)
        for file in files:
            key = f"{row['node']}.{row['role']}"
            yield Entry(key, file, row["dtype"], row["target"], row["line"])


def _steps_of(path: pathlib.Path) -> list[pathlib.Path]:
    numbered = [(_STEP.search(p.stem), p) for p in path.parent.glob(f"{path.stem}_step*")]
    return [p for _, p in sorted((int(m[1]), p) for m, p in numbered if m)]


def _unlisted(folder: pathlib.Path) -> Iterator[Entry]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".npy", ".pt"):
            name = path.relative_to(folder).with_suffix("")
            yield Entry(_TIMESTAMP.sub("", str(name)), path)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="gex diff",
        description="Compares two folders of dumped tensors; exit code 1 if any differ.",
    )
    parser.add_argument("first", help="the reference folder")
    parser.add_argument("second")
    parser.add_argument("--rtol", type=float, help="relative error allowed; default by dtype")
    parser.add_argument("--atol", type=float, help="absolute error allowed; default by dtype")
    parser.add_argument("--all", action="store_true", help="also list tensors that are equal")
    arguments = parser.parse_args(words)
    try:
        report = diff(arguments.first, arguments.second, arguments.rtol, arguments.atol)
    except FileNotFoundError as problem:
        print(f"gex: {problem}", file=sys.stderr)
        return 1
    print(report.text(arguments.all))
    return 0 if report.first_mismatch is None else 1
