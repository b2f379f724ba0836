"""The type stubs of the extension are those of the module that was built."""

from __future__ import annotations

import ast
import importlib
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import stubs  # noqa: E402

HINT = "write them again: PYTHONPATH=build/python python scripts/stubs.py python/gex/_gex"


def statements(text: str) -> list[str]:
    """Without the order of imports, which the formatter chooses."""
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None)
            found += [f"import {module} {a.name} {a.asname}" for a in node.names]
        else:
            found.append(ast.unparse(node))
    return sorted(found)


@pytest.mark.parametrize("name, file", stubs.MODULES.items())
def test_stubs_are_those_of_the_module(name: str, file: str) -> None:
    # In a process of its own: other tests put attributes of theirs on classes of the module.
    code = f"import stubs; print(stubs.stub_of({name!r}))"
    command = [sys.executable, "-c", code]
    written = subprocess.run(
        command, cwd=ROOT / "scripts", capture_output=True, text=True, check=True
    ).stdout
    kept = (ROOT / "python" / "gex" / "_gex" / file).read_text(encoding="utf-8")
    assert statements(kept) == statements(written), HINT


@pytest.mark.parametrize("name, file", stubs.MODULES.items())
def test_stubs_name_everything_of_the_module(name: str, file: str) -> None:
    tree = ast.parse((ROOT / "python" / "gex" / "_gex" / file).read_text(encoding="utf-8"))
    named = {n.name for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    named |= {a.asname for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    named |= {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign)}  # type: ignore[union-attr]
    there = {n for n in vars(importlib.import_module(name)) if not n.startswith("__")}
    assert there <= named
