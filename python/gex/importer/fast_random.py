"""`options={"random": "fast"}`: random numbers computed inside kernels.

Each call of a compiled graph takes one key from PyTorch's generator; every number is a function of
the key, the position of its draw in the graph and its index. Draws without a native form, or with
their own generator, still go through PyTorch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from gex._gex import Value

if TYPE_CHECKING:
    from gex.importer.node_import import Env, NodeImporter, OpCall

_aten = torch.ops.aten

# From an overload's arguments by name to those of the row after key and stream.
_Row = tuple[str, Callable[[dict[str, Any]], tuple[Any, ...] | None]]


def _dropout(given: dict[str, Any]) -> tuple[Any, ...] | None:
    return (given["input"], given["p"]) if given["train"] is not False else None


_ROWS: dict[Any, _Row] = {
    _aten.rand.default: ("gex.uniform.default", lambda given: (0.0, 1.0)),
    _aten.rand_like.default: ("gex.uniform.default", lambda given: (0.0, 1.0)),
    _aten.uniform.default: ("gex.uniform.default", lambda given: (given["from"], given["to"])),
    _aten.randn.default: ("gex.normal.default", lambda given: (0.0, 1.0)),
    _aten.randn_like.default: ("gex.normal.default", lambda given: (0.0, 1.0)),
    _aten.normal_functional.default: (
        "gex.normal.default",
        lambda given: (given["mean"], given["std"]),
    ),
    _aten.bernoulli.default: ("gex.bernoulli.default", lambda given: (given["self"],)),
    _aten.bernoulli.p: ("gex.bernoulli.default", lambda given: (given["p"],)),
    _aten.native_dropout.default: ("gex.native_dropout.default", _dropout),
}


def draw_key() -> torch.Tensor:
    """The key of one call."""
    return torch.empty((), dtype=torch.int64).random_()


class FastRandom:
    """The draws of one graph."""

    def __init__(self) -> None:
        self._key: Value | None = None
        self._streams = itertools.count()

    def try_add(self, nodes: NodeImporter, call: OpCall, env: Env) -> list[Value] | None:
        """The values of a draw, or None if it must go through PyTorch."""
        row = _ROWS.get(call.target)
        if row is None:
            return None
        name, choose = row
        given = {
            argument.name: (
                call.args[i]
                if i < len(call.args) and not argument.kwarg_only
                else call.kwargs.get(argument.name, argument.default_value)
            )
            for i, argument in enumerate(call.target._schema.arguments)
        }
        chosen = choose(given)
        if chosen is None or given.get("generator") is not None:
            return None
        if any(isinstance(c, Node) and not isinstance(env.get(c), Value) for c in chosen):
            return None
        if self._key is None:
            self._key = nodes.add_own_call(draw_key, torch.empty((), dtype=torch.int64))
        operands = [env[c] if isinstance(c, Node) else c for c in chosen]
        return nodes.add_own_row(name, [self._key, next(self._streams), *operands], call)
