#!/usr/bin/env python3
"""check_imports [FOLDER]: layers and import cycles of python/gex, private names outside compat.

An import inside a function counts as one at the top of the file: it only hides a cycle. One under
TYPE_CHECKING does not count. A package imports only packages of its own or an earlier layer. A
private name is `torch.…._name`, imported or reached by attributes; operators under `torch.ops` have
public names that may begin with an underscore.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

COMPAT = "gex.compat"
# Packages and modules of gex, the lowest first. `gex` itself may import all.
LAYERS = (
    ("compat", "environment", "errors", "pass_files"),
    ("determinism", "core_limits", "op_facts", "options", "es", "onnx"),
    ("collectives", "fx_stage", "nested_regions", "onnx_backend", "passes", "shape_handling"),
    ("importer", "ops"),
    ("report",),  # after the importer: compiling writes reports and never reads them
    ("aot", "cache", "captures", "deploy"),
    ("debug",),
    ("bisect", "diff", "doctor", "pipeline", "top"),
    ("frames",),
    ("dynamo", "export", "training"),
    ("npu", "npugraph_ex", "recording"),
)
BUILT = {"gex._gex", "gex.es.ops"}  # modules that the build makes; they import nothing of the tree


def module_name(path: Path, root: Path) -> str:
    parts = ["gex", *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under TYPE_CHECKING."""
    for child in ast.iter_child_nodes(node):
        if _is_type_checking(child):
            for other in child.orelse:  # type: ignore[attr-defined]
                yield from _walk(other)
            continue
        yield child
        yield from _walk(child)


def _imported(node: ast.AST, modules: set[str], of: str, is_package: bool) -> Iterator[str]:
    """Full names of what an import statement names; modules of the tree where there are such."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = of.split(".")[: None if is_package else -1]
            kept = package[: len(package) - node.level + 1]
            base = ".".join([*kept, *([node.module] if node.module else [])])
        for alias in node.names:
            full = f"{base}.{alias.name}"
            yield full if full in modules or full in BUILT or base not in modules else base


def import_graph(root: Path) -> dict[str, set[str]]:
    """Which modules of the tree each one imports."""
    paths = {module_name(path, root): path for path in sorted(root.rglob("*.py"))}
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        is_package = path.name == "__init__.py"
        graph[name] = {
            found
            for node in _walk(ast.parse(path.read_text(encoding="utf-8"), str(path)))
            for found in _imported(node, set(paths), name, is_package)
            if found in paths and found != name
        }
    return graph


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Sets of modules that import each other (strongly connected components), sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            component = stack[at:]
            del stack[at:]
            if len(component) > 1:
                found.append(sorted(component))

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return sorted(found)


def wrong_directions(graph: dict[str, set[str]]) -> list[str]:
    """Imports of a later layer, and modules that have none."""
    rank = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    found = []
    for module, imported in sorted(graph.items()):
        own = module.split(".")[1:2]
        if not own or own == ["__main__"]:
            continue
        if own[0] not in rank:
            found.append(f"{module}: {own[0]} has no layer in scripts/check_imports.py")
            continue
        for other in sorted(imported):
            layer = rank.get(other.split(".")[1], -1) if "." in other else len(LAYERS)
            if layer > rank[own[0]]:
                found.append(f"{module} imports {other}, which is of a later layer")
    return found


def _is_private(dotted: str) -> bool:
    parts = dotted.split(".")
    if parts[0] != "torch" or parts[1:2] == ["ops"]:
        return False
    return any(part.startswith("_") and not part.startswith("__") for part in parts)


def _attribute_path(node: ast.Attribute) -> str:
    parts: list[str] = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute):
        parts.insert(0, at.attr)
        at = at.value
    return ".".join([at.id, *parts]) if isinstance(at, ast.Name) else ""


def private_names(root: Path) -> list[str]:
    """`file:line: name` of each use of a private name of PyTorch's outside of gex.compat."""
    found = []
    for path in sorted(root.rglob("*.py")):
        name = module_name(path, root)
        if name == COMPAT or name.startswith(f"{COMPAT}."):
            continue
        used: dict[tuple[int, str], None] = {}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            names = list(_imported(node, set(), name, False))
            if isinstance(node, ast.Attribute):
                names = [_attribute_path(node)]
            used.update({(node.lineno, n): None for n in names if _is_private(n)})  # type: ignore[attr-defined]
        longest = [
            (line, n) for line, n in used if not any(o != n and o.startswith(n) for _, o in used)
        ]
        found += [f"{path}:{line}: {n}: private to PyTorch; use gex.compat" for line, n in longest]
    return found


def check(root: Path) -> list[str]:
    """Descriptions of all violations."""
    graph = import_graph(root)
    loops = [
        f"{root}: import cycle of {len(loop)} modules: {', '.join(loop)}" for loop in cycles(graph)
    ]
    return loops + wrong_directions(graph) + private_names(root)


def main() -> int:
    default = Path(__file__).resolve().parent.parent / "python" / "gex"
    problems = check(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
