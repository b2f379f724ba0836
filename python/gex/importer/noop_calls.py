"""Calls that change nothing. With `remove_noop_ops=False` they stay in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from gex._gex import AtenFacts
from gex.op_facts import facts_of

# Whether, for equal sizes, the other arguments make such a call a no-op.
Harmless = Callable[[tuple[Any, ...]], bool]


def _always(args: tuple[Any, ...]) -> bool:
    return True


def _on_integers(args: tuple[Any, ...]) -> bool:
    source = args[0].meta["val"] if isinstance(args[0], Node) else None
    return isinstance(source, torch.Tensor) and not source.dtype.is_floating_point


def _pads_nothing(args: tuple[Any, ...]) -> bool:
    return all(isinstance(p, int) and p == 0 for p in args[1])


_NoOp = AtenFacts.NoOp
_HARMLESS: dict[AtenFacts.NoOp, Harmless] = {
    _NoOp.always: _always,
    _NoOp.no_padding: _pads_nothing,
    _NoOp.on_integers: _on_integers,
    _NoOp.one_part: lambda args: len(args[0]) == 1,
    _NoOp.power_of_one: lambda args: args[1] == 1,
}


def source_of(target: Any, args: tuple[Any, ...], result: Any) -> Node | None:
    """The argument that the call returns unchanged; None if it is not a no-op."""
    facts = facts_of(target)
    harmless = _HARMLESS.get(facts.no_op)
    if harmless is None or len(args) <= facts.no_op_argument or not harmless(args):
        return None
    source = args[facts.no_op_argument]
    if facts.no_op == _NoOp.one_part:
        (source,) = source
    if not isinstance(source, Node) or not _alike(source.meta.get("val"), result):
        return None
    return source


def _alike(one: Any, other: Any) -> bool:
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return False
    sizes = [tuple(str(s) for s in (*t.shape, *t.stride())) for t in (one, other)]
    return (one.dtype, one.device, sizes[0]) == (other.dtype, other.device, sizes[1])
