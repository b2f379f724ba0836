"""The origin of a graph: the function that Dynamo is compiling, and why it recompiles."""

from __future__ import annotations

import inspect
import os
import types
import weakref
from dataclasses import dataclass
from typing import Any

from torch.nn import Module

from gex.compat import tracing


@dataclass(frozen=True)
class Origin:
    code: types.CodeType
    compile_id: str
    recompile_reason: str | None  # what changed, according to Dynamo; None for the first compile
    module: weakref.ref[Module] | None = None  # of PyTorch's own class, called as a whole
    owner: weakref.ref[Module] | None = None  # whose method the code is

    def text(self) -> str:
        module = None if self.module is None else self.module()
        if module is not None:
            return f"{type(module).__name__}, compile {self.compile_id}"
        code = self.code
        where = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
        return f"{code.co_name} ({where}), compile {self.compile_id}"


def current_origin() -> Origin | None:
    """Of the frame being compiled; None outside of Dynamo."""
    compile_id = tracing.current_compile_id()
    if compile_id is None:
        return None
    reason = tracing.recompile_reason()
    trace = tracing.current_translator()
    code = trace.f_code
    while (before_break := tracing.code_before_break(code)) is not None:
        code = before_break
    module = None
    if code.co_filename == tracing.WRAPPER_FILE:
        code, module = _wrapped(code, trace)
    return Origin(code, compile_id, reason, module, _owner(trace))


def _owner(trace: Any) -> weakref.ref[Module] | None:
    """Decorated methods of many classes share one code object: `self` tells them apart."""
    names = trace.f_code.co_varnames
    first = trace.f_locals.get("self", trace.f_locals.get(names[0]) if names else None)
    return weakref.ref(first) if isinstance(first, Module) else None


def _wrapped(code: types.CodeType, trace: Any) -> tuple[types.CodeType, weakref.ref[Module] | None]:
    """The function inside the wrapper frame that Dynamo adds around functions it would skip."""
    for cell in getattr(trace, "closure", None) or ():
        inside = inspect.unwrap(cell.cell_contents) if callable(cell.cell_contents) else None
        for owner in (inside, getattr(inside, "__self__", None)):
            if isinstance(owner, Module):
                return code, weakref.ref(owner)
        if isinstance(inside, types.FunctionType):
            return inside.__code__, None
    return code, None
