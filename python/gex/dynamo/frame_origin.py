"""Where a graph comes from: the function that Dynamo is compiling, and why it does so again."""

from __future__ import annotations

import inspect
import os
import types
import weakref
from dataclasses import dataclass
from typing import Any

from torch._dynamo import external_utils
from torch._dynamo.resume_execution import ContinueExecutionCache
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._dynamo.utils import get_metrics_context
from torch._guards import CompileContext
from torch.nn import Module


@dataclass(frozen=True)
class Origin:
    code: types.CodeType
    compile_id: str
    recompile_reason: str | None  # what Dynamo found changed; None for the first compile
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
    """Of the frame that is being compiled now; None outside of Dynamo."""
    compile_id = CompileContext.current_compile_id()
    if compile_id is None:
        return None
    metrics = get_metrics_context()
    reason = metrics._metrics.get("recompile_reason") if metrics.in_progress() else None
    trace = InstructionTranslator.current_tx()
    code = trace.f_code
    while (after_break := ContinueExecutionCache.generated_code_metadata.get(code)) is not None:
        code = after_break.code
    module = None
    if code.co_filename == external_utils.__file__:
        code, module = _wrapped(code, trace)
    return Origin(code, str(compile_id), reason, module, _owner(trace))


def _owner(trace: Any) -> weakref.ref[Module] | None:
    """Decorators give methods of many classes one code: what tells them apart is `self`."""
    names = trace.f_code.co_varnames
    first = trace.f_locals.get("self", trace.f_locals.get(names[0]) if names else None)
    return weakref.ref(first) if isinstance(first, Module) else None


def _wrapped(code: types.CodeType, trace: Any) -> tuple[types.CodeType, weakref.ref[Module] | None]:
    """Dynamo puts a frame of its own around functions that it would skip: what is inside."""
    for cell in getattr(trace, "closure", None) or ():
        inside = inspect.unwrap(cell.cell_contents) if callable(cell.cell_contents) else None
        for owner in (inside, getattr(inside, "__self__", None)):
            if isinstance(owner, Module):
                return code, weakref.ref(owner)
        if isinstance(inside, types.FunctionType):
            return inside.__code__, None
    return code, None
