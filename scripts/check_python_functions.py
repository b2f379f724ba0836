#!/usr/bin/env python3
"""check_python_functions [FOLDER]: functions of python/gex with more than 60 lines.

Lines are counted from `def` to the last one, without the docstring. A function that is one literal
table (its body is a single return or assignment) may be longer.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

MOST_LINES = 60

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _length(function: Function) -> int:
    docstring = function.body[0] if ast.get_docstring(function, clean=False) is not None else None
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    if docstring is not None:
        length -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return length


def _is_table(function: Function) -> bool:
    body = [s for s in function.body if not isinstance(s, ast.Expr)]
    return len(body) == 1 and isinstance(body[0], ast.Return | ast.Assign | ast.AnnAssign)


def check(root: Path) -> list[str]:
    found = []
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            if not isinstance(node, Function) or _is_table(node):
                continue
            length = _length(node)
            if length > MOST_LINES:
                found.append(
                    f"{path}:{node.lineno}: {node.name} has {length} lines, more than {MOST_LINES}"
                )
    return found


def main() -> int:
    default = Path(__file__).resolve().parent.parent / "python" / "gex"
    problems = check(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
