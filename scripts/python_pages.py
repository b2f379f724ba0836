"""A hook of MkDocs: the page of the Python interface, made of the docstrings of public names."""

from __future__ import annotations

import ast
import pathlib
from typing import Any

_ROOT = pathlib.Path(__file__).resolve().parent.parent

PAGE = "python_reference.md"
# Every name in their __all__ is on the page.
MODULES = ["gex", "gex.onnx", "gex.es", "gex.passes", "gex.ops", "gex.npugraph_ex"]
# Where to find what is documented under another name than its import says.
ELSEWHERE = {
    "gex.report": "gex.report.page.report",
    "gex.ops.save": "gex.fx_stage.effect_ops.save_npugraph_tensor",
}
# Modules that have a section of their own, and ops, of which there is one function each.
SECTIONS = {"gex.onnx", "gex.ops"}
# What public functions return.
RETURNED = {"gex.report": ["gex.report.page.Report", "gex.report.page.Recording"]}


def _source(module: str) -> ast.Module:
    path = _ROOT / "python" / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def names_of(module: str) -> dict[str, str]:
    """The public names of a module, and where each is defined."""
    places, names = {}, []
    for node in ast.walk(_source(module)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                places[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            assert isinstance(node.value, ast.List)
            names = [e.value for e in node.value.elts if isinstance(e, ast.Constant)]
    found = {}
    for name in sorted(names, key=str.lower):
        public = f"{module}.{name}"
        if public not in SECTIONS:
            found[public] = ELSEWHERE.get(public) or places[name]
    return found


def page() -> str:
    lines = ["# Python reference", ""]
    for module in MODULES:
        lines += [f"## {module}", "", ast.get_docstring(_source(module)) or "", ""]
        for public, place in names_of(module).items():
            lines += _entry(public, place)
            for returned in RETURNED.get(public, []):
                lines += _entry(returned, returned)
    return "\n".join(lines)


def _entry(public: str, place: str) -> list[str]:
    return [f"::: {place}", "    options:", f"      heading: {public}", ""]


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    files.append(File.generated(config, PAGE, content=page()))
    return files
