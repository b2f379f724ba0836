"""Runs a whole graph through PyTorch, op by op, as one function."""

from __future__ import annotations

import operator
import re
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from gex.compat.graph_modules import generate_boxed_code

# A statement that calls an overload. A line never begins inside a string literal.
_CALL = re.compile(r"(?m)^(    \w+ = )torch\.ops\.(\w+\.\w+\.\w+)\(")


def function_of(gm: GraphModule) -> Callable[[list[Any]], Sequence[Any]]:
    """Takes the list of arguments, empties it and releases each argument at its last use.

    Like the code that FX generates, but overloads are looked up once instead of at each call.
    """
    generate_boxed_code(gm.graph)
    code = gm.graph.python_code("self")
    names = dict(code.globals)

    def bind(call: re.Match[str]) -> str:
        name = "op_" + call[2].replace(".", "_")
        overload = operator.attrgetter(call[2])(torch.ops)
        names[name] = getattr(overload, "_op", overload)
        return f"{call[1]}{name}("

    exec(compile(_CALL.sub(bind, code.src), f"<{gm._get_name()}>", "exec"), names)
    forward = names["forward"]
    forward._boxed_call = True
    return types.MethodType(forward, gm)
