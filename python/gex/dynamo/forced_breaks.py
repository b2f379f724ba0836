"""BREAK_GRAPH_OP_LIST: operations at which Dynamo is to end a graph, whatever the backend."""

from __future__ import annotations

import difflib
import functools
import operator
import os
from collections.abc import Callable
from typing import Any

import torch

VARIABLE = "BREAK_GRAPH_OP_LIST"


def _break_at_function(function: Callable[..., Any]) -> Callable[[], None]:
    def install() -> None:
        torch._dynamo.disallow_in_graph(function)

    return install


def _break_at_indexing(function: Any, applies: Callable[[Any], bool]) -> Callable[[], None]:
    """Wraps what Dynamo traces indexing of tensors by; which one of two depends on its version."""
    what = function.__name__
    method = f"method___{what}__"

    def install() -> None:
        from torch._dynamo.exc import unimplemented
        from torch._dynamo.variables.builtin import BuiltinVariable
        from torch._dynamo.variables.tensor import TensorVariable

        def check(key: Any) -> None:
            if applies(key.realize()):
                unimplemented(
                    gb_type=f"{what} in {VARIABLE}",
                    context="",
                    explanation=f"the environment variable {VARIABLE} asks for a break here",
                    hints=[],
                )

        by_builtin, by_method = BuiltinVariable.call_function, getattr(TensorVariable, method)

        @functools.wraps(by_builtin)
        def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
            if self.fn is function and isinstance(args[0].realize(), TensorVariable):
                check(args[1])
            return by_builtin(self, tx, args, kwargs)

        @functools.wraps(by_method)
        def call_method(self: Any, tx: Any, key: Any, *rest: Any, **kwargs: Any) -> Any:
            check(key)
            return by_method(self, tx, key, *rest, **kwargs)

        BuiltinVariable.call_function = call_function
        setattr(TensorVariable, method, call_method)

    return install


def _has_slice(key: Any) -> bool:
    from torch._dynamo.variables.lists import SliceVariable, TupleVariable

    items = key.items if isinstance(key, TupleVariable) else [key]
    return any(isinstance(item, SliceVariable) for item in items)


BREAKS: dict[str, Callable[[], None]] = {
    "SLICE": _break_at_indexing(operator.getitem, _has_slice),
    "SETITEM": _break_at_indexing(operator.setitem, lambda key: True),
    "NN.CONV3D": _break_at_function(torch.nn.functional.conv3d),
    "NN.LINEAR": _break_at_function(torch.nn.functional.linear),
}


@functools.cache
def install() -> None:
    """Reads the variable once in a process. RuntimeError for a name that is not known."""
    names = [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    for name in names:
        if name not in BREAKS:
            close = difflib.get_close_matches(name.upper(), BREAKS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise RuntimeError(f"{VARIABLE}: unknown name {name!r}{hint} Known: {list(BREAKS)}")
    for name in names:
        BREAKS[name]()
