"""`output_code.py` of a debug folder: a graph as a standalone script.

It contains the ATen code of the graph, compiles it with the same options, and calls it with random
inputs of the recorded sizes and strides.
"""

from __future__ import annotations

import operator
import re
import types
from collections.abc import Iterable, Mapping
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node

from gex.options.table import Config

_LOOKS = re.compile("dump|trace|check")  # options that only make files
_MOST_LITERALS = 64  # constants with more elements are replaced by random ones

_SCRIPT = '''"""One graph as gex compiled it: {name}. Run it to see it run: python output_code.py"""

import torch

from gex.pipeline.output_code_runtime import compiled, describe, strided
{imports}
BACKEND = {backend!r}
OPTIONS = {options!r}


{classes}
def inputs():
    """Random values; a dynamic size is 2 + the position of the input that defines it."""
    return [
{inputs}    ]


def main():
    arguments = inputs()
    kernel = compiled({top}(), arguments, BACKEND, OPTIONS)
    for result in kernel(arguments):
        print(describe(result))


if __name__ == "__main__":
    main()
'''


def script_of(gm: GraphModule, name: str, backend: str, config: Config) -> str:
    classes = _Classes()
    imports: dict[str, str] = {}
    top = classes.add(gm, imports)
    lines = [f"import {m}" if n == m else f"import {m} as {n}" for n, m in sorted(imports.items())]
    return _SCRIPT.format(
        name=name,
        imports="".join(f"{line}\n" for line in lines),
        backend=backend,
        options=_plain_options(config),
        classes="\n\n".join(classes.texts) + "\n\n",
        inputs="".join(f"        {text},\n" for text in _inputs(gm)),
        top=top,
    )


def _plain_options(config: Config) -> dict[str, Any]:
    """The options that affect compilation; passes have already run, and files are not written
    again."""
    return {
        name: value
        for name, value in config.changed().items()
        if isinstance(value, (bool, int, str, tuple)) and not _LOOKS.search(name)
    }


class _Classes:
    """A module class for each graph, nested ones first."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, gm: GraphModule, imports: dict[str, str]) -> str:
        attributes = []
        targets = dict.fromkeys(n.target for n in gm.graph.nodes if n.op == "get_attr")
        for target in targets:
            value = operator.attrgetter(str(target))(gm)
            is_graph = isinstance(value, GraphModule)
            text = f"{self.add(value, imports)}()" if is_graph else _constant(value)
            attributes.append(f"        self.{target} = {text}\n")
        name = f"Graph{len(self.texts)}"
        code = gm.graph.python_code("self")
        prelude = _prelude(code.globals, imports)
        body = code.src.strip().replace("\n", "\n    ")
        self.texts.append(
            f"{prelude}class {name}(torch.nn.Module):\n    def __init__(self):\n"
            f"        super().__init__()\n{''.join(attributes)}\n    {body}\n"
        )
        return name


def _prelude(names: Mapping[str, Any], imports: dict[str, str]) -> str:
    """Statements that define the names used by the code of a graph; modules go to `imports`."""
    lines = []
    for name, value in names.items():
        if name == "torch":
            continue
        if isinstance(value, types.ModuleType):
            imports[name] = value.__name__
        elif isinstance(value, float):
            lines.append(f"{name} = float({str(value)!r})\n")
        elif isinstance(value, type) and value is type(None):
            lines.append(f"{name} = type(None)\n")
        elif hasattr(value, "__module__") and hasattr(value, "__qualname__"):
            lines.append(f"from {value.__module__} import {value.__qualname__} as {name}\n")
    return "".join(lines) + ("\n\n" if lines else "")


def _constant(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    if value.numel() <= _MOST_LITERALS and not value.is_complex():
        return f"torch.tensor({value.tolist()!r}, dtype={value.dtype})"
    return _strided_text(list(value.shape), list(value.stride()), value.dtype)


def _strided_text(size: list[int], stride: list[int], dtype: torch.dtype) -> str:
    return f"strided({size}, {stride}, {dtype})"


def _inputs(gm: GraphModule) -> Iterable[str]:
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    values = _symbol_values(placeholders)
    for node in placeholders:
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor):
            size = [_number(s, values) for s in val.shape]
            stride = [_number(s, values) for s in val.stride()]
            yield _strided_text(size, stride, val.dtype)
        elif isinstance(val, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            yield repr(_number(val, values))
        else:
            yield repr(val)


def _symbol_values(placeholders: list[Node]) -> dict[sympy.Symbol, int]:
    values: dict[sympy.Symbol, int] = {}
    for position, node in enumerate(placeholders):
        val = node.meta.get("val")
        sizes = [val, *(val.shape if isinstance(val, torch.Tensor) else ())]
        for size in sizes:
            if isinstance(size, torch.SymInt):
                for symbol in size.node.expr.free_symbols:
                    values.setdefault(symbol, 2 + position)
    return values


def _number(size: Any, values: Mapping[sympy.Symbol, int]) -> int:
    return int(size.node.expr.xreplace(values)) if hasattr(size, "node") else int(size)
