"""Operators of namespace `npugraph_ex` that mark a position in a graph and compute nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.node import has_side_effect

from gex.compat.operators import OpOverload

NAMESPACE = "npugraph_ex"
_library = torch.library.Library(NAMESPACE, "FRAGMENT")
_numbers = itertools.count(1)


def _nothing(*_: object, **__: object) -> None:
    pass


def define_mark(schema: str, run: Callable[..., Any] = _nothing) -> OpOverload:
    """Defines an operator that keeps its position in a graph, whether its result is used or not."""
    name = schema.partition("(")[0]
    _library.define(schema)
    _library.impl(name, run, "CompositeExplicitAutograd")
    mark = getattr(getattr(torch.ops, NAMESPACE), name).default
    has_side_effect(mark)
    return mark


@torch.compiler.assume_constant_result
def new_number() -> int:
    """For a mark, a stream or an event; the same in every call of a graph."""
    return next(_numbers)
