#!/usr/bin/env python3
"""check_op_names [FOLDER]: ops are named where they are defined, and in few other places.

Everything the engine must know about an op is in its definition under src/ops. A C++ file that
names an op in a string, or a Python file that names an ATen op, decides something about it
elsewhere. scripts/op_names.txt lists the places that may, each with its reason.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

TABLE = "scripts/op_names.txt"
CPP_FOLDERS = ("src", "include", "tools")
PYTHON_FOLDER = "python/gex"
# Functions of src/ops whose first argument is the name of an op that they define.
DEFINERS = (
    "Definition|arg_extremum|binary|binary_body|comparison|float_test|fold|register_extremum|"
    "register_mode|running|scan|unary|unary_body"
)
DEFINED = re.compile(rf'\b(?:{DEFINERS})\(\s*"([a-z]\w*)"')
LITERAL = re.compile(r'"([a-z]\w*)"')
ATEN_NAME = re.compile(r"aten\.(\w+)(?:\.\w+)?")
COMMENT = re.compile(r"//[^\n]*")


@dataclass
class Place:
    """A line of the table: a file or a folder, and the names that it may use."""

    path: str
    names: set[str] | None  # None: all
    used: set[str] = field(default_factory=set)

    def covers(self, path: str) -> bool:
        return path.startswith(self.path) if self.path.endswith("/") else path == self.path

    def allows(self, name: str) -> bool:
        return self.names is None or name in self.names

    def stale(self) -> str | None:
        if self.names == set():
            return None
        if not self.used:
            return f"{self.path}: names no op any more: delete the line"
        unused = sorted((self.names or set()) - self.used)
        return f"{self.path}: {', '.join(unused)}: not named there any more" if unused else None


def read_table(root: Path) -> tuple[list[Place], list[str]]:
    places, problems = [], []
    # Indented lines continue the previous one.
    text = re.sub(r"\n[ \t]+", " ", (root / TABLE).read_text())
    for line in text.splitlines():
        entry, _, reason = line.partition("#")
        if not entry.strip():
            continue
        path, _, names = (part.strip() for part in entry.partition(":"))
        if not reason.strip():
            problems.append(f"{TABLE}: {path} has no reason after '#'")
        places.append(Place(path, None if names == "*" else set(names.split())))
    return places, problems


def defined_ops(root: Path) -> set[str]:
    names = set()
    for path in sorted((root / "src/ops").rglob("*.cpp")):
        names.update(DEFINED.findall(path.read_text()))
    return names


def named_in_cpp(root: Path, ops: set[str]) -> Iterator[tuple[str, int, str]]:
    for folder in CPP_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".cpp", ".hpp", ".h"):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for name in LITERAL.findall(COMMENT.sub("", line)):
                    if name in ops:
                        yield str(path.relative_to(root)), number, name


def aten_op(node: ast.AST) -> str | None:
    """The op that torch.ops.aten.add, aten.add, _aten.add or the string "aten.add.Tensor" names."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        named = ATEN_NAME.fullmatch(node.value)
        return named.group(1) if named else None
    if not isinstance(node, ast.Attribute):
        return None
    base = node.value
    owner = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
    return node.attr if owner in ("aten", "_aten") else None


def named_in_python(root: Path) -> Iterator[tuple[str, int, str]]:
    for path in sorted((root / PYTHON_FOLDER).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            name = aten_op(node)
            if name is not None:
                yield str(path.relative_to(root)), getattr(node, "lineno", 0), name


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    places, problems = read_table(root)
    ops = defined_ops(root)
    for path, line, name in [*named_in_cpp(root, ops), *named_in_python(root)]:
        # A file's own line takes precedence over that of its folder.
        covering = [p for p in places if p.covers(path)]
        place = max(covering, key=lambda p: len(p.path), default=None)
        if place is None or not place.allows(name):
            problems.append(
                f"{path}:{line}: names the op '{name}': state it in the op's definition (src/ops), "
                f"or list the place in {TABLE}"
            )
        else:
            place.used.add(name)
    problems += [f"{TABLE}: {stale}" for place in places if (stale := place.stale())]
    for problem in problems:
        print(problem)
    if not problems:
        print(f"op names: {len(ops)} ops are named only where they may be")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
