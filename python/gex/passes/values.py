"""Queries about the node that makes a value."""

from __future__ import annotations

import ast
from typing import Any

from gex._gex import passes as _passes
from gex.es import holder
from gex.es.holder import TensorHolder


def op(tensor: TensorHolder) -> str:
    """ "matmul"; "" for an input of the graph."""
    return _passes.op_of(tensor._native)


def operands(tensor: TensorHolder) -> list[TensorHolder | None]:
    """Of the node that makes it; absent operands are None."""
    builder = tensor.get_owner_builder()
    return [
        None if native is None else holder.make(builder, native)
        for native in _passes.operands_of(tensor._native)
    ]


def uses(tensor: TensorHolder) -> int:
    """Number of uses; being a result of the graph counts."""
    return _passes.uses_of(tensor._native)


def attr(tensor: TensorHolder, name: str) -> Any:
    """A number, a bool, a string or a list of them; dtypes and symbolic sizes are strings."""
    text = _passes.attr_of(tensor._native, name)
    try:
        return ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
    except (ValueError, SyntaxError):
        return text


def constant(tensor: TensorHolder) -> Any:
    """The number or nested list of a constant. EsError if it is not a constant."""
    elements, shape = _passes.constant_of(tensor._native)
    if not shape:
        return elements[0]
    for size in reversed(shape[1:]):
        elements = [elements[k : k + size] for k in range(0, len(elements), size)] if size else []
    return elements
