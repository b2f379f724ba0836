#!/usr/bin/env python3
"""op_counts [--check] [FOLDER]: writes docs/op_counts.md, or fails if it is out of date.

For a few ops the page says how many files name them, tests aside: what one has to read to change
the op.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

PAGE = "docs/op_counts.md"
FOLDERS = ("src", "include", "tools", "python/gex")
HOMES = ("src/ops", "src/problems", "src/backend", "src/passes", "src/frontend")
# All files and those elsewhere, by the same rule, before definitions told everything about an op.
BEFORE = {
    "gelu": (5, 1),
    "layer_norm": (6, 2),
    "topk": (8, 6),
    "softmax": (19, 6),
    "conv2d": (37, 6),
}
COMMENTS = {
    ".py": re.compile(r'#[^\n]*|"""[\s\S]*?"""'),
    ".cpp": re.compile(r"//[^\n]*|/\*[\s\S]*?\*/"),
}
INTRODUCTION = """# Files that name an op

Written by `scripts/op_counts.py`; `make lint` checks it. A file counts if the op's name stands in
its code, alone or as a part of another name; comments, tests, benchmarks and docs don't count.
"Elsewhere" are files that neither define ops or problems, nor are kernels, recognisers or
translations of other op sets: those that must be read to change an op and should not have to be.
"Before" is before an op's definition told its problem, reference implementation, step, samples and
what importers must know of its ATen calls.

| op | files before | files now | elsewhere before | elsewhere now | folders now |
|---|---|---|---|---|---|
"""


def files_naming(root: Path, op: str) -> list[str]:
    paths = (p for folder in FOLDERS for p in sorted((root / folder).rglob("*")))
    sources = (p for p in paths if p.suffix in (".cpp", ".hpp", ".h", ".py", ".def"))
    return [str(p.relative_to(root)) for p in sources if op in code_of(p)]


def code_of(path: Path) -> str:
    return COMMENTS[".py" if path.suffix == ".py" else ".cpp"].sub("", path.read_text())


def page(root: Path) -> str:
    rows = []
    for op, (before, elsewhere_before) in BEFORE.items():
        folders: dict[str, int] = {}
        for file in files_naming(root, op):
            folder = "/".join(file.split("/")[:2])
            folders[folder] = folders.get(folder, 0) + 1
        elsewhere = sum(count for folder, count in folders.items() if folder not in HOMES)
        where = ", ".join(f"`{folder}` {count}" for folder, count in sorted(folders.items()))
        now = sum(folders.values())
        rows.append(f"| `{op}` | {before} | {now} | {elsewhere_before} | {elsewhere} | {where} |\n")
    return INTRODUCTION + "".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("folder", nargs="?", default=str(Path(__file__).parent.parent))
    arguments = parser.parse_args()
    root = Path(arguments.folder)
    text, path = page(root), root / PAGE
    if not arguments.check:
        path.write_text(text)
        return 0
    if path.exists() and path.read_text() == text:
        print(f"{PAGE} is up to date")
        return 0
    print(f"{PAGE} is out of date: run scripts/op_counts.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
